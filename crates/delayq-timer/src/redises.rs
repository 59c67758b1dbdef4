//! The Redises of the shards: their clocks, their health, and the calls to them.

use crate::calls::{Answer, Call, Calls, NO_LATER, SHARDS_A_CALL};
use crate::config::TimerConfig;
use crate::events;
use crate::metrics::TimerMetrics;
use crate::redis_health::{Change, RedisHealth};
use crate::safety_poll::SafetyPoll;
use crate::shards::PumpedShards;
use delayq::protocol::scheduling::{Comparison, Guard, Moved, NodeId, Nodes, Round, Schedule, Trip, Verdict};
use delayq::protocol::{ShardId, UnixMicros};
use delayq::{Client, Error};
use delayq_cluster::Owning;
use std::time::Instant;

/// The Redises of the shards.
pub(crate) struct Redises {
    client: Client,
    nodes: Nodes,
    pub(crate) health: RedisHealth,
    pub(crate) calls: Calls,
    poll: SafetyPoll,
    metrics: TimerMetrics,
}

// === impl Redises ===

impl Redises {
    /// `alone`: no other timer can take the shards.
    pub(crate) fn new(
        config: &TimerConfig,
        calls: Calls,
        alone: bool,
        metrics: TimerMetrics,
        now: Instant,
    ) -> Self {
        let guard = Guard::new(now, *config.max_clock_step, *config.clock_steady);
        Self {
            client: calls.redis().client().clone(),
            nodes: Nodes::new(calls.redis().places(), guard),
            health: RedisHealth::new(alone),
            calls,
            poll: SafetyPoll::new(*config.poll_interval, now),
            metrics,
        }
    }

    pub(crate) const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The next answer; `None` if shards may have moved to other nodes. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Answer> {
        tokio::select! {
            biased;
            answer = self.calls.next() => Some(answer),
            () = self.nodes.changed() => None,
        }
    }

    /// Sends calls; each answer wakes the loop.
    pub(crate) fn send(&mut self, calls: impl IntoIterator<Item = Call>) {
        calls.into_iter().for_each(|call| self.calls.send(call, self.nodes.version()));
    }

    /// Sends calls for shards: at least one call to each of their nodes, with at most [`SHARDS_A_CALL`] shards each.
    pub(crate) fn send_for(
        &mut self,
        shards: &[ShardId],
        call: impl Fn(&Nodes, NodeId, Vec<ShardId>) -> Call,
    ) {
        for (node, some) in self.nodes.apart(shards) {
            for some in some.chunks(SHARDS_A_CALL) {
                self.send([call(&self.nodes, node, some.to_vec())]);
            }
        }
    }

    pub(crate) fn pump(&mut self, rounds: Vec<Round>, now: Instant) {
        for round in rounds {
            let latest = self.nodes.latest(round.node, now);
            self.send([Call::Pump { round, latest }]);
        }
    }

    /// Rescues overdue messages from other timers' shards. With an unknown or untrusted clock the call moves nothing
    /// and only learns the next due time.
    pub(crate) fn rescue(&mut self, shards: &[ShardId], now: Instant) {
        self.send_for(shards, |nodes, node, shards| {
            let latest = nodes.latest(node, now).filter(|_| !nodes[node].guard.is_jumped());
            Call::Rescue { node, shards, latest: latest.unwrap_or(NO_LATER) }
        });
    }

    /// Sets and ends the holds that the clocks require, and exports whether any clock requires holds.
    pub(crate) fn send_holds<K>(&mut self, schedule: &mut Schedule<K>, now: Instant) {
        self.metrics.clock_held.set(i64::from(self.nodes.is_any_jumped()));
        let due = self.nodes.numbered().flat_map(|(id, node)| schedule.holds(id, node.guard.is_proven(now)));
        let holds: Vec<Call> = due.map(Call::Hold).collect();
        self.send(holds);
    }

    /// Places each shard at its current node.
    pub(crate) fn place(&mut self, shards: &mut PumpedShards, now: Instant) {
        for Moved { shard, from, to } in self.nodes.place(self.client.shards(), &mut shards.schedule, now) {
            if let Some(from) = from {
                events::moved(shard, &self.nodes[from].name, &self.nodes[to].name);
                self.health.placed(shard);
                if !self.nodes.is_used(from) {
                    self.health.forget(from);
                }
            }
        }
        self.send_holds(&mut shards.schedule, now);
    }

    /// Asks nodes for their clocks, if the time has come: nodes whose clock or health is in doubt, and nodes without an
    /// owned shard. Returns true if the time had come.
    pub(crate) fn poll(&mut self, shards: &mut PumpedShards, now: Instant) -> bool {
        if !self.poll.is_due(now) {
            return false;
        }
        self.send_holds(&mut shards.schedule, now);
        let mut wrong = false;
        for (node, shard) in self.nodes.in_use().clone() {
            let doubtful = self.nodes[node].guard.is_jumped() || self.health.is_poor(node);
            wrong |= doubtful;
            let unseen = shards.schedule.owned_at(node).next().is_none();
            if (doubtful || unseen) && self.health.ask(node) {
                self.send([Call::Probe { node, shard }]);
            }
        }
        self.poll.sent(wrong, now);
        true
    }

