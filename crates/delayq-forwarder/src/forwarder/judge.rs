//! Readiness: whether ready messages move, and which destinations are braked.

use super::lane_table::LaneTable;
use crate::circuit::Pass;
use crate::context::Context;
use crate::progress::Stall;
use delayq_service::{Condition, Readiness};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);

pub(super) struct Judge {
    /// Condition `progress`: ready messages move.
    moving: Condition,
    stall: Option<Stall>,
    next: Instant,
    destinations: Condition,
    braked: BTreeSet<usize>,
}

// === impl Judge ===

impl Judge {
    pub(super) fn new(destinations: Condition, readiness: &Readiness, now: Instant) -> Self {
        let moving = readiness.condition("progress");
        Self { moving, stall: None, next: now, destinations, braked: BTreeSet::new() }
    }

    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// If a judgement is due.
    pub(super) fn progress(&mut self, context: &Context, table: &LaneTable, now: Instant) {
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        let rests = |lane: usize| table.lanes[lane].lane.pass(now) != Pass::All;
        let stall = context.progress().judge(rests, now);
        match (self.stall, stall) {
            (None, Some(stall)) => tracing::error!("not ready: {}", stall.text()),
            (Some(_), None) => tracing::info!("ready messages move again"),
            _ => {}
        }
        match stall {
            Some(stall) => self.moving.unready(stall.text()),
            None => self.moving.ready(),
        }
        context.stats.stalled.set(i64::from(stall.is_some()));
        self.stall = stall;
    }

    /// If this lane's state changed.
    pub(super) fn brake(&mut self, table: &LaneTable, lane_number: usize) {
        let braked = table.lanes[lane_number].lane.is_braked();
        let changed = if braked { self.braked.insert(lane_number) } else { self.braked.remove(&lane_number) };
        if !changed {
            return;
        }
        let named = self.braked.iter().map(|number| {
            let lane = &table.lanes[*number].lane;
            format!("{} `{}`", lane.to.name, lane.label())
        });
        let named: Vec<String> = named.collect();
        if named.is_empty() {
            self.destinations.ready();
        } else {
            let named = named.join(", ");
            self.destinations.unready(format!("resting after consecutive rejections: {named}"));
        }
    }
}
