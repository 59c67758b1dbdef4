//! The answers to one call, which arrive one by one from other tasks. Each is available at once; one wake-up announces
//! the last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A fixed number of answers, each at its index.
#[derive(Debug)]
pub struct Answers<T> {
    state: Mutex<Arrivals<T>>,
    complete: Notify,
}

#[derive(Debug)]
struct Arrivals<T> {
    known: Vec<bool>,
    missing: usize,
    fresh: Vec<(usize, T)>,
}

// === impl Answers ===

impl<T> Answers<T> {
    /// Creates a collection without answers.
    #[must_use]
    pub fn new(count: usize) -> Arc<Self> {
        let state = Arrivals { known: vec![false; count], missing: count, fresh: Vec::with_capacity(count) };
        let answers = Self { state: Mutex::new(state), complete: Notify::new() };
        if count == 0 {
            answers.complete.notify_one();
        }
        Arc::new(answers)
    }

    /// Stores an answer at its index. The first answer for an index wins; an index out of range is ignored.
    pub fn put(&self, index: usize, answer: T) {
        let mut state = self.state();
        if state.known.get(index) != Some(&false) {
            return;
        }
        state.known[index] = true;
        state.missing -= 1;
        state.fresh.push((index, answer));
        if state.missing == 0 {
            self.complete.notify_one();
        }
    }

    /// Stores one answer at each index, in order.
    pub fn put_all(&self, answers: impl IntoIterator<Item = T>) {
        answers.into_iter().enumerate().for_each(|(index, answer)| self.put(index, answer));
    }

    /// Fetches the answers that arrived since the last call, with their indices.
    pub fn fresh(&self) -> Vec<(usize, T)> {
        std::mem::take(&mut self.state().fresh)
    }

    /// Waits until every answer has arrived. Supports one waiter, once.
    pub async fn complete(&self) {
        self.complete.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, Arrivals<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Answers<T> {
    /// Stores this answer at every index without an answer.
    pub fn put_rest(&self, answer: &T) {
        let count = self.state().known.len();
        (0..count).for_each(|index| self.put(index, answer.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn they_are_complete_with_the_last_and_the_first_at_an_index_counts() {
        let answers = Answers::new(2);
        assert!(answers.complete().now_or_never().is_none());
        answers.put(1, 'b');
        answers.put(1, 'x');
        answers.put(7, 'y');
        assert!(answers.complete().now_or_never().is_none());
        assert_eq!(answers.fresh(), [(1, 'b')]);
        answers.put_rest(&'a');
        assert!(answers.complete().now_or_never().is_some());
        assert_eq!(answers.fresh(), [(0, 'a')]);
        answers.put(0, 'z');
        assert_eq!(answers.fresh(), []);
    }

    #[test]
    fn none_are_complete_at_once() {
        assert!(Answers::<()>::new(0).complete().now_or_never().is_some());
    }
}
