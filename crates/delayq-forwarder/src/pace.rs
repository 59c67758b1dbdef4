//! How much may be on its way in a lane, and how fast that room is filled again.
//!
//! The room begins small, and grows while deliveries are quick. A destination that takes few messages a second would
//! answer the last of many only when their time is over.
//!
//! It is filled over half of the time that a delivery takes. What was sent together to a slow destination is confirmed
//! together, and its whole room comes free at once. To ask for as much again at once would keep Redis from everybody
//! else for as long as that takes. Spread over half a round trip it costs the lane nothing: a room that empties evenly
//! is filled twice as fast as it empties.

use std::time::{Duration, Instant};

/// The room that a lane begins with, unless its whole room is smaller.
const FIRST_ROOM: usize = 2048;
/// A delivery is quick that takes this part of the time it has, and slow where it takes four times as long.
const QUICK: u32 = 20;
const SLOW: u32 = 4;
/// What may be asked for at once, however slow the destination is.
const LEAST_AT_ONCE: usize = 128;
/// What is not asked for in time may be made good, but no more than what belongs to this time.
const LENIENCY: Duration = Duration::from_millis(10);
/// How much of a delivery that took longer counts: one in so many.
const SMOOTHING: u32 = 8;

/// The pace of one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The most messages on their way, and how many may be now.
    most: usize,
    room: usize,
    /// What a quick delivery takes at most.
    quick: Duration,
    /// What a delivery takes; `None`: there was none yet.
    takes: Option<Duration>,
    /// When the next message may be asked for.
    from: Instant,
}

// === impl Pace ===

impl Pace {
    /// For so many messages on their way, each of which has so much time.
    pub(crate) fn new(most: usize, timeout: Duration, now: Instant) -> Self {
        Self { most, room: most.min(FIRST_ROOM), quick: timeout / QUICK, takes: None, from: now }
    }

    /// So many messages were delivered, and it took so long; `None`: none of them was. What is quicker than before counts
    /// at once, what is slower little by little.
    pub(crate) fn delivered(&mut self, count: usize, took: Option<Duration>) {
        let Some(took) = took else {
            self.room = self.most.min(FIRST_ROOM);
            return;
        };
        if took <= self.quick {
            self.room = self.most.min(self.room + count);
        } else if took > self.quick * SLOW {
            self.room = self.most.min(FIRST_ROOM);
        }
        let before = self.takes.unwrap_or(took);
        self.takes = Some(before + took.saturating_sub(before) / SMOOTHING - before.saturating_sub(took));
    }

    /// How many messages may be on their way.
    pub(crate) const fn room(&self) -> usize {
        self.room
    }

    /// When something may be asked for.
    pub(crate) const fn from(&self) -> Instant {
        self.from
    }

    /// How many messages may be asked for now.
    pub(crate) fn allowed(&self, now: Instant) -> usize {
        let Some(behind) = now.checked_duration_since(self.from) else { return 0 };
        let nanos = self.nanos_a_message();
        if nanos == 0.0 {
            return usize::MAX;
        }
        let made_good = behind.min(LENIENCY).as_nanos() as f64 / nanos;
        LEAST_AT_ONCE.saturating_add(made_good as usize)
    }

    /// So many were asked for.
    pub(crate) fn asked(&mut self, count: usize, now: Instant) {
        let earliest = now.checked_sub(LENIENCY).unwrap_or(now);
        self.from = self.from.max(earliest) + self.time_of(count);
    }

    /// So many of those that were asked for are not there.
    pub(crate) fn not_found(&mut self, count: usize) {
        self.from = self.from.checked_sub(self.time_of(count)).unwrap_or(self.from);
    }

    fn time_of(&self, count: usize) -> Duration {
        Duration::from_nanos((self.nanos_a_message() * count as f64) as u64)
    }

    fn nanos_a_message(&self) -> f64 {
        self.takes.map_or(0.0, |takes| takes.as_nanos() as f64 / (2 * self.room.max(1)) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[test]
    fn a_room_is_filled_over_half_of_the_time_that_a_delivery_takes() {
        let start = Instant::now();
        for (room, took, expected) in [
            (2048, ms(512), ms(256)),
            (1024, ms(500), ms(250)),
            (64, ms(1000), ms(500)),
            (2048, ms(4), ms(2)),
        ] {
            let mut pace = Pace::new(room, TIMEOUT, start);
            pace.delivered(1, Some(took));
            let (mut asked, mut now) = (0, start);
            while asked < room {
                let some = pace.allowed(now).min(room - asked);
                pace.asked(some, now);
                asked += some;
                now = now.max(pace.from());
            }
            // It begins with what may be made good.
            let needed = now - start;
            assert!(
                needed <= expected && needed + 2 * LENIENCY >= expected,
                "{room} of {took:?}: {needed:?}"
            );
        }
    }

    #[test]
    fn a_room_grows_while_deliveries_are_quick_and_begins_again_when_they_are_slow() {
        for (most, took, expected) in [
            (8192, vec![Some(500); 8], 4096),
            (8192, vec![Some(500); 99], 8192),
            (100, vec![Some(1); 99], 100),
            (8192, vec![Some(501); 99], 2048),
            (8192, vec![Some(1), Some(2000)], 2048 + 256),
            (8192, vec![Some(1), Some(2001)], 2048),
            (8192, vec![Some(1), None], 2048),
            (100, vec![Some(1), None], 100),
        ] {
            let mut pace = Pace::new(most, TIMEOUT, Instant::now());
            took.iter().for_each(|took| pace.delivered(256, took.map(ms)));
            assert_eq!(pace.room(), expected, "{most}: {took:?} ms");
        }
    }

    #[test]
    fn nothing_bounds_a_lane_that_has_delivered_nothing_yet() {
        let now = Instant::now();
        let mut pace = Pace::new(2048, TIMEOUT, now);
        assert_eq!(pace.allowed(now), usize::MAX);
        pace.asked(2048, now);
        assert_eq!(pace.allowed(now), usize::MAX);
    }

    #[test]
    fn what_is_not_found_does_not_count() {
        let start = Instant::now();
        let mut pace = Pace::new(2048, TIMEOUT, start);
        pace.delivered(1, Some(ms(4096)));
        pace.asked(128, start);
        assert_eq!(pace.allowed(start), 0);
        pace.not_found(128);
        assert!(pace.allowed(start) >= 128);
    }

    #[test]
    fn a_quicker_delivery_counts_at_once_and_a_slower_one_little_by_little() {
        let mut pace = Pace::new(1, TIMEOUT, Instant::now());
        for (took, expected) in [(80, 80), (160, 90), (20, 20), (100, 30)] {
            pace.delivered(1, Some(ms(took)));
            assert_eq!(pace.takes, Some(ms(expected)), "after {took} ms");
        }
    }
}
