//! Once a second: exports this timer's standing as metrics, and judges whether due messages move.

use super::Pumping;
use crate::events;
use std::time::Instant;

// === impl Pumping ===

impl Pumping {
    /// Exports the due and overdue times of the shards pumped here and of shards that nobody pumps, and judges whether
    /// the shards pumped here make progress.
    pub(super) fn judge(&mut self, now: Instant) {
        self.fleet.show_drain(&self.metrics);
        self.metrics.etcd_refuses_writes.set(i64::from(self.fleet.handle().refusal().is_some()));
        self.metrics.leader.set(i64::from(self.fleet.handle().leads()));
        let mut nodes = self.schedule.earliest();
        // Other timers pump the shards that were given away because this timer cannot reach their node.
        nodes.retain(|&node, _| !self.health.unreached().contains(&node) || self.is_given_any_of(node));
        let next_due = nodes.values().min().map(|due| due.get() as f64 / 1000.0);
        let mine = nodes.into_iter().map(|(node, due)| self.nodes.overdue(node, due, now)).max();
        let mine = mine.unwrap_or_default();
        let others = self.foreign.overdue(self.fleet.is_unled());
        let others = others.map(|(shard, due)| self.nodes.overdue(self.nodes.of(shard), due, now)).max();
        let lease = self.fleet.lease_margin();
        let overdue = mine.max(others.unwrap_or_default()).max(self.progress.blocked_for(now));
        self.metrics.stands(next_due, overdue.as_secs_f64(), lease);
        self.metrics.surveyed(&self.surveys.totals());
        self.metrics.books_off(self.books.off_by());
        let stall = self.progress.judge(mine, now);
        match (self.stall, stall) {
            (None, Some(stall)) => events::stalled(&self.metrics, stall),
            (Some(_), None) => events::moving(&self.metrics),
            _ => {}
        }
        self.stall = stall;
        // The loop's next turn may be a second away.
        self.reported.report(self.stands());
    }
}
