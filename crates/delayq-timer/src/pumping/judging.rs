//! Once a second: exports this timer's standing as metrics, and judges whether due messages move.

use super::Pumping;
use crate::redises::is_given_any;
use std::time::Instant;

// === impl Pumping ===

impl Pumping {
    /// Exports the due and overdue times of the shards pumped here and of shards that nobody pumps, and judges whether
    /// the shards pumped here make progress.
    pub(super) fn judge(&mut self, now: Instant) {
        self.member.export();
        let (nodes, owning) = (self.redises.nodes(), self.member.ownership.owning());
        let unreached = self.redises.health.unreached();
        let mut earliest = self.shards.schedule.earliest();
        // Other timers pump the shards that were given away because this timer cannot reach their node.
        earliest.retain(|node, _| !unreached.contains(node) || is_given_any(nodes, owning, *node));
        let next_due = earliest.values().min().map(|due| due.get() as f64 / 1000.0);
        let mine = earliest.into_iter().map(|(node, due)| nodes.overdue(node, due, now)).max();
        let mine = mine.unwrap_or_default();
        let overdue = mine.max(self.member.overdue_elsewhere(nodes, now)).max(self.shards.blocked_for(now));
        self.metrics.stands(next_due, overdue.as_secs_f64(), self.member.fleet().lease_margin());
        self.shards.judge(mine, now);
        // The loop's next turn may be a second away.
        self.reported.report(self.stands());
    }
}
