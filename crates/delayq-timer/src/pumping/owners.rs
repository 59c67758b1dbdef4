//! Who owns what: shards that come and go, wake-ups of theirs, and a deployment that grows.

use super::Pumping;
use crate::calls::Call;
use crate::events;
use crate::nodes::Moved;
use delayq::ShardCount;
use delayq::protocol::{Notification, ShardId};
use delayq_cluster::{DrainReport, Lost, OwnershipChange};
use delayq_service::Fault;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Wakes that are received in one go.
const WAKES_A_STEP: usize = 1024;
/// How long the last calls, giving the locks back, and the farewell may take: each of the three.
const FAREWELL: Duration = Duration::from_millis(500);

// === impl Pumping ===

impl Pumping {
    pub(super) fn notified(&mut self, first: Notification) {
        let (mut next, now) = (Some(first), Instant::now());
        for _ in 0..WAKES_A_STEP {
            match next.take().or_else(|| self.wakes.try_next()) {
                Some(Notification::Wake(shard, due)) => {
                    self.schedule.wake(shard, due);
                    let until = self.nodes.until(self.nodes.of(shard), due, now);
                    self.foreign.wake(shard, now + until);
                }
                Some(Notification::Resync) => {
                    self.metrics.resyncs.inc();
                    self.schedule.poll_all();
                    self.foreign.missed_some(now);
                }
                Some(Notification::Ready(..)) => {}
                None => return,
            }
        }
    }

    pub(super) fn change(&mut self, change: OwnershipChange) {
        let now = Instant::now();
        self.fleet.trust(change.trust, &self.metrics);
        for lost in change.lost {
            self.lose(lost);
        }
        for &shard in &change.gained {
            self.owning.gain(shard, now);
        }
        self.listen(change.gained, now);
        self.count_shards();
    }

    /// Listens to the shards that are given to this timer, and to others' where few share them.
    fn listen(&mut self, gained: Vec<ShardId>, now: Instant) {
        let (given, others): (Vec<_>, Vec<_>) =
            self.client.shards().shards().partition(|&shard| self.owning.is_given(shard));
        if !self.is_single() {
            let timers = self.other_timers(given.len());
            self.foreign.set(others.into_iter(), timers, now);
        }
        let wanted: BTreeSet<ShardId> = given.into_iter().chain(self.foreign.to_listen()).collect();
        self.wakes.follow(wanted, gained);
    }

    pub(super) fn other_timers(&self, given: usize) -> usize {
        self.fleet.others(given, usize::from(self.client.shards().get()))
    }

    /// Places the shards at the nodes that have them now.
    pub(super) fn place(&mut self, now: Instant) {
        for Moved { shard, from, to } in self.nodes.place(self.client.shards(), &mut self.schedule, now) {
            if let Some(from) = from {
                events::moved(shard, &self.nodes[from].name, &self.nodes[to].name);
                if !self.nodes.is_used(from) {
                    self.health.forget(from);
                }
            }
        }
        self.send_holds(now);
    }

    /// The deployment has more shards now: the plan gives the new ones out.
    pub(super) fn grow(&mut self, shards: ShardCount) {
        self.place(Instant::now());
        self.fleet.handle().set_shards(shards);
        self.listen(Vec::new(), Instant::now());
    }

    fn lose(&mut self, lost: Lost) {
        let shard = lost.shard;
        events::parted(&self.metrics, shard, &lost.reason);
        self.schedule.drop(shard);
        let node = self.nodes.of(shard);
        self.nodes[node].clock.drop(shard);
        self.progress.drop(shard);
        self.forgetting.drop(shard);
        self.surveys.drop(shard);
        self.books.drop(shard);
        self.owning.lose(lost);
    }

    pub(super) fn drain(&mut self) {
        self.stopping = Some(Instant::now());
        // Who leaves gives everything away as it is.
        self.health.leave();
        self.send(Call::Drain);
    }

    /// Waits for the calls that are out, gives locks back, and leaves.
    pub(super) async fn farewell(mut self, report: DrainReport) -> Result<(), Fault> {
        let _ = timeout(FAREWELL, self.calls.settle()).await;
        if self.is_single() {
            let _ = timeout(FAREWELL, self.calls.give_locks_back()).await;
        }
        self.fleet.handle().leave(FAREWELL).await;
        let took = self.stopping.map_or(report.took, |since| since.elapsed());
        events::stopped(took, report.left_over.len());
        Ok(())
    }
}
