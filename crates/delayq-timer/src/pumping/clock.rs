//! Redis's clock against the local one: shards are held while it cannot be trusted.

use super::{Done, Pumping, Trip, look::CLOSE_LOOK};
use crate::events::{ClockJumped, ClockSteady, Fenced};
use crate::guard::{Comparison, Verdict};
use crate::rota::Owned as _;
use delayq_core::{Error, HoldAnswer, ShardId, UnixMicros};
use std::time::Instant;

// === impl Pumping ===

impl Pumping {
    pub(super) fn compare(&mut self, trip: Trip, ran: UnixMicros) {
        match self.guard.compare(Comparison { sent: trip.sent, ran, answered: trip.answered }) {
            Verdict::Fits => {}
            Verdict::Jumped(by_us) => {
                ClockJumped { by_us, shards: self.schedule.count() }.emit(&self.parts.metrics);
                self.stop_while_jumped();
                self.next_look = self.next_look.min(trip.answered + CLOSE_LOOK);
            }
            Verdict::Steady => {
                ClockSteady.emit(&self.parts.metrics);
                self.go_on();
                self.tell(trip.answered);
            }
        }
    }

    pub(super) fn stop_while_jumped(&mut self) {
        if self.guard.is_jumped() {
            let owned: Vec<ShardId> = self.schedule.owned().collect();
            owned.iter().for_each(|&shard| self.schedule.hold(shard, true));
            self.tell(Instant::now());
        }
    }

    /// Pumps every shard again but those that are known to be held. A shard whose hold was not answered for, since Redis
    /// refused writes or did not answer, says by its answer whether it is.
    fn go_on(&mut self) {
        let owned: Vec<ShardId> = self.schedule.owned().collect();
        for shard in owned {
            if !self.holding.is_held(shard) {
                self.schedule.hold(shard, false);
            }
        }
    }

    /// Sets and ends the holds that the clock asks for.
    pub(super) fn tell(&mut self, now: Instant) {
        let jumped = self.guard.is_jumped();
        let tell = if jumped {
            self.holding.hold(self.schedule.owned())
        } else if self.guard.is_proven(now) {
            self.holding.let_go()
        } else {
            return;
        };
        for shard in tell {
            self.tell_hold(shard, jumped);
        }
    }

    fn tell_hold(&mut self, shard: ShardId, on: bool) {
        let Some(epoch) = self.schedule.epoch(shard) else { return self.holding.told(shard, false) };
        let client = self.parts.client.clone();
        self.owning.sent(shard);
        self.send(async move {
            let answer = client.hold(shard, epoch, on).await;
            Done::Told { shard, on, answer }
        });
    }

    pub(super) fn told(&mut self, shard: ShardId, on: bool, answer: Result<HoldAnswer, Error>) {
        self.owning.returned(shard);
        self.holding.told(shard, matches!(answer, Ok(HoldAnswer::Done)));
        match answer {
            Ok(HoldAnswer::Done) => {
                self.schedule.hold(shard, on || self.guard.is_jumped());
                // The clock may have been judged anew while this was on its way.
                if on != self.guard.is_jumped() {
                    self.tell(Instant::now());
                }
            }
            Ok(HoldAnswer::Fenced(known)) => {
                let epoch = self.schedule.epoch(shard).unwrap_or(0);
                Fenced { shard, epoch, known }.emit(&self.parts.metrics);
                self.owning.doubt(shard, Instant::now());
            }
            Err(error) => tracing::debug!(%shard, %error, on, "the hold is told again at the next look"),
        }
    }
}
