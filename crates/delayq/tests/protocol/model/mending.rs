//! The state of a stuck message after a sweep has mended the shard.

use super::{Model, Place, ms};
use crate::snapshot::Name;

// === impl Model ===

impl Model {
    /// The message lost its body: the message is gone, and counts as never accepted unless finished.
    pub(crate) fn lose(&mut self, name: &Name) {
        let was = self.messages.remove(name).expect("it was there");
        if !was.is_over() {
            *self.books.entry(("accepted", name.0)).or_default() -= 1;
        }
    }

    /// True if a message of this due time would go straight to its queue.
    pub(crate) fn is_ready_now(&self, due: u64) -> bool {
        due <= self.now() && !self.held
    }

    /// The message was in no place: the sweep placed the message now.
    pub(crate) fn place_again(&mut self, name: &Name) {
        let now = ms(self.now());
        self.messages.get_mut(name).expect("it is there").stored.at = now;
    }

    /// The message lost its lease: the new lease ends at the time in the message, and no later than a lease
    /// granted now.
    pub(crate) fn lease_again(&mut self, name: &Name) {
        let latest = self.now() + self.policy(name.0, "lease_ms");
        let msg = self.messages.get_mut(name).expect("it is there");
        if let Place::Leased { until, .. } = &mut msg.place {
            *until = latest.min(msg.stored.at.get());
        }
    }
}
