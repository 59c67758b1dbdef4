//! What is left of a message that got stuck, once a sweep has mended it.

use super::{Model, Place, ms};
use crate::snapshot::Name;

// === impl Model ===

impl Model {
    /// Its body was gone: then it is gone, and one that was not finished counts as never accepted.
    pub(crate) fn lose(&mut self, name: &Name) {
        let was = self.messages.remove(name).expect("it was there");
        if !was.is_over() {
            *self.books.entry(("accepted", name.0)).or_default() -= 1;
        }
    }

    /// Whether a message of this due time is ready where it is placed now.
    pub(crate) fn is_ready_now(&self, due: u64) -> bool {
        due <= self.now() && !self.held
    }

    /// It was in no place: it is placed again, now.
    pub(crate) fn place_again(&mut self, name: &Name) {
        let now = ms(self.now());
        self.messages.get_mut(name).expect("it is there").stored.at = now;
    }

    /// It had no lease: it gets one that ends when the message says, and no later than one granted now.
    pub(crate) fn lease_again(&mut self, name: &Name) {
        let latest = self.now() + self.policy(name.0, "lease_ms");
        let msg = self.messages.get_mut(name).expect("it is there");
        if let Place::Leased { until, .. } = &mut msg.place {
            *until = latest.min(msg.stored.at.get());
        }
    }
}
