//! The answers to one call of a sink that come one by one, from elsewhere; one wake-up when the last of them is there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// So many answers, each at its place.
pub(super) struct Answers<T> {
    state: Mutex<State<T>>,
    complete: Notify,
}

struct State<T> {
    places: Vec<Option<T>>,
    missing: usize,
}

// === impl Answers ===

impl<T> Answers<T> {
    /// None is there yet.
    pub(super) fn new(count: usize) -> Arc<Self> {
        let places = (0..count).map(|_| None).collect();
        let answers = Self { state: Mutex::new(State { places, missing: count }), complete: Notify::new() };
        if count == 0 {
            answers.complete.notify_one();
        }
        Arc::new(answers)
    }

    /// Puts an answer at its place; the first one there counts, and one of no place is passed over.
    pub(super) fn put(&self, place: usize, answer: T) {
        let mut state = self.state();
        if let Some(empty) = state.places.get_mut(place).filter(|found| found.is_none()) {
            *empty = Some(answer);
            state.missing -= 1;
            if state.missing == 0 {
                self.complete.notify_one();
            }
        }
    }

    /// Until every answer is there. For one waiter, once.
    pub(super) async fn complete(&self) {
        self.complete.notified().await;
    }

    /// Takes what is there.
    pub(super) fn take(&self) -> Vec<Option<T>> {
        std::mem::take(&mut self.state().places)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // A place and the count of those that miss change together, and nothing between them can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn they_are_complete_when_the_last_is_there_and_the_first_at_a_place_counts() {
        let answers = Answers::new(2);
        assert!(answers.complete().now_or_never().is_none());
        answers.put(1, 'b');
        answers.put(1, 'x');
        answers.put(7, 'y');
        assert!(answers.complete().now_or_never().is_none());
        answers.put(0, 'a');
        assert!(answers.complete().now_or_never().is_some());
        assert_eq!(answers.take(), [Some('a'), Some('b')]);
        answers.put(0, 'z');
        assert_eq!(answers.take(), []);
    }

    #[test]
    fn none_are_complete_at_once() {
        assert!(Answers::<()>::new(0).complete().now_or_never().is_some());
    }
}
