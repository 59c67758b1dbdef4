//! Handles the answers to the loop's calls.

use super::Pumping;
use crate::calls::Answer;
use crate::events;
use crate::ownership::claim;
use delayq::Error;
use delayq::protocol::scheduling::{NodeId, Round, Trip};
use delayq::protocol::{HoldAnswer, PumpReport, PumpWord, ShardId, UnixMicros};
use std::time::Instant;

// === impl Pumping ===

impl Pumping {
    pub(super) fn receive(&mut self, answer: Answer) {
        let (redises, shards) = (&mut self.redises, &mut self.shards);
        match answer {
            Answer::Pumped { round, trip, reports } => self.pumped(&round, trip, reports),
            Answer::Claimed(claims) => self.member.ownership.claimed(claims, redises, shards),
            Answer::Asked { shards: asked, mine } => self.member.ownership.asked(&asked, mine, shards),
            Answer::Held { shard, on, answer } => self.held(shard, on, answer),
            Answer::Probed { node, shard, trip, clock, wrote } => {
                redises.health.asked(node);
                self.probed((node, shard), trip, clock, wrote);
            }
            Answer::Verified { node, said } => self.verified(node, said),
            Answer::Rescued(reports) => self.member.rescued(reports, redises, shards),
            Answer::Adopted(claims) => self.member.adopted(claims, redises, shards),
            Answer::Forgot { shard, answer } => shards.forgot(shard, answer),
            Answer::Surveyed { shard, answer } => shards.surveyed(shard, answer),
            Answer::Counted { shard, answer } => shards.counted(shard, answer),
        }
    }

    fn pumped(&mut self, round: &Round, trip: Trip, reports: Vec<Result<PumpReport, Error>>) {
        if let Some(first) = reports.iter().find_map(|report| report.as_ref().ok()) {
            self.redises.ran(round.node, trip, first.now, &mut self.shards);
        }
        for (&(shard, epoch), report) in round.shards.iter().zip(reports) {
            match report {
                Ok(report) => self.pumped_one((round.node, shard), epoch.unwrap_or(0), &report, trip),
                Err(error) => self.failed((round.node, shard), &error, trip.answered),
            }
        }
        self.shards.schedule.returned(round.node, round.pipeline);
    }

    fn pumped_one(&mut self, (node, shard): (NodeId, ShardId), epoch: u64, report: &PumpReport, trip: Trip) {
        if report.blocked > 0 {
            events::blocked(shard, report.blocked);
        }
        if let Some(since) = report.older {
            events::older(&self.metrics, shard, since, &self.redises.nodes()[node].name);
            // The older data may name another owner.
            if self.member.ownership.owning().is_given(shard) {
                claim(&[shard], &mut self.redises);
            }
        }
        self.well(node, trip);
        self.redises.health.has(shard, trip.answered);
        if !self.shards.pumped((node, shard), report, trip.answered) {
            return;
        }
        match report.word {
            // The guard has already seen a clock that reads too much.
            PumpWord::Pumped | PumpWord::More | PumpWord::NotOverdue | PumpWord::Ahead => {}
            PumpWord::Held => self.redises.send_holds(&mut self.shards.schedule, trip.answered),
            PumpWord::Fenced(known) => {
                self.member.ownership.fenced(shard, (epoch, known), &mut self.shards, trip.answered);
            }
        }
    }

    fn held(&mut self, shard: ShardId, on: bool, answer: Result<HoldAnswer, Error>) {
        let (now, nodes) = (Instant::now(), self.redises.nodes());
        self.shards.schedule.settled(shard, matches!(answer, Ok(HoldAnswer::Done)));
        match answer {
            Ok(HoldAnswer::Done) => {
                // The clock may have been judged again while this call was in flight.
                if on != nodes[nodes.of(shard)].guard.is_jumped() {
                    self.redises.send_holds(&mut self.shards.schedule, now);
                }
            }
            Ok(HoldAnswer::Fenced(known)) => {
                let epoch = self.shards.schedule.epoch(shard).unwrap_or(0);
                self.member.ownership.fenced(shard, (epoch, known), &mut self.shards, now);
            }
            Err(error) => tracing::debug!(%shard, %error, on, "sending the hold again at the next poll"),
        }
    }

    fn probed(
        &mut self,
        (node, shard): (NodeId, ShardId),
        trip: Trip,
        clock: Option<UnixMicros>,
        wrote: Result<(), Error>,
    ) {
        if let Some(clock) = clock {
            self.redises.hear(node, trip, clock, &mut self.shards);
        }
        match wrote {
            Ok(()) => self.well(node, trip),
            Err(error) => self.redises.lost((node, shard), &error, trip.answered),
        }
    }

    /// Stops pumping at a node that keeps another deployment, until the node grants claims again.
    fn verified(&mut self, node: NodeId, said: Result<(), Error>) {
        let Err(error @ Error::Foreign { .. }) = said else { return };
        let (owned, now): (Vec<ShardId>, _) = (self.shards.schedule.owned_at(node).collect(), Instant::now());
        for shard in owned {
            self.failed((node, shard), &error, now);
        }
    }

    fn failed(&mut self, at: (NodeId, ShardId), error: &Error, now: Instant) {
        self.member.ownership.failed(at, error, now, &mut self.shards);
        self.redises.lost(at, error, now);
    }

    fn well(&mut self, node: NodeId, trip: Trip) {
        let is_behind = self.member.ownership.owning().is_behind();
        self.redises.well(node, trip, is_behind, &mut self.shards);
    }
}
