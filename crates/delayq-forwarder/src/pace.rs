//! How many messages of a lane may be in flight (its room), and how fast that room is refilled.
//!
//! The room starts small and doubles while deliveries are quick. Otherwise the room follows the measured throughput: it
//! grows to the number of messages confirmed in a quarter of the timeout, and shrinks to the number confirmed in half
//! of the timeout. With a larger room, a slow destination would confirm the last messages only after their timeout.
//!
//! The room is refilled over half the duration of a delivery. A slow destination confirms a whole batch together, so
//! the whole room becomes free at once, and reserving as much at once would block Redis for all other callers.
//! Spreading the refill over half a round trip costs the lane nothing: the room is filled twice as fast as the
//! destination empties it.

use std::time::{Duration, Instant};

/// The initial room, and the maximum after a batch without a confirm.
const FIRST_ROOM: usize = 128;
/// Minimum room, unless the whole room is smaller: slow answers may arrive in parallel.
const MIN_ROOM: usize = 8;
/// A delivery is quick up to this fraction of its timeout.
const QUICK: u32 = 20;
/// The room grows to the throughput in this fraction of the timeout, and shrinks to the throughput in `SHRUNK`.
const GROWN: u32 = 4;
const SHRUNK: u32 = 2;
/// Messages that may be requested at once, however slow the destination.
const MIN_AT_ONCE: usize = 128;
/// Maximum delay that late asks may make up for.
const LENIENCY: Duration = Duration::from_millis(10);
/// Weight of a slower delivery in the average: 1 of this many.
const SMOOTHING: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Configured maximum, and the current one.
    max: usize,
    room: usize,
    timeout: Duration,
    /// `None` before the first.
    takes: Option<Duration>,
    from: Instant,
    delivered: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Messages that the lane had delivered when the batch was sent.
    pub(crate) before: u64,
    /// Delivered, and not delivered.
    pub(crate) delivered: usize,
    pub(crate) lost: usize,
    /// Time until the last confirm; `None` without a confirm.
    pub(crate) took: Option<Duration>,
}

// === impl Pace ===

impl Pace {
    pub(crate) fn new(max: usize, timeout: Duration, now: Instant) -> Self {
        Self { max, room: max.min(FIRST_ROOM), timeout, takes: None, from: now, delivered: 0 }
    }

    pub(crate) const fn count(&mut self, delivered: usize) {
        self.delivered += delivered as u64;
    }

    pub(crate) const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A quicker delivery counts at once, a slower delivery gradually.
    pub(crate) fn measured(&mut self, measure: Measure) {
        let Some(took) = measure.took else {
            self.room = self.room.min(FIRST_ROOM);
            return;
        };
        // Confirmed meanwhile, from this batch and others.
        let meanwhile = usize::try_from(self.delivered - measure.before).unwrap_or(usize::MAX);
        let takes_within =
            |time: Duration| (meanwhile as f64 * time.as_secs_f64() / took.as_secs_f64()) as usize;
        let doubled = self.max.min(self.room.saturating_add(measure.delivered));
        if took <= self.timeout / QUICK {
            self.room = doubled;
        } else if took <= self.timeout / SHRUNK {
            self.room = self.room.max(doubled.min(takes_within(self.timeout / GROWN)));
        } else if meanwhile.saturating_add(measure.lost) >= self.room / 2 {
            // A lane that was not full does not show its destination's limit.
            let min = self.max.min(MIN_ROOM);
            self.room = self.room.min(takes_within(self.timeout / SHRUNK).max(min));
        }
        let before = self.takes.unwrap_or(took);
        self.takes = Some(before + took.saturating_sub(before) / SMOOTHING - before.saturating_sub(took));
    }

    pub(crate) const fn room(&self) -> usize {
        self.room
    }

    pub(crate) const fn from(&self) -> Instant {
        self.from
    }

