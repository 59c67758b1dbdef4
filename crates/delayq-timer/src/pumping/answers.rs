//! What comes back, and what the loop makes of it.

use super::Pumping;
use crate::calls::{Answer, Trip};
use crate::events;
use crate::guard::Verdict;
use crate::redis_health::is_missing;
use crate::schedule::{Found, Round};
use delayq::Error;
use delayq::protocol::{Claimed, HoldAnswer, PumpReport, PumpWord, ShardId, UnixMicros};
use delayq_cluster::ClusterError;
use std::time::{Duration, Instant};

/// How often a shard whose owner is in doubt is asked about again.
const ASK_RETRY: Duration = Duration::from_millis(500);
/// How often a shard that cannot be claimed is tried again.
const CLAIM_RETRY: Duration = Duration::from_millis(500);

// === impl Pumping ===

impl Pumping {
    pub(super) fn receive(&mut self, answer: Answer) {
        match answer {
            Answer::Pumped { round, trip, reports } => self.pumped(&round, trip, reports),
            Answer::Claimed { shards, trip, claims } => self.claimed(&shards, trip, claims),
            Answer::Asked { shards, mine } => self.asked(&shards, mine),
            Answer::Held { shard, on, answer } => self.held(shard, on, answer),
            Answer::Probed { trip, clock, wrote } => self.probed(trip, clock, wrote),
            Answer::Rescued { shards, trip, reports } => self.rescued(&shards, trip, reports),
            Answer::Forgot { shard, answer } => self.forgot(shard, answer),
            Answer::Surveyed { shard, answer } => self.surveyed(shard, answer),
            Answer::Counted { shard, answer } => self.counted(shard, answer),
            Answer::Drained(_) => unreachable!("the loop ends with it"),
        }
    }

    fn pumped(&mut self, round: &Round, trip: Trip, reports: Vec<Result<PumpReport, Error>>) {
        if let Some(first) = reports.iter().find_map(|report| report.as_ref().ok()) {
            self.aim.ran(trip.sent, first.now);
            self.metrics.pipeline(trip.answered - trip.sent);
            self.compare(trip, first.now);
        }
        for (&(shard, epoch), report) in round.shards.iter().zip(reports) {
            self.owning.returned(shard);
            match report {
                Ok(report) => self.pumped_one(shard, epoch.unwrap_or(0), &report, trip),
                Err(error) => self.failed(shard, &error, trip.answered),
            }
        }
        self.schedule.returned(round.pipeline);
    }

    fn pumped_one(&mut self, shard: ShardId, epoch: u64, report: &PumpReport, trip: Trip) {
        let due = self.schedule.was_due(shard);
        let early = self.metrics.count(report, due);
        let done = report.moved + report.returned + report.buried + report.expired + report.forgotten;
        self.progress.answered(shard, done > 0, report.blocked > 0, trip.answered);
        self.poll.moved(shard, report.moved);
        if report.blocked > 0 {
            events::blocked(shard, report.blocked);
        }
        let (now, more) = (report.now.millis(), report.word == PumpWord::More);
        self.schedule.answered(shard, Found { next_due: report.next_due, more, now, early }, trip.answered);
        match report.word {
            PumpWord::Pumped | PumpWord::More => self.clock.learn(shard, false),
            // What is behind a clock that reads too much, the guard has seen already.
            PumpWord::NotOverdue | PumpWord::Ahead => {}
            PumpWord::Held => {
                self.clock.learn(shard, true);
                self.schedule.hold(shard, true);
                self.send_holds(trip.answered);
            }
            PumpWord::Fenced(known) => {
                events::fenced(&self.metrics, shard, epoch, known);
                self.schedule.doubt(shard, true);
                self.owning.doubt(shard, trip.answered);
            }
        }
        self.well(trip.answered);
    }

