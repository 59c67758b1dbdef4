//! Servers that a test has for itself, and that the next test gets, emptied: a JVM or an Erlang starts for seconds of CPU.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// A kind of server that is lent.
pub trait Lendable: Sized + Send + 'static {
    /// The servers that ended tests left.
    fn idle() -> &'static Mutex<Vec<Self>>;
    /// False for a stopped server and after a start with special settings.
    fn is_lendable(&self) -> bool;
    /// Deletes what a test left.
    fn empty(&mut self) -> impl Future<Output = ()> + Send;
}

/// A server that nobody else uses.
#[derive(Debug)]
pub struct Lent<S: Lendable>(Option<S>);

// === impl Lent ===

impl<S: Lendable> Lent<S> {
    /// Takes a server that an earlier test left, or starts one. All tests of a program start theirs alike.
    pub async fn take(start: impl AsyncFnOnce() -> S) -> Self {
        let left = S::idle().lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(mut server) = left else {
            return start().await.into();
        };
        server.empty().await;
        server.into()
    }
}

impl<S: Lendable> From<S> for Lent<S> {
    fn from(server: S) -> Self {
        Self(Some(server))
    }
}

impl<S: Lendable> Deref for Lent<S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.0.as_ref().expect("it is there until the drop")
    }
}

impl<S: Lendable> DerefMut for Lent<S> {
    fn deref_mut(&mut self) -> &mut S {
        self.0.as_mut().expect("it is there until the drop")
    }
}

impl<S: Lendable> Drop for Lent<S> {
    fn drop(&mut self) {
        if let Some(server) = self.0.take().filter(S::is_lendable)
            && !std::thread::panicking()
        {
            S::idle().lock().unwrap_or_else(PoisonError::into_inner).push(server);
        }
    }
}
