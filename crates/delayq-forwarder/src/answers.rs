//! The answers to one call that come one by one, from elsewhere: each is there as soon as it is known, and one wake-up says
//! when the last of them is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// So many answers, each at its place.
#[derive(Debug)]
pub struct Answers<T> {
    state: Mutex<State<T>>,
    complete: Notify,
}

#[derive(Debug)]
struct State<T> {
    known: Vec<bool>,
    missing: usize,
    /// Those that nobody has taken yet.
    fresh: Vec<(usize, T)>,
}

// === impl Answers ===

impl<T> Answers<T> {
    /// None is there yet.
    #[must_use]
    pub fn new(count: usize) -> Arc<Self> {
        let state = State { known: vec![false; count], missing: count, fresh: Vec::with_capacity(count) };
        let answers = Self { state: Mutex::new(state), complete: Notify::new() };
        if count == 0 {
            answers.complete.notify_one();
        }
        Arc::new(answers)
    }

    /// Puts an answer at its place; the first one there counts, and one of no place is passed over.
    pub fn put(&self, place: usize, answer: T) {
        let mut state = self.state();
        if state.known.get(place) != Some(&false) {
            return;
        }
        state.known[place] = true;
        state.missing -= 1;
        state.fresh.push((place, answer));
        if state.missing == 0 {
            self.complete.notify_one();
        }
    }

    /// Puts one answer at each place, in their order.
    pub fn put_all(&self, answers: impl IntoIterator<Item = T>) {
        answers.into_iter().enumerate().for_each(|(place, answer)| self.put(place, answer));
    }

    /// Takes what has come since the last time, with its places.
    pub fn fresh(&self) -> Vec<(usize, T)> {
        std::mem::take(&mut self.state().fresh)
    }

    /// Until every answer is there. For one waiter, once.
    pub async fn complete(&self) {
        self.complete.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // A place and the count of those that miss change together, and nothing between them can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Answers<T> {
    /// Puts this answer at every place that has none.
    pub fn put_rest(&self, answer: &T) {
        let places = self.state().known.len();
        (0..places).for_each(|place| self.put(place, answer.clone()));
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