    fn claimed(&mut self, shards: &[ShardId], trip: Trip, claims: Vec<Result<Claimed, Error>>) {
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
                    if self.schedule.epoch(shard) == Some(epoch) {
                        self.schedule.learn(shard, next_due);
                        // A fenced answer was of an epoch before this one.
                        self.schedule.doubt(shard, false);
                    } else {
                        self.schedule.own(shard, epoch, next_due);
                        // Only a pump says whether an earlier owner left the shard held.
                        self.schedule.poll(shard);
                        events::owned(&self.metrics, shard, epoch);
                    }
                }
                Ok(Claimed::Owned { owner }) => {
                    events::locked_out(&self.metrics, shard, &owner);
                    self.schedule.drop(shard);
                    self.owning.locked_out(shard, owner, now + *self.config.poll_interval);
                }
                Err(error) => self.failed(shard, &error, now),
            }
        }
        if let Some(clock) = clock {
            self.aim.ran_otherwise(trip.sent, clock);
            self.well(now);
            self.compare(trip, clock);
            // A shard that was just claimed is not stopped yet: what is held stays held.
            self.stop_while_jumped(now);
        }
        self.count_shards();
    }

    fn asked(&mut self, shards: &[ShardId], mine: Result<Vec<ShardId>, ClusterError>) {
        let now = Instant::now();
        let mine =
            mine.inspect_err(|error| tracing::debug!(%error, "etcd does not say whose shards these are"));
        for &shard in shards {
            match &mine {
                Ok(mine) if mine.contains(&shard) => self.owning.retry(shard, now),
                Ok(_) => {
                    // The membership reports its loss.
                    self.schedule.drop(shard);
                    self.owning.doubt(shard, now + ASK_RETRY);
                }
                Err(_) => self.owning.doubt(shard, now + ASK_RETRY),
            }
        }
        self.count_shards();
    }

    fn held(&mut self, shard: ShardId, on: bool, answer: Result<HoldAnswer, Error>) {
        let now = Instant::now();
        self.owning.returned(shard);
        self.clock.settled(shard, matches!(answer, Ok(HoldAnswer::Done)));
        match answer {
            Ok(HoldAnswer::Done) => {
                self.schedule.hold(shard, self.clock.holds(shard));
                // The clock may have been judged again while this was on its way.
                if on != self.clock.is_jumped() {
                    self.send_holds(now);
                }
            }
            Ok(HoldAnswer::Fenced(known)) => {
                let epoch = self.schedule.epoch(shard).unwrap_or(0);
                events::fenced(&self.metrics, shard, epoch, known);
                self.owning.doubt(shard, now);
            }
            Err(error) => tracing::debug!(%shard, %error, on, "the hold is sent again at the next poll"),
        }
    }

    pub(super) fn compare(&mut self, trip: Trip, ran: UnixMicros) {
        let now = trip.answered;
        match self.clock.compare(trip, ran) {
            Verdict::Fits => {}
            Verdict::Jumped(by_us) => {
                events::clock_jumped(&self.metrics, by_us, self.schedule.count());
                self.stop_while_jumped(now);
                self.poll.closely(now);
            }
            Verdict::Steady => {
                events::clock_steady(&self.metrics);
                // A shard whose hold was not answered, since Redis refused writes or did not answer, says by its answer
                // whether it is held.
                let owned: Vec<ShardId> = self.schedule.owned().collect();
                owned.into_iter().for_each(|shard| self.schedule.hold(shard, self.clock.holds(shard)));
                self.send_holds(now);
            }
        }
    }

    fn stop_while_jumped(&mut self, now: Instant) {
        if self.clock.is_jumped() {
            let owned: Vec<ShardId> = self.schedule.owned().collect();
            owned.into_iter().for_each(|shard| self.schedule.hold(shard, true));
            self.send_holds(now);
        }
    }

    /// A call for a shard that is given to this timer failed.
    fn failed(&mut self, shard: ShardId, error: &Error, now: Instant) {
        self.metrics.call_failed();
        if is_missing(error) {
            self.progress.drop(shard);
            self.schedule.drop(shard);
            self.owning.missing(shard, now + *self.config.poll_interval);
        } else if self.schedule.epoch(shard).is_some() {
            self.progress.failed(shard, now);
            self.schedule.failed(shard, now);
        } else {
            self.owning.retry(shard, now + CLAIM_RETRY);
        }
        self.lost(shard, error, now);
        self.count_shards();
    }

    pub(super) fn lost(&mut self, shard: ShardId, error: &Error, now: Instant) {
        if self.health.failed(shard, error, &self.client.address(), now) {
            self.poll.closely(now);
        }
    }

    /// A call was not answered, or refused; the shard is not this timer's, or does not matter.
    pub(super) fn unanswered(&mut self, error: &Error, now: Instant) {
        if self.health.unanswered(error, now) {
            self.poll.closely(now);
        }
    }

    /// A script that may write was answered.
    pub(super) fn well(&mut self, now: Instant) {
        if self.health.answered(self.owning.is_behind(), now) {
            self.schedule.poll_all();
        }
    }
}
