//! Changes of ownership: shards gained and lost, their wake-ups, and a growing deployment.

use super::Pumping;
use crate::events;
use crate::node_id::NodeId;
use crate::nodes::{Moved, Nodes};
use delayq::ShardCount;
use delayq::protocol::{Notification, ShardId};
use delayq_cluster::{OwnershipView, Owning};
use delayq_service::Fault;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Maximum wakes received in one step.
const WAKES_A_STEP: usize = 1024;
/// How long a stopping timer waits until its shards are fenced.
const HAND_OVER: Duration = Duration::from_secs(3);
/// Maximum time for each of three steps: the last calls, giving the locks back, and the farewell.
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
                    self.verify_nodes();
                }
                Some(Notification::Ready(..)) => {}
                None => return,
            }
        }
    }

    /// Follows a new view of the plan.
    pub(super) fn follow(&mut self, view: &OwnershipView) {
        let now = Instant::now();
        self.fleet.trust(view.trust, &self.metrics);
        let turn = self.owning.follow(view, now);
        for shard in turn.gone {
            events::parted(shard);
            self.let_go(shard);
        }
        self.listen(turn.gained, now);
        self.count_shards();
    }

    /// Listens to the shards that are pumped here now or soon, and to other timers' shards if few timers share the
    /// shards.
    pub(super) fn listen(&mut self, gained: Vec<ShardId>, now: Instant) {
        let given: BTreeSet<ShardId> = self.owning.shards().collect();
        if !self.is_single() {
            let (timers, owning) = (self.other_timers(given.len()), &self.owning);
            let others = self.client.shards().shards().filter(|&shard| owning.is_others(shard));
            self.foreign.set(others, timers, now);
        }
        let wanted: BTreeSet<ShardId> = given.into_iter().chain(self.foreign.to_listen()).collect();
        self.wakes.follow(wanted, gained);
    }

    pub(super) fn other_timers(&self, given: usize) -> usize {
        self.fleet.others(given, usize::from(self.client.shards().get()))
    }

    /// Registers the shards that this timer cannot reach, if the set changed, so that other timers take over.
    pub(super) fn turn_health(&mut self, now: Instant) {
        let (nodes, owning) = (&self.nodes, &self.owning);
        let has_shards = |node| is_given_any(nodes, owning, node);
        if !self.health.turn(now, has_shards, |shard| owning.is_given(shard)) {
            return;
        }
        let unreached = self.health.unreached().iter();
        let names: Vec<&str> = unreached.map(|&node| nodes[node].name.as_str()).collect();
        events::hindrance_changed(&self.metrics, &names, self.health.missing());
        self.register_reach();
        self.poll.at_once(now);
    }

    /// Returns true if any shard of a node is planned for this timer.
    pub(super) fn is_given_any_of(&self, node: NodeId) -> bool {
        is_given_any(&self.nodes, &self.owning, node)
    }

    fn register_reach(&self) {
        let out = |&shard: &ShardId| self.health.is_out_of_reach(self.nodes.of(shard), shard);
        self.fleet.handle().set_hindered(self.client.shards().shards().filter(out).collect());
    }

    /// Places each shard at its current node.
    pub(super) fn place(&mut self, now: Instant) {
        for Moved { shard, from, to } in self.nodes.place(self.client.shards(), &mut self.schedule, now) {
            if let Some(from) = from {
                events::moved(shard, &self.nodes[from].name, &self.nodes[to].name);
                self.health.placed(shard);
                if !self.nodes.is_used(from) {
                    self.health.forget(from);
                }
            }
        }
        self.register_reach();
        self.send_holds(now);
    }

    /// Follows a growth of the deployment: the plan assigns the new shards.
    pub(super) fn grow(&mut self, shards: ShardCount) {
        self.place(Instant::now());
        self.fleet.handle().set_shards(shards);
        self.listen(Vec::new(), Instant::now());
    }

    /// Stops pumping a shard here.
    pub(super) fn let_go(&mut self, shard: ShardId) {
        self.metrics.epoch(shard, None);
        self.schedule.drop(shard);
        let node = self.nodes.of(shard);
        self.nodes[node].clock.drop(shard);
        self.progress.drop(shard);
        self.forgetting.drop(shard);
        self.surveys.drop(shard);
        self.books.drop(shard);
        self.fewer = true;
        self.count_shards();
    }

    /// Asks for other owners; this timer pumps each shard until the new owner fences the shard.
    pub(super) fn drain(&mut self) {
        self.stopping = Some(Instant::now());
        // A leaving timer gives its shards away, whatever its health.
        self.health.leave();
        self.fleet.handle().drain();
    }

    /// Returns true if this timer stops and has no shard left, or if the time for handing over has passed.
    pub(super) fn has_handed_over(&self) -> bool {
        self.stopping.is_some_and(|since| self.owning.is_empty() || since.elapsed() >= HAND_OVER)
    }

    /// Waits for the calls in flight, gives locks back, and leaves.
    pub(super) async fn farewell(mut self) -> Result<(), Fault> {
        let _ = timeout(FAREWELL, self.calls.settle()).await;
        if self.is_single() {
            let _ = timeout(FAREWELL, self.calls.give_locks_back()).await;
        }
        self.fleet.handle().leave(FAREWELL).await;
        let took = self.stopping.map_or(Duration::ZERO, |since| since.elapsed());
        events::stopped(took, self.schedule.count());
        Ok(())
    }
}

/// Returns true if any shard of a node is planned for this timer.
fn is_given_any(nodes: &Nodes, owning: &Owning, node: NodeId) -> bool {
    owning.shards().any(|shard| nodes.of(shard) == node && owning.is_given(shard))
}
