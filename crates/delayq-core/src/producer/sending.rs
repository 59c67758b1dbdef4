//! Sending what was gathered, in one pipeline.

use super::Waiting;
use crate::{Client, placing::Placed};

/// What sends the puts that were gathered.
pub(super) struct Sender(pub(super) Client);

// === impl Sender ===

impl Sender {
    /// Sends what was gathered: one call for each shard and topic, in one pipeline.
    pub(super) async fn send(&self, gathered: Vec<Waiting>) {
        self.0.next_shard();
        let (mut puts, waiting): (Vec<Placed>, Vec<_>) =
            gathered.into_iter().map(|Waiting { put, answer, _room }| (put, (answer, _room))).unzip();
        for ((waiting, _room), answer) in waiting.into_iter().zip(self.0.put_placed(&mut puts).await) {
            // Whoever waited may be gone: the put is carried out all the same.
            let _ = waiting.send(answer);
        }
    }
}
