//! Handles the answers to the loop's calls.

use super::Pumping;
use crate::calls::{Answer, Call, Trip};
use crate::clock_watch::ClockWatch;
use crate::events;
use crate::guard::Verdict;
use crate::node_id::NodeId;
use crate::redis_health::{Change, is_missing};
use crate::schedule::{Found, Round};
use delayq::protocol::{Claimed, HoldAnswer, PumpReport, PumpWord, ShardId, UnixMicros};
use delayq::{Error, UnixMillis};
use delayq_cluster::ClusterError;
use std::time::{Duration, Instant};

/// How long until etcd is asked again about a shard in doubt.
const ASK_RETRY: Duration = Duration::from_millis(500);
/// How long until a failed claim is tried again.
const CLAIM_RETRY: Duration = Duration::from_millis(500);
/// How long until a missing shard is looked for again, and so the maximum wait of a restored shard.
const MISSING_RETRY: Duration = Duration::from_secs(2);

// === impl Pumping ===

impl Pumping {
    pub(super) fn receive(&mut self, answer: Answer) {
        match answer {
            Answer::Pumped { round, trip, reports } => self.pumped(&round, trip, reports),
            Answer::Claimed { node, shards, trip, claims } => self.claimed((node, &shards), trip, claims),
            Answer::Asked { shards, mine } => self.asked(&shards, mine),
            Answer::Held { shard, on, answer } => self.held(shard, on, answer),
            Answer::Probed { node, shard, trip, clock, wrote } => {
                self.health.asked(node);
                self.probed((node, shard), trip, clock, wrote);
            }
            Answer::Verified { node, said } => self.verified(node, said),
            Answer::Rescued { node, shards, trip, reports } => self.rescued((node, &shards), trip, reports),
            Answer::Adopted { node, shards, trip, claims } => self.adopted((node, &shards), trip, claims),
            Answer::Forgot { shard, answer } => self.forgot(shard, answer),
            Answer::Surveyed { shard, answer } => self.surveyed(shard, answer),
            Answer::Counted { shard, answer } => self.counted(shard, answer),
        }
    }

    fn pumped(&mut self, round: &Round, trip: Trip, reports: Vec<Result<PumpReport, Error>>) {
        if let Some(first) = reports.iter().find_map(|report| report.as_ref().ok()) {
            if !trip.moved {
                self.nodes[round.node].aim.ran(trip.sent, first.now);
            }
            self.metrics.pipeline(trip.answered - trip.sent);
            self.compare(round.node, trip, first.now);
        }
        for (&(shard, epoch), report) in round.shards.iter().zip(reports) {
            match report {
                Ok(report) => self.pumped_one((round.node, shard), epoch.unwrap_or(0), &report, trip),
                Err(error) => self.failed((round.node, shard), &error, trip.answered),
            }
        }
        self.schedule.returned(round.node, round.pipeline);
    }

    fn pumped_one(&mut self, (node, shard): (NodeId, ShardId), epoch: u64, report: &PumpReport, trip: Trip) {
        let due = self.schedule.was_due(shard);
        let early = self.metrics.count(report, due);
        if report.blocked > 0 {
            events::blocked(shard, report.blocked);
        }
        if let Some(since) = report.older {
            events::older(&self.metrics, shard, since, &self.nodes[node].name);
        }
        self.well(node, trip);
        self.health.has(shard, trip.answered);
        let (now, more) = (report.now.millis(), report.word == PumpWord::More);
        let found = Found { next_due: report.next_due, more, now, early };
        if !self.schedule.answered((node, shard), found, trip.answered) {
            return;
        }
        let done = report.moved + report.returned + report.buried + report.expired + report.forgotten;
        self.progress.answered(shard, done > 0, report.blocked > 0, trip.answered);
        match report.word {
            PumpWord::Pumped | PumpWord::More => self.clock_of(shard).learn(shard, false),
            // The guard has already seen a clock that reads too much.
            PumpWord::NotOverdue | PumpWord::Ahead => {}
            PumpWord::Held => {
                self.clock_of(shard).learn(shard, true);
                self.schedule.hold(shard, true);
                self.send_holds(trip.answered);
            }
            PumpWord::Fenced(known) => self.fenced(shard, epoch, known, trip.answered),
        }
    }

