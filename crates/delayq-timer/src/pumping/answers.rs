//! What comes back, and what the loop makes of it.

use super::{Done, Pumping, Trip};
use crate::events::{Blocked, Fenced, LockedOut, Owned};
use crate::schedule::{Answer, Round};
use delayq_cluster::ClusterError;
use delayq_core::{Claimed, Error, PumpReport, PumpWord, ShardId};
use std::time::{Duration, Instant};

/// How often a shard whose owner is in doubt is asked about again.
const ASK_RETRY: Duration = Duration::from_millis(500);

// === impl Pumping ===

impl Pumping {
    pub(super) fn take(&mut self, done: Done) {
        match done {
            Done::Pumped { round, trip, reports } => self.pumped(&round, trip, reports),
            Done::Claimed { shards, trip, claims } => self.claimed(&shards, trip, claims),
            Done::Asked { shards, mine } => self.asked(&shards, mine),
            Done::Told { shard, on, answer } => self.told(shard, on, answer),
            Done::Seen { trip, clock, wrote } => self.seen(trip, clock, wrote),
            Done::Foreign { shards, trip, reports } => self.foreign(&shards, trip, reports),
            Done::Drained(_) => unreachable!("the loop ends with it"),
        }
    }

    pub(super) fn pumped(&mut self, round: &Round, trip: Trip, reports: Vec<Result<PumpReport, Error>>) {
        if let Some(first) = reports.iter().find_map(|report| report.as_ref().ok()) {
            self.aim.ran(trip.sent, first.now);
            self.parts.metrics.pipeline(trip.answered - trip.sent);
            self.compare(trip, first.now);
        }
        for (&(shard, epoch), report) in round.shards.iter().zip(reports) {
            self.owning.returned(shard);
            match report {
                Ok(report) => self.report(shard, epoch.unwrap_or(0), &report, trip),
                Err(error) => self.failed(shard, &error, trip.answered),
            }
        }
        self.schedule.returned(round.lane);
    }

    pub(super) fn report(&mut self, shard: ShardId, epoch: u64, report: &PumpReport, trip: Trip) {
        let now = report.now.millis();
        let due = self.schedule.was_due(shard);
        let early = self.parts.metrics.count(report, due);
        *self.moved.entry(shard).or_default() += report.moved;
        if report.blocked > 0 {
            Blocked { shard, blocked: report.blocked }.emit();
        }
        let answer = Answer { next_due: report.next_due, more: report.word == PumpWord::More, now, early };
        self.schedule.answered(shard, answer, trip.answered);
        match report.word {
            PumpWord::Pumped | PumpWord::More => self.holding.is(shard, false),
            // What is behind a clock that reads too much, the guard has seen already.
            PumpWord::NotOverdue | PumpWord::Ahead => {}
            PumpWord::Held => {
                self.holding.is(shard, true);
                self.schedule.hold(shard, true);
                self.tell(trip.answered);
            }
            PumpWord::Fenced(known) => {
                Fenced { shard, epoch, known }.emit(&self.parts.metrics);
                self.schedule.doubt(shard, true);
                self.owning.doubt(shard, trip.answered);
            }
        }
        self.well(trip.answered);
    }

    pub(super) fn claimed(&mut self, shards: &[ShardId], trip: Trip, claims: Vec<Result<Claimed, Error>>) {
        let now = trip.answered;
        let mut clock = None;
        for (&shard, claim) in shards.iter().zip(claims) {
            self.owning.returned(shard);
            if !self.owning.is_given(shard) {
                continue;
            }
            match claim {
                Ok(Claimed::Mine { epoch, now: redis, next_due }) => {
                    clock = clock.or(Some(redis));
                    self.owning.claimed(shard);
                    self.locked_out.remove(&shard);
                    if self.schedule.epoch(shard) == Some(epoch) {
                        self.schedule.saw(shard, next_due);
                        // A fenced answer was of an epoch before this one.
                        self.schedule.doubt(shard, false);
                    } else {
                        self.schedule.own(shard, epoch, next_due);
                        Owned { shard, epoch }.emit(&self.parts.metrics);
                    }
                }
                Ok(Claimed::Owned { owner }) => {
                    LockedOut { shard, owner: &owner }.emit(&self.parts.metrics);
                    self.schedule.drop(shard);
                    self.owning.retry(shard, now + *self.parts.config.look);
                    self.locked_out.insert(shard, owner);
                }
                Err(error) => self.failed(shard, &error, now),
            }
        }
        if let Some(clock) = clock {
            self.aim.ran_otherwise(trip.sent, clock);
            self.well(now);
            self.compare(trip, clock);
            // A shard taken anew begins without a stop: what is held stays held.
            self.stop_while_jumped();
        }
        self.count_shards();
    }

    pub(super) fn asked(&mut self, shards: &[ShardId], mine: Result<Vec<ShardId>, ClusterError>) {
        let now = Instant::now();
        match mine {
            Ok(mine) => {
                for &shard in shards {
                    if mine.contains(&shard) {
                        self.owning.retry(shard, now);
                    } else {
                        // Its loss is told by the membership.
                        self.schedule.drop(shard);
                        self.owning.doubt(shard, now + ASK_RETRY);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(%error, "etcd does not say whose shards these are");
                shards.iter().for_each(|&shard| self.owning.doubt(shard, now + ASK_RETRY));
            }
        }
        self.count_shards();
    }
}
