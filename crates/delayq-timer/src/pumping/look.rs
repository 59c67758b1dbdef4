//! The slow net: every owned shard is looked at from time to time, and so are others that nobody pumps.

use super::{Done, Pumping, Trip, calls::ON_THE_WAY};
use crate::events::Rescued;
use crate::owning::CLAIMS_A_CALL;
use crate::rota::Owned as _;
use delayq_cluster::Trust;
use delayq_core::{Error, PumpReport, PumpWord, ShardId, UnixMicros, UnixMillis};
use std::time::{Duration, Instant};

/// How often Redis is looked at while its clock is not trusted, or it does not answer.
pub(super) const CLOSE_LOOK: Duration = Duration::from_secs(1);
/// No clock reads less: a pump that believes no later time moves nothing, and tells what it would have.
const NO_LATER: UnixMillis = UnixMillis::new(0);

// === impl Pumping ===

impl Pumping {
    /// Sees after everything but the shards that are owned, and after those that have to be told something.
    pub(super) fn look(&mut self, now: Instant) {
        self.tell(now);
        let closely = self.guard.is_jumped() || !self.health.is_well() || self.hindrance.is_hindered();
        if closely || self.schedule.count() == 0 {
            self.look_at_redis();
        }
        self.look_at_foreign(now);
        self.count_etcd();
        self.report_load(now);
        self.count_due(now);
        let look = *self.parts.config.look;
        let pause = if closely { look.min(CLOSE_LOOK) } else { look };
        // Never in step with the other timers, which were perhaps started together.
        self.next_look = now + pause.mul_f64(0.85 + 0.15 * fastrand::f64());
    }

    /// Looks at the owned shards whose turn it is, which renews their locks.
    pub(super) fn look_at_some(&mut self, now: Instant) {
        let some = self.rota.take(&self.schedule, now);
        if self.parts.lock.is_zero() {
            some.into_iter().for_each(|shard| self.schedule.look_at(shard));
        } else {
            // A claim by the owner renews its lock and tells the next due time: a look in one.
            self.send_claims(&some);
        }
    }

    /// Learns Redis's clock, and whether it takes writes, of any shard, since none may be owned. A pump is refused where
    /// writes are; the clock is told all the same.
    fn look_at_redis(&mut self) {
        if std::mem::replace(&mut self.asking_redis, true) {
            return;
        }
        let client = self.parts.client.clone();
        self.send(async move {
            let any = [(ShardId::new(0), None)];
            let (trip, mut seen) = Trip::of(client.pump_until(&any, 1, Some(NO_LATER))).await;
            match seen.remove(0) {
                Ok(report) => Done::Seen { trip, clock: Some(report.now), wrote: Ok(()) },
                Err(error) => {
                    let (trip, clock) = Trip::of(client.redis_time()).await;
                    Done::Seen { trip, clock: clock.ok(), wrote: Err(error) }
                }
            }
        });
    }

    pub(super) fn seen(&mut self, trip: Trip, clock: Option<UnixMicros>, wrote: Result<(), Error>) {
        self.asking_redis = false;
        if let Some(clock) = clock {
            self.aim.ran_otherwise(trip.sent, clock);
            self.compare(trip, clock);
        }
        match wrote {
            Ok(()) => self.well(trip.answered),
            Err(error) => self.lost(ShardId::new(0), &error, trip.answered),
        }
    }

    /// Pumps other timers' shards without an epoch: that moves only what is overdue by 10 s. With `strict` nobody pumps
    /// what is not his, and by a clock that is not trusted nothing is moved: then it is only looked.
    fn look_at_foreign(&mut self, now: Instant) {
        if !self.parts.lock.is_zero() || self.stopping.is_some() {
            return;
        }
        let Some(redis) = self.redis_ms(now) else { return };
        let shards = usize::from(self.parts.client.shards().get());
        self.foreign.others(self.other_timers(self.schedule.count(), shards));
        let silent = !matches!(self.trust, Some(Trust::Trusted { .. }));
        let shards = self.foreign.take(redis, silent);
        for some in shards.chunks(CLAIMS_A_CALL) {
            self.pump_foreign(some.to_vec(), now);
        }
    }

