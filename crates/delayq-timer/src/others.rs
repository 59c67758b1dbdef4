//! Other timers' shards: checks them for a missing pump, rescues long overdue messages, and finds shards to adopt.

use crate::calls::{Call, Reports};
use crate::events;
use crate::fleet::Fleet;
use crate::foreign::{Checks, Foreign, Seen};
use crate::metrics::TimerMetrics;
use crate::redises::Redises;
use crate::shards::PumpedShards;
use delayq::protocol::{PumpReport, PumpWord, ShardId};
use std::time::Instant;

/// The shards that other timers own.
pub(crate) struct Others {
    pub(crate) foreign: Foreign,
    /// This timer leaves: it takes nothing from others any more.
    leaving: bool,
    metrics: TimerMetrics,
}

// === impl Others ===

impl Others {
    pub(crate) fn new(metrics: TimerMetrics) -> Self {
        Self { foreign: Foreign::default(), leaving: false, metrics }
    }

    /// Checks nothing from now on.
    pub(crate) const fn leave(&mut self) {
        self.leaving = true;
    }

    /// Checks the shards whose time has come; `timers` is the number of other timers.
    pub(crate) fn check(&mut self, fleet: &Fleet, timers: usize, redises: &mut Redises, now: Instant) {
        if self.leaving {
            return;
        }
        self.foreign.others(timers);
        self.foreign.lead(fleet.handle().leads(), now);
        let Checks { rescues, orphans } = self.foreign.take(now, fleet.is_unled());
        redises.rescue(&rescues, now);
        self.adopt(orphans, fleet, redises, now);
    }

    /// Claims shards that may be orphans: Redis refuses the claim of a shard that its owner pumps.
    fn adopt(&mut self, shards: Vec<ShardId>, fleet: &Fleet, redises: &mut Redises, now: Instant) {
        let (orphans, others): (Vec<_>, Vec<_>) =
            shards.into_iter().partition(|&shard| may_adopt(shard, fleet, redises));
        others.into_iter().for_each(|shard| self.foreign.failed(shard, now));
        redises.send_for(&orphans, |_, node, shards| Call::Adopt { node, shards });
    }

    /// Handles the answer to rescues. `behind`: a shard of this timer could not be claimed yet.
    pub(crate) fn rescued(
        &mut self,
        answer: Reports,
        behind: bool,
        redises: &mut Redises,
        shards: &mut PumpedShards,
    ) {
        let Reports { node, shards: asked, trip, reports } = answer;
        let mut more = Vec::new();
        for (shard, report) in asked.into_iter().zip(reports) {
            match report {
                Ok(report) => {
                    redises.compare(node, trip, report.now, shards);
                    redises.well(node, trip, behind, shards);
                    redises.health.has(shard, trip.answered);
                    more.extend(self.rescued_one(shard, &report, trip.answered).then_some(shard));
                }
                Err(error) => {
                    self.foreign.failed(shard, trip.answered);
                    if error.lacks_shard() {
                        redises.health.lacks(shard, trip.answered);
                    }
                    redises.unanswered(node, &error, trip.answered);
                }
            }
        }
        if !self.leaving {
            redises.rescue(&more, trip.answered);
        }
    }

    /// Returns true if more may be left to rescue.
    fn rescued_one(&mut self, shard: ShardId, report: &PumpReport, answered: Instant) -> bool {
        let (now, moved) = (report.now.millis(), report.moved + report.returned + report.expired > 0);
        let overdue = report.runs.first().map(|&(due, _)| due).or(report.next_due).filter(|&due| due <= now);
        let seen = Seen { next_due: report.next_due, overdue, ran: now, moved };
        self.foreign.answered(shard, seen, answered);
        if !moved {
            return false;
        }
        self.metrics.count(report, true);
        events::rescued(&self.metrics, shard, report.moved);
        report.word == PumpWord::More || report.next_due.is_some_and(|due| due <= now)
    }
}

/// Operators' decisions hold even if nobody pumps: a drained timer takes no shard, and a shard that the plan gives to
/// nobody stays with nobody.
fn may_adopt(shard: ShardId, fleet: &Fleet, redises: &Redises) -> bool {
    let view = fleet.handle().view();
    let is_near = !redises.health.is_out_of_reach(redises.nodes().of(shard), shard);
    !view.drained && !view.nobodys.contains(&shard) && is_near
}