    pub(crate) fn allowed(&self, now: Instant) -> usize {
        let Some(behind) = now.checked_duration_since(self.from) else { return 0 };
        let nanos = self.nanos_a_message();
        if nanos == 0.0 {
            return usize::MAX;
        }
        let made_good = behind.min(LENIENCY).as_nanos() as f64 / nanos;
        MIN_AT_ONCE.saturating_add(made_good as usize)
    }

    pub(crate) fn asked(&mut self, count: usize, now: Instant) {
        let earliest = now.checked_sub(LENIENCY).unwrap_or(now);
        self.from = self.from.max(earliest) + self.time_of(count);
    }

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
            pace.room = room;
            pace.takes = Some(took);
            let (mut asked, mut now) = (0, start);
            while asked < room {
                let some = pace.allowed(now).min(room - asked);
                pace.asked(some, now);
                asked += some;
                now = now.max(pace.from());
            }
            let needed = now - start;
            assert!(
                needed <= expected && needed + 2 * LENIENCY >= expected,
                "{room} of {took:?}: {needed:?}"
            );
        }
    }

    fn deliver(pace: &mut Pace, delivered: usize, took: Option<Duration>) {
        let before = pace.delivered();
        pace.count(delivered);
        pace.measured(Measure { before, delivered, lost: 0, took });
    }

    #[test]
    fn a_room_follows_what_its_destination_takes() {
        for (most, batches, expected) in [
            (8192, vec![(128, Some(500)); 8], 128 + 8 * 128),
            (8192, vec![(256, Some(500)); 99], 8192),
            (100, vec![(100, Some(1)); 99], 100),
            // As many as confirmed in a quarter of the time, at most double.
            (8192, vec![(128, Some(1000))], 256),
            (8192, vec![(128, Some(2000))], 160),
            (8192, vec![(128, Some(2500)), (128, Some(5000))], 128),
            // As many as confirmed in half of the time.
            (8192, vec![(128, Some(8000))], 80),
            (8192, vec![(128, Some(6240)); 9], 102),
            (8192, vec![(128, Some(9999)), (64, Some(9999)), (32, Some(9999)), (1, Some(9999))], 16),
            (8192, vec![(128, Some(60_000)), (5, Some(60_000))], 8),
            (4, vec![(4, Some(60_000))], 4),
            // The room was not full.
            (8192, vec![(1, Some(9000))], 128),
            (8192, vec![(256, Some(1)), (0, None)], 128),
            (100, vec![(100, Some(1)), (0, None)], 100),
        ] {
            let mut pace = Pace::new(most, TIMEOUT, Instant::now());
            batches.iter().for_each(|(count, took)| deliver(&mut pace, *count, took.map(ms)));
            assert_eq!(pace.room(), expected, "{most}: {batches:?}");
        }
    }

    #[test]
    fn what_others_delivered_meanwhile_counts_and_what_was_lost_shows_that_it_was_full() {
        let mut pace = Pace::new(8192, TIMEOUT, Instant::now());
        let before = pace.delivered();
        pace.count(100_000);
        pace.measured(Measure { before, delivered: 128, lost: 0, took: Some(ms(9000)) });
        assert_eq!(pace.room(), 128);
        let before = pace.delivered();
        pace.count(16);
        pace.measured(Measure { before, delivered: 16, lost: 112, took: Some(ms(8000)) });
        assert_eq!(pace.room(), 10);
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
        deliver(&mut pace, 0, Some(ms(4096)));
        pace.asked(128, start);
        assert_eq!(pace.allowed(start), 0);
        pace.not_found(128);
        assert!(pace.allowed(start) >= 128);
    }

    #[test]
    fn a_quicker_delivery_counts_at_once_and_a_slower_one_little_by_little() {
        let mut pace = Pace::new(1, TIMEOUT, Instant::now());
        for (took, expected) in [(80, 80), (160, 90), (20, 20), (100, 30)] {
            deliver(&mut pace, 1, Some(ms(took)));
            assert_eq!(pace.takes, Some(ms(expected)), "after {took} ms");
        }
    }
}