    /// The time of the next poll, and the time at which a node or a shard may be out of reach.
    pub(crate) fn next_moment(&self) -> impl Iterator<Item = Instant> {
        self.health.next().into_iter().chain([self.poll.next()])
    }

    /// Records that an alarm set to `aimed` woke the loop at `woken`.
    pub(crate) fn woke(&mut self, aimed: Instant, woken: Instant) {
        self.nodes.woke(aimed, woken);
    }

    /// Learns a node's clock from a pump of owned shards.
    pub(crate) fn ran(&mut self, node: NodeId, trip: Trip, clock: UnixMicros, shards: &mut PumpedShards) {
        if !trip.moved {
            self.nodes[node].aim.ran(trip.sent, clock);
        }
        self.metrics.pipeline(trip.answered - trip.sent);
        self.compare(node, trip, clock, shards);
    }

    /// Learns a node's clock from any call other than a pump of owned shards.
    pub(crate) fn hear(&mut self, node: NodeId, trip: Trip, clock: UnixMicros, shards: &mut PumpedShards) {
        if !trip.moved {
            self.nodes[node].aim.ran_otherwise(trip.sent, clock);
        }
        self.compare(node, trip, clock, shards);
    }

    /// Compares a node's clock with the local clock.
    pub(crate) fn compare(&mut self, node: NodeId, trip: Trip, ran: UnixMicros, shards: &mut PumpedShards) {
        let Trip { sent, answered, moved } = trip;
        if moved {
            return;
        }
        let guard = &mut self.nodes[node].guard;
        let verdict = guard.compare(Comparison { sent, ran, answered });
        let jumped = guard.is_jumped();
        match verdict {
            Verdict::Fits => return,
            Verdict::Jumped(by_us) => {
                let here = shards.schedule.owned_at(node).count();
                events::clock_jumped(&self.metrics, by_us, here, &self.nodes[node].name);
                self.poll.closely(answered);
            }
            Verdict::Steady => events::clock_steady(&self.nodes[node].name),
        }
        // A hold may lack an answer, because Redis refused writes or was silent. Once the clock is steady again, the
        // next answer of such a shard reveals whether the shard is held.
        shards.schedule.jump(node, jumped);
        self.send_holds(&mut shards.schedule, answered);
    }

    /// Records that a node answered a script that may write. `behind`: a shard could not be claimed yet.
    pub(crate) fn well(&mut self, node: NodeId, trip: Trip, behind: bool, shards: &mut PumpedShards) {
        if trip.moved || !self.nodes.is_used(node) {
            return;
        }
        let name = &self.nodes[node].name;
        if self.health.answered(node, name, behind, trip.answered) == Change::Back {
            let here: Vec<ShardId> = shards.schedule.owned_at(node).collect();
            here.into_iter().for_each(|shard| shards.schedule.poll(shard));
            self.verify();
        }
    }

    /// Records the failure of a call to a node for a shard. The health of a node without shards does not matter.
    pub(crate) fn lost(&mut self, (node, shard): (NodeId, ShardId), error: &Error, now: Instant) {
        if !self.nodes.is_used(node) {
            return;
        }
        let name = &self.nodes[node].name;
        if self.health.failed((node, shard), error, name, now) == Change::Lost {
            self.poll.closely(now);
        }
    }

    /// Records that a node did not answer or refused a call for another timer's shard.
    pub(crate) fn unanswered(&mut self, node: NodeId, error: &Error, now: Instant) {
        if !self.nodes.is_used(node) {
            return;
        }
        let name = &self.nodes[node].name;
        if self.health.unanswered(node, error, name, now) == Change::Lost {
            self.poll.closely(now);
        }
    }

    /// Asks each node for its deployment: a replaced connection may lead to another Redis.
    pub(crate) fn verify(&mut self) {
        let nodes: Vec<_> = self.nodes.in_use().iter().map(|(&node, &shard)| (node, shard)).collect();
        self.send(nodes.into_iter().map(|(node, shard)| Call::Verify { node, shard }));
    }

    /// Judges which shards are out of reach. Returns true if that changed.
    pub(crate) fn turn_health(&mut self, owning: &Owning, now: Instant) -> bool {
        let nodes = &self.nodes;
        let is_given_any = |node| is_given_any(nodes, owning, node);
        if !self.health.turn(now, is_given_any, |shard| owning.is_given(shard)) {
            return false;
        }
        let unreached = self.health.unreached().iter();
        let names: Vec<&str> = unreached.map(|&node| nodes[node].name.as_str()).collect();
        events::hindrance_changed(&self.metrics, &names, self.health.missing());
        self.poll.at_once(now);
        true
    }

    /// The shards that this timer cannot reach.
    pub(crate) fn out_of_reach<C: FromIterator<ShardId>>(&self) -> C {
        let out = |&shard: &ShardId| self.health.is_out_of_reach(self.nodes.of(shard), shard);
        self.client.shards().shards().filter(out).collect()
    }
}

/// Returns true if any shard of a node is planned for this timer.
pub(crate) fn is_given_any(nodes: &Nodes, owning: &Owning, node: NodeId) -> bool {
    owning.shards().any(|shard| nodes.of(shard) == node && owning.is_given(shard))
}