    fn claimed(
        &mut self,
        (node, shards): (NodeId, &[ShardId]),
        trip: Trip,
        claims: Vec<Result<Claimed, Error>>,
    ) {
        let now = trip.answered;
        let mut clock = None;
        for (&shard, claim) in shards.iter().zip(claims) {
            match claim {
                Ok(Claimed::Mine { epoch, now: redis, next_due }) => {
                    clock = clock.or(Some(redis));
                    self.health.has(shard, now);
                    if self.owning.claimed(shard, now) {
                        self.own(shard, epoch, next_due);
                    }
                }
                Ok(Claimed::Owned { owner }) => {
                    events::locked_out(&self.metrics, shard, &owner);
                    self.schedule.drop(shard);
                    self.owning.locked_out(shard, owner, now + *self.config.poll_interval);
                }
                Err(error) => self.failed((node, shard), &error, now),
            }
        }
        self.granted(node, trip, clock);
        self.count_shards();
    }

    /// Handles the time of a node's clock when the node granted claims; `None` if no claim was granted.
    pub(super) fn granted(&mut self, node: NodeId, trip: Trip, clock: Option<UnixMicros>) {
        let Some(clock) = clock else { return };
        self.hear(node, trip, clock);
        self.well(node, trip);
        if self.nodes.is_any_jumped() {
            self.send_holds(trip.answered);
        }
    }

    /// Owns a shard under the epoch that Redis granted. If two claims were in flight, the later epoch counts.
    pub(super) fn own(&mut self, shard: ShardId, epoch: u64, next_due: Option<UnixMillis>) {
        let known = self.schedule.epoch(shard);
        if known == Some(epoch) {
            self.schedule.learn(shard, next_due);
            // A fenced answer belonged to an epoch before this grant.
            self.schedule.doubt(shard, false);
        } else if known.is_none_or(|known| known < epoch) {
            self.schedule.own(shard, epoch, next_due);
            // Only a pump reveals whether an earlier owner left the shard held.
            self.schedule.poll(shard);
            let held = self.clock_of(shard).holds(shard);
            self.schedule.hold(shard, held);
            events::owned(&self.metrics, shard, epoch);
        }
        // After a fence, the shard counted as another timer's.
        self.fewer |= self.foreign.has(shard);
    }

    fn asked(&mut self, shards: &[ShardId], mine: Result<Vec<ShardId>, ClusterError>) {
        let now = Instant::now();
        let mine =
            mine.inspect_err(|error| tracing::debug!(%error, "etcd does not say whose shards these are"));
        for &shard in shards {
            match &mine {
                Ok(mine) if mine.contains(&shard) => self.owning.still_mine(shard, now),
                Ok(_) => {
                    // A newer plan, which takes this shard away, is on the way.
                    self.schedule.drop(shard);
                    self.owning.doubt(shard, now + ASK_RETRY);
                }
                Err(_) => self.owning.doubt(shard, now + ASK_RETRY),
            }
        }
        self.count_shards();
    }

    /// Handles a fence by a newer epoch: asks etcd about a shard that is planned for this timer; any other shard has
    /// reached its new owner.
    fn fenced(&mut self, shard: ShardId, epoch: u64, known: u64, now: Instant) {
        // The answer belongs to a call from before the last claim.
        if self.schedule.epoch(shard).is_none_or(|mine| mine >= known) {
            return;
        }
        if self.owning.fenced(shard, now) {
            events::fenced(&self.metrics, shard, epoch, known);
            self.schedule.doubt(shard, true);
            // The newest owner may be gone, too.
            self.fewer = true;
        } else {
            events::handed_over(&self.metrics, shard, known);
            self.let_go(shard);
        }
    }

    fn held(&mut self, shard: ShardId, on: bool, answer: Result<HoldAnswer, Error>) {
        let now = Instant::now();
        self.clock_of(shard).settled(shard, matches!(answer, Ok(HoldAnswer::Done)));
        match answer {
            Ok(HoldAnswer::Done) => {
                let clock = &self.nodes[self.nodes.of(shard)].clock;
                self.schedule.hold(shard, clock.holds(shard));
                // The clock may have been judged again while this call was in flight.
                if on != clock.is_jumped() {
                    self.send_holds(now);
                }
            }
            Ok(HoldAnswer::Fenced(known)) => {
                let epoch = self.schedule.epoch(shard).unwrap_or(0);
                self.fenced(shard, epoch, known, now);
            }
            Err(error) => tracing::debug!(%shard, %error, on, "the hold is sent again at the next poll"),
        }
    }