    fn pump_foreign(&mut self, shards: Vec<ShardId>, now: Instant) {
        let (client, limit) = (self.parts.client.clone(), self.parts.config.batch);
        let only_look = self.parts.config.strict || self.guard.is_jumped();
        let latest = if only_look { Some(NO_LATER) } else { self.guard.latest(now, ON_THE_WAY) };
        self.send(async move {
            let calls: Vec<_> = shards.iter().map(|&shard| (shard, None)).collect();
            let (trip, reports) = Trip::of(client.pump_until(&calls, limit, latest)).await;
            Done::Foreign { shards, trip, reports }
        });
    }

    pub(super) fn foreign(
        &mut self,
        shards: &[ShardId],
        trip: Trip,
        reports: Vec<Result<PumpReport, Error>>,
    ) {
        let mut more = Vec::new();
        for (&shard, report) in shards.iter().zip(reports) {
            match report {
                Ok(report) => more.extend(self.looked_at(shard, &report, trip)),
                Err(error) => {
                    let now = self.redis_ms(trip.answered).unwrap_or(NO_LATER);
                    self.foreign.failed(shard, now);
                    self.unanswered(&error, trip.answered);
                }
            }
        }
        if !more.is_empty() && self.stopping.is_none() {
            self.pump_foreign(more, trip.answered);
        }
    }

    /// Takes what a look at another's shard found; the shard again where there may be more to rescue.
    fn looked_at(&mut self, shard: ShardId, report: &PumpReport, trip: Trip) -> Option<ShardId> {
        self.compare(trip, report.now);
        self.well(trip.answered);
        let now = report.now.millis();
        let overdue = report.runs.first().map(|&(due, _)| due).or(report.next_due).filter(|&due| due <= now);
        self.foreign.answered(shard, report.next_due, overdue, now);
        if report.moved + report.returned + report.expired == 0 {
            return None;
        }
        self.parts.metrics.count(report, true);
        Rescued { shard, moved: report.moved }.emit(&self.parts.metrics);
        (report.word == PumpWord::More || report.next_due.is_some_and(|due| due <= now)).then_some(shard)
    }

    pub(super) fn redis_ms(&self, now: Instant) -> Option<UnixMillis> {
        let us = u64::try_from(self.aim.reach_us(now)?).unwrap_or(0);
        Some(UnixMillis::new(us / 1000))
    }

    fn count_etcd(&mut self) {
        let stats = self.parts.handle.stats();
        self.parts.metrics.etcd(&self.counted, &stats);
        self.counted = stats;
    }

    fn report_load(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.looked).as_secs_f64().max(0.1);
        let per_second = std::mem::take(&mut self.moved);
        let per_second =
            per_second.into_iter().map(|(shard, moved)| (shard, (moved as f64 / seconds) as u64)).collect();
        self.parts.handle.report_load(&per_second);
        self.looked = now;
    }

    /// How long the oldest is overdue: of the shards that are pumped here, and of others that nobody pumps.
    fn count_due(&self, now: Instant) {
        let mine = self.schedule.earliest();
        let overdue = [mine, self.foreign.overdue()].into_iter().flatten().min();
        let seconds = |due: Option<UnixMillis>| due.map(|due| due.get() as f64 / 1000.0);
        let late = match (self.aim.reach_us(now), seconds(overdue)) {
            (Some(redis), Some(due)) => (redis as f64 / 1e6 - due).max(0.0),
            _ => 0.0,
        };
        self.parts.metrics.next_due.set(seconds(mine).unwrap_or(0.0));
        self.parts.metrics.oldest_overdue.set(late);
    }
}
