//! Redis's clock against the local one: shards are held while it cannot be trusted.

use super::{Done, Pumping, Trip, look::CLOSE_LOOK};
use crate::events::{ClockJumped, ClockSteady, Fenced};
use crate::guard::{Comparison, Verdict};
use delayq_core::{Error, HoldAnswer, ShardId, UnixMicros};
use std::time::Instant;

// === impl Pumping ===

impl Pumping {
    pub(super) fn compare(&mut self, trip: Trip, ran: UnixMicros) {
        match self.guard.compare(Comparison { sent: trip.sent, ran, answered: trip.answered }) {
            Verdict::Fits => {}
            Verdict::Jumped(by_us) => {
                ClockJumped { by_us, shards: self.schedule.owned().count() }.emit(&self.parts.metrics);
                self.parts.condition.unready("Redis's clock jumped: its shards are held");
                self.stop_while_jumped();
                self.next_look = self.next_look.min(trip.answered + CLOSE_LOOK);
            }
            Verdict::Steady => {
                ClockSteady.emit(&self.parts.metrics);
                self.parts.condition.ready();
                self.tell(trip.answered);
            }
        }
    }

    pub(super) fn stop_while_jumped(&mut self) {
        if self.guard.is_jumped() {
            let owned: Vec<ShardId> = self.schedule.owned().map(|(shard, _)| shard).collect();
            owned.iter().for_each(|&shard| self.schedule.stop(shard, true));
            self.tell(Instant::now());
        }
    }

    /// Sets and ends the holds that the clock asks for.
    pub(super) fn tell(&mut self, now: Instant) {
        let owned: Vec<ShardId> = self.schedule.owned().map(|(shard, _)| shard).collect();
        for (shard, on) in self.holding.tell(&owned, self.guard.is_jumped(), self.guard.is_proven(now)) {
            let Some(epoch) = self.schedule.epoch(shard) else { continue };
            let client = self.parts.client.clone();
            self.owning.sent(shard);
            self.work.push(Box::pin(async move {
                let answer = client.hold(shard, epoch, on).await;
                Done::Told { shard, on, answer }
            }));
        }
    }

    pub(super) fn told(&mut self, shard: ShardId, on: bool, answer: Result<HoldAnswer, Error>) {
        self.owning.returned(shard);
        self.holding.told(shard, matches!(answer, Ok(HoldAnswer::Done)));
        match answer {
            Ok(HoldAnswer::Done) => self.schedule.stop(shard, on || self.guard.is_jumped()),
            Ok(HoldAnswer::Fenced(known)) => {
                let epoch = self.schedule.epoch(shard).unwrap_or(0);
                Fenced { shard, epoch, known }.emit(&self.parts.metrics);
                self.owning.doubt(shard, Instant::now());
            }
            Err(error) => tracing::debug!(%shard, %error, on, "the hold is told again at the next look"),
        }
    }
}
