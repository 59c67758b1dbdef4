//! Takes turns over the owned shards: all shards in each interval, a few at a time. Pure.

use super::schedule::Schedule;
use delayq_core::shard::ShardId;
use std::time::{Duration, Instant};

/// The turns.
#[derive(Clone, Debug)]
pub struct Rota {
    every: Duration,
    /// Maximum shards at a time.
    step: usize,
    last: Option<ShardId>,
    /// Time up to which all due turns were taken.
    done: Instant,
}

// === impl Rota ===

impl Rota {
    /// Takes each shard once in `every`, `step` at a time.
    pub fn new(every: Duration, step: usize, now: Instant) -> Self {
        Self { every, step, last: None, done: now }
    }

    /// The time of the next turn.
    pub fn next(&self, shards: usize) -> Instant {
        self.done + self.stretch(shards)
    }

    /// Takes the shards whose turn has come. Turns missed during a sleep are not made up at once: that would be the burst that the rota avoids.
    pub fn take<K>(&mut self, schedule: &Schedule<K>, now: Instant) -> Vec<ShardId> {
        let (shards, next) = (schedule.count(), self.next(schedule.count()));
        if now < next {
            return Vec::new();
        }
        self.done = if now < next + self.stretch(shards) { next } else { now };
        let taken = schedule.after(self.last, self.step.min(shards));
        self.last = taken.last().copied();
        taken
    }

    fn stretch(&self, shards: usize) -> Duration {
        if shards <= self.step { self.every } else { self.every.mul_f64(self.step as f64 / shards as f64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const EVERY: Duration = Duration::from_secs(6);
    const STEP: usize = 8;

    fn owned(shards: u16) -> Schedule {
        let mut schedule = Schedule::new(150, Duration::ZERO);
        (0..shards).for_each(|shard| schedule.own(ShardId::new(shard), 1, None));
        schedule
    }

    #[test]
    fn each_shard_has_one_turn_in_each_interval_and_few_at_a_time() {
        for shards in [1, 7, 8, 9, 16, 250, 1_024, 4_096] {
            let start = clock::steady();
            let (mut rota, schedule) = (Rota::new(EVERY, STEP, start), owned(shards));
            let mut turns = vec![0; usize::from(shards)];
            while rota.next(usize::from(shards)) <= start + 3 * EVERY {
                let at = rota.next(usize::from(shards));
                assert_eq!(rota.take(&schedule, at - Duration::from_micros(1)), []);
                let taken = rota.take(&schedule, at + Duration::from_micros(50));
                assert!((1..=STEP).contains(&taken.len()));
                taken.iter().for_each(|shard| turns[usize::from(shard.get())] += 1);
            }
            assert!(turns.iter().all(|times| (2..=4).contains(times)), "{shards} shards: {turns:?}");
        }
    }

    #[test]
    fn what_was_slept_through_is_no_burst() {
        let start = clock::steady();
        let mut rota = Rota::new(EVERY, STEP, start);
        let late = start + 2 * EVERY;
        assert_eq!(rota.take(&owned(1_024), late).len(), STEP);
        assert_eq!(rota.take(&owned(1_024), late), []);
    }

    #[test]
    fn nothing_owned_takes_no_turn() {
        let start = clock::steady();
        let mut rota = Rota::new(EVERY, STEP, start);
        assert_eq!(rota.take(&owned(0), start + EVERY), []);
        assert_eq!(rota.next(0), start + 2 * EVERY);
    }
}
