//! Sends gathered puts in one pipeline.

use super::puts::Puts;
use super::waiting::Waiting;
use crate::calls::Ride;
use crate::placing::Placing;
use delayq_core::durability::Waits;

pub(super) struct Sender {
    pub(super) placing: Placing,
}

// === impl Sender ===

impl Sender {
    /// Sends a call for each shard and topic, in a single pipeline that waits for `waits`. Repeated puts continue in
    /// the background, so that the queue is not held up.
    pub(super) async fn send(&self, gathered: Vec<Waiting>, waits: &Waits) {
        let present = self.placing.present_shard();
        if gathered.iter().any(|waiting| waiting.put.place.home() == present) {
            self.placing.next_shard();
        }
        let items = (0..gathered.len()).collect();
        let (mut puts, rules) = Puts::new(&self.placing, gathered, waits);
        let mut ride = Ride::new(self.placing.calls(), rules, items);
        ride.round(&mut puts).await;
        if !ride.is_over() {
            puts.leave_queue();
            tokio::spawn(async move { ride.finish(&mut puts).await });
        }
    }
}
