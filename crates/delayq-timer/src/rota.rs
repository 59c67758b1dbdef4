//! Which owned shards to look at next: all of them in each interval, a few at a time. Pure.

use delayq_core::ShardId;
use std::time::{Duration, Instant};

/// Shards looked at in one go: a tenth of a millisecond of Redis's time.
const STEP: usize = 8;

/// The shards that are owned.
pub(crate) trait Owned {
    /// How many.
    fn count(&self) -> usize;
    /// At most so many that follow one, by number; after the greatest comes the least.
    fn after(&self, last: Option<ShardId>, most: usize) -> Vec<ShardId>;
}

/// Goes round the shards that are owned.
#[derive(Clone, Debug)]
pub(crate) struct Rota {
    every: Duration,
    /// The last one that was looked at.
    last: Option<ShardId>,
    /// Up to when the looks that were due are done.
    done: Instant,
}

// === impl Rota ===

impl Rota {
    /// Looks at each shard once in `every`, from `now` on.
    pub(crate) fn new(every: Duration, now: Instant) -> Self {
        Self { every, last: None, done: now }
    }

    /// When some of so many shards are to be looked at.
    pub(crate) fn next(&self, shards: usize) -> Instant {
        self.done + self.stretch(shards)
    }

    /// The shards of those owned (by number, and how many they are) to look at now. What was slept through is not made up
    /// for in one go: that would be the burst that this avoids.
    pub(crate) fn take(&mut self, owned: &impl Owned, now: Instant) -> Vec<ShardId> {
        let (shards, next) = (owned.count(), self.next(owned.count()));
        if now < next {
            return Vec::new();
        }
        self.done = if now < next + self.stretch(shards) { next } else { now };
        let taken = owned.after(self.last, STEP.min(shards));
        self.last = taken.last().copied();
        taken
    }

    /// How long one step is where all take the interval.
    fn stretch(&self, shards: usize) -> Duration {
        if shards <= STEP { self.every } else { self.every.mul_f64(STEP as f64 / shards as f64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(6);

    struct Shards(u16);

    impl Owned for Shards {
        fn count(&self) -> usize {
            usize::from(self.0)
        }

        fn after(&self, last: Option<ShardId>, most: usize) -> Vec<ShardId> {
            let first = last.map_or(0, |last| last.get() + 1);
            (0..most as u16).map(|n| ShardId::new((first + n) % self.0)).collect()
        }
    }

    #[test]
    fn each_shard_is_looked_at_once_in_each_interval_and_few_at_a_time() {
        for shards in [1, 7, 8, 9, 16, 250, 1_024, 4_096] {
            let start = Instant::now();
            let mut rota = Rota::new(EVERY, start);
            let mut looked = vec![0; usize::from(shards)];
            while rota.next(usize::from(shards)) <= start + 3 * EVERY {
                let at = rota.next(usize::from(shards));
                assert_eq!(rota.take(&Shards(shards), at - Duration::from_micros(1)), []);
                let taken = rota.take(&Shards(shards), at + Duration::from_micros(50));
                assert!((1..=STEP).contains(&taken.len()));
                taken.iter().for_each(|shard| looked[usize::from(shard.get())] += 1);
            }
            assert!(looked.iter().all(|times| (2..=4).contains(times)), "{shards} shards: {looked:?}");
        }
    }

    #[test]
    fn what_was_slept_through_is_no_burst() {
        let start = Instant::now();
        let mut rota = Rota::new(EVERY, start);
        let late = start + 2 * EVERY;
        assert_eq!(rota.take(&Shards(1_024), late).len(), STEP);
        assert_eq!(rota.take(&Shards(1_024), late), []);
    }

    #[test]
    fn nothing_owned_is_nothing_to_look_at() {
        let start = Instant::now();
        let mut rota = Rota::new(EVERY, start);
        assert_eq!(rota.take(&Shards(0), start + EVERY), []);
        assert_eq!(rota.next(0), start + 2 * EVERY);
    }
}