    fn clock_of(&mut self, shard: ShardId) -> &mut ClockWatch {
        let node = self.nodes.of(shard);
        &mut self.nodes[node].clock
    }

    /// Learns a node's clock from any call other than a pump of owned shards.
    pub(super) fn hear(&mut self, node: NodeId, trip: Trip, clock: UnixMicros) {
        if !trip.moved {
            self.nodes[node].aim.ran_otherwise(trip.sent, clock);
        }
        self.compare(node, trip, clock);
    }

    pub(super) fn compare(&mut self, node: NodeId, trip: Trip, ran: UnixMicros) {
        let now = trip.answered;
        if trip.moved {
            return;
        }
        match self.nodes[node].clock.compare(trip, ran) {
            Verdict::Fits => return,
            Verdict::Jumped(by_us) => {
                let shards = self.schedule.owned_at(node).count();
                events::clock_jumped(&self.metrics, by_us, shards, &self.nodes[node].name);
                self.poll.closely(now);
            }
            Verdict::Steady => events::clock_steady(&self.nodes[node].name),
        }
        // A hold may lack an answer, because Redis refused writes or was silent. Once the clock is steady again, the
        // next answer of such a shard reveals whether the shard is held.
        let owned: Vec<ShardId> = self.schedule.owned_at(node).collect();
        let clock = &self.nodes[node].clock;
        owned.into_iter().for_each(|shard| self.schedule.hold(shard, clock.holds(shard)));
        self.send_holds(now);
    }

    /// Handles a failed call for a shard that is given to this timer.
    fn failed(&mut self, (node, shard): (NodeId, ShardId), error: &Error, now: Instant) {
        self.metrics.call_failed();
        let kept = if is_missing(error) {
            self.progress.drop(shard);
            self.schedule.drop(shard);
            self.owning.missing(shard, now + MISSING_RETRY.min(*self.config.poll_interval))
        } else if self.schedule.epoch(shard).is_none() {
            self.owning.retry(shard, now + CLAIM_RETRY)
        } else {
            match self.schedule.failed((node, shard), now) && self.owning.is_given(shard) {
                true => self.progress.failed(shard, now),
                false => self.progress.drop(shard),
            }
            true
        };
        if !kept {
            self.let_go(shard);
        }
        self.lost((node, shard), error, now);
        self.count_shards();
    }

    /// Asks each node for its deployment: a replaced connection may lead to another Redis.
    pub(super) fn verify_nodes(&mut self) {
        let nodes: Vec<_> = self.nodes.in_use().iter().map(|(&node, &shard)| (node, shard)).collect();
        self.send_all(nodes.into_iter().map(|(node, shard)| Call::Verify { node, shard }));
    }

    /// Stops pumping at a node that keeps another deployment, until the node grants claims again.
    fn verified(&mut self, node: NodeId, said: Result<(), Error>) {
        let Err(error @ Error::Foreign { .. }) = said else { return };
        let (owned, now): (Vec<ShardId>, _) = (self.schedule.owned_at(node).collect(), Instant::now());
        for shard in owned {
            self.failed((node, shard), &error, now);
        }
    }

    /// Records the failure of a call to a node for a shard. The health of a node without shards does not matter.
    pub(super) fn lost(&mut self, (node, shard): (NodeId, ShardId), error: &Error, now: Instant) {
        if !self.nodes.is_used(node) {
            return;
        }
        let name = &self.nodes[node].name;
        if self.health.failed((node, shard), error, name, now) == Change::Lost {
            self.poll.closely(now);
        }
    }

    /// Records that a node did not answer or refused a call for another timer's shard.
    pub(super) fn unanswered(&mut self, node: NodeId, error: &Error, now: Instant) {
        if !self.nodes.is_used(node) {
            return;
        }
        let name = &self.nodes[node].name;
        if self.health.unanswered(node, error, name, now) == Change::Lost {
            self.poll.closely(now);
        }
    }

    /// Records that a node answered a script that may write.
    pub(super) fn well(&mut self, node: NodeId, trip: Trip) {
        if trip.moved || !self.nodes.is_used(node) {
            return;
        }
        let (name, behind) = (&self.nodes[node].name, self.owning.is_behind());
        if self.health.answered(node, name, behind, trip.answered) == Change::Back {
            let here: Vec<ShardId> = self.schedule.owned_at(node).collect();
            here.into_iter().for_each(|shard| self.schedule.poll(shard));
            self.verify_nodes();
        }
    }
}
