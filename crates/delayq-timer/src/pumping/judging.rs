//! Once a second: how this timer stands in numbers, and whether what is due moves.

use super::Pumping;
use crate::events;
use delayq::UnixMillis;
use std::time::{Duration, Instant};

// === impl Pumping ===

impl Pumping {
    /// Shows what is due and overdue, of the shards that are pumped here and of others that nobody pumps, and judges whether
    /// those that are pumped here move.
    pub(super) fn judge(&mut self, now: Instant) {
        self.fleet.show_drain(&self.metrics);
        self.metrics.leader.set(i64::from(self.fleet.handle().leads()));
        let mine = self.schedule.earliest();
        let oldest = [mine, self.foreign.overdue()].into_iter().flatten().min();
        let next_due = mine.map(|due| due.get() as f64 / 1000.0);
        let lease = self.fleet.lease_margin();
        let overdue = self.overdue(oldest, now).max(self.progress.blocked_for(now));
        self.metrics.stands(next_due, overdue.as_secs_f64(), lease);
        self.metrics.surveyed(&self.surveys.totals());
        self.metrics.books_off(self.books.off_by());
        let stall = self.progress.judge(self.overdue(mine, now), now);
        match (self.stall, stall) {
            (None, Some(stall)) => events::stalled(&self.metrics, stall),
            (Some(_), None) => events::moving(&self.metrics),
            _ => {}
        }
        self.stall = stall;
        // The loop's next turn may be a second away.
        self.reported.report(self.stands());
    }

    /// For how long something has been due, by Redis's clock; zero for nothing, and before it answered.
    fn overdue(&self, due: Option<UnixMillis>, now: Instant) -> Duration {
        let us = |due: UnixMillis| {
            self.aim.reach_us(now)?.checked_sub(i64::try_from(due.get()).ok()?.checked_mul(1000)?)
        };
        Duration::from_micros(u64::try_from(due.and_then(us).unwrap_or(0)).unwrap_or(0))
    }
}
