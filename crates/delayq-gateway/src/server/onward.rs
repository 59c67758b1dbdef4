//! The rest of a connection that has switched to another protocol.

use delayq_service::Shutdown;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Clones share the place. The rest runs in the task of the connection, so a connection counts as long as it is open.
#[derive(Clone, Default)]
pub(crate) struct Onward(Arc<Mutex<Option<Following>>>);

type Following = Box<dyn FnOnce(Terms) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The rules of a connection.
pub(crate) struct Terms {
    pub(crate) shutdown: Shutdown,
    /// Longest time without a byte of the client.
    pub(crate) silence: Duration,
}

// === impl Onward ===

impl Onward {
    pub(crate) fn set<F>(&self, following: impl FnOnce(Terms) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let following: Following = Box::new(move |terms| Box::pin(following(terms)));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(following);
    }

    /// Runs the rest, if there is any, after the last request.
    pub(super) async fn follow(&self, terms: Terms) {
        let following = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(following) = following {
            following(terms).await;
        }
    }
}

impl fmt::Debug for Onward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Onward")
    }
}
