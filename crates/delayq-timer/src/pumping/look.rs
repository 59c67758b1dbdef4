//! The slow net: every owned shard is looked at from time to time, and so are others that nobody pumps.

use super::{Done, Pumping, Trip, calls::ON_THE_WAY};
use crate::events::Rescued;
use crate::owning::CLAIMS_A_CALL;
use delayq_cluster::Trust;
use delayq_core::{Error, Overview, PumpReport, PumpWord, ShardId, UnixMillis};
use std::time::{Duration, Instant};

/// How often Redis is looked at while its clock is not trusted, or this timer has no shards for not reaching it.
pub(super) const CLOSE_LOOK: Duration = Duration::from_secs(1);

// === impl Pumping ===

impl Pumping {
    /// Looks at every owned shard in one pipeline, renews locks, and sees after what nobody pumps.
    pub(super) fn look(&mut self, now: Instant) {
        let owned: Vec<ShardId> = self.schedule.owned().map(|(shard, _)| shard).collect();
        if self.parts.lock.is_zero() {
            self.schedule.look_at_all();
        } else {
            // A claim by the owner renews its lock and tells the next due time: a look in one.
            self.send_claims(&owned);
        }
        self.tell(now);
        if self.guard.is_jumped() || self.hindrance.is_hindered() {
            self.look_at_redis();
        }
        self.look_at_foreign(now);
        self.count_etcd();
        self.report_load(now);
        self.count_due(now);
        let pause = *self.parts.config.look;
        let closely = self.guard.is_jumped() || self.hindrance.is_hindered();
        self.next_look = now + if closely { pause.min(CLOSE_LOOK) } else { pause };
    }

    /// Asks Redis for the least that tells its clock, and that it answers; of any shard, since none may be owned.
    fn look_at_redis(&mut self) {
        let client = self.parts.client.clone();
        self.work.push(Box::pin(async move {
            let (trip, seen) = Trip::of(client.overview(&[ShardId::new(0)])).await;
            Done::Seen { trip, seen }
        }));
    }

    pub(super) fn seen(&mut self, trip: Trip, seen: Vec<Result<Overview, Error>>) {
        match seen.into_iter().next() {
            Some(Ok(seen)) => {
                self.compare(trip, seen.now);
                self.well(trip.answered);
            }
            _ => self.hindrance.failed(trip.answered),
        }
    }

    /// Pumps other timers' shards without an epoch: that moves only what is overdue by 10 s.
    pub(super) fn look_at_foreign(&mut self, now: Instant) {
        if !self.parts.lock.is_zero() || self.stopping.is_some() {
            return;
        }
        let Some(redis) = self.redis_ms(now) else { return };
        let heard = matches!(self.trust, Some(Trust::Trusted { .. }));
        let shards = self.foreign.take(redis, !heard);
        for some in shards.chunks(CLAIMS_A_CALL) {
            self.pump_foreign(some.to_vec(), now);
        }
    }

    pub(super) fn pump_foreign(&mut self, shards: Vec<ShardId>, now: Instant) {
        let (client, limit) = (self.parts.client.clone(), self.parts.config.batch);
        let latest = self.guard.latest(now, ON_THE_WAY);
        self.work.push(Box::pin(async move {
            let calls: Vec<_> = shards.iter().map(|&shard| (shard, None)).collect();
            let (trip, reports) = Trip::of(client.pump_until(&calls, limit, latest)).await;
            Done::Foreign { shards, trip, reports }
        }));
    }

    pub(super) fn foreign(
        &mut self,
        shards: &[ShardId],
        trip: Trip,
        reports: Vec<Result<PumpReport, Error>>,
    ) {
        let mut more = Vec::new();
        for (&shard, report) in shards.iter().zip(reports) {
            let Ok(report) = report else {
                let now = self.redis_ms(trip.answered).unwrap_or(UnixMillis::new(0));
                self.foreign.answered(shard, Some(now), now);
                continue;
            };
            self.compare(trip, report.now);
            self.foreign.answered(shard, report.next_due, report.now.millis());
            if report.word != PumpWord::NotOverdue && report.moved + report.returned + report.expired > 0 {
                self.parts.metrics.count(&report, true);
                Rescued { shard, moved: report.moved }.emit(&self.parts.metrics);
                more.push(shard);
            }
        }
        if !more.is_empty() && self.stopping.is_none() {
            self.pump_foreign(more, trip.answered);
        }
    }

    pub(super) fn redis_ms(&self, now: Instant) -> Option<UnixMillis> {
        let us = u64::try_from(self.aim.reach_us(now)?).unwrap_or(0);
        Some(UnixMillis::new(us / 1000))
    }

    pub(super) fn count_etcd(&mut self) {
        let stats = self.parts.handle.stats();
        self.parts.metrics.etcd(&self.counted, &stats);
        self.counted = stats;
    }

    pub(super) fn report_load(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.looked).as_secs_f64().max(0.1);
        let per_second = std::mem::take(&mut self.moved);
        let per_second =
            per_second.into_iter().map(|(shard, moved)| (shard, (moved as f64 / seconds) as u64)).collect();
        self.parts.handle.report_load(&per_second);
        self.looked = now;
    }

    pub(super) fn count_due(&self, now: Instant) {
        let next = self.schedule.earliest().map_or(0.0, |due| due.get() as f64 / 1000.0);
        let overdue = match self.aim.reach_us(now) {
            Some(redis) if next > 0.0 => (redis as f64 / 1e6 - next).max(0.0),
            _ => 0.0,
        };
        self.parts.metrics.next_due.set(next);
        self.parts.metrics.oldest_overdue.set(overdue);
    }
}
