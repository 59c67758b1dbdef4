//! When to send a call so that it meets Redis's clock at a given moment: a pure estimate.
//!
//! Two lengths are measured, both as the shortest of late. `ahead`: what Redis's clock reads when a call runs, minus
//! the local time at which it was sent; it holds the offset of the two clocks and the way there in one number. `wake`:
//! how long after the moment an alarm was set for the call really goes out. A call for due time `d` is sent at
//! `d - ahead`, and its alarm set `wake` before that.
//!
//! The shortest, not the mean: who goes by the mean is early half the time, and early means an empty call. The memory
//! of the shortest fades with time, so that the estimate follows two clocks that drift apart.

use delayq_core::{UnixMicros, UnixMillis};
use std::time::{Duration, Instant};

/// How far before its time a call may go out for being due: less than any way to Redis takes.
const TOLERANCE_US: i64 = 10;
/// The time in which half of what is remembered of the shortest way fades.
const FADES_IN: Duration = Duration::from_secs(2);
/// A sample this far above the estimate tells of a busy moment; it is followed, but not believed whole.
const BELIEVED_US: i64 = 250;
/// A difference no way explains: the clock itself was moved.
const MOVED_US: i64 = 100_000;
/// No alarm is set earlier than this for the time it takes to wake.
const LONGEST_WAKE_US: i64 = 500;

/// What is known of the way to one Redis and of its clock.
#[derive(Clone, Debug)]
pub(crate) struct Aim {
    origin: Instant,
    ahead: Option<Shortest>,
    wake: Option<Shortest>,
}

#[derive(Clone, Copy, Debug)]
struct Shortest {
    us: i64,
    at: Instant,
}

// === impl Aim ===

impl Aim {
    /// Knows nothing yet; `now` is any moment of the local clock.
    pub(crate) fn new(now: Instant) -> Self {
        Self { origin: now, ahead: None, wake: None }
    }

    /// A call that was sent at `sent` ran when Redis's clock read `ran`.
    pub(crate) fn ran(&mut self, sent: Instant, ran: UnixMicros) {
        let sample = micros(ran) - self.local_us(sent);
        match &mut self.ahead {
            Some(known) if (sample - known.us).abs() < MOVED_US => known.take(sample, sent),
            other => *other = Some(Shortest { us: sample, at: sent }),
        }
    }

    /// The same of a call of another kind, which is better than to know nothing.
    pub(crate) fn ran_otherwise(&mut self, sent: Instant, ran: UnixMicros) {
        if self.ahead.is_none() {
            self.ran(sent, ran);
        }
    }

    /// A call for which the alarm was set to `aimed` was sent at `sent`.
    pub(crate) fn woke(&mut self, aimed: Instant, sent: Instant) {
        let late = micros_between(aimed, sent).clamp(0, LONGEST_WAKE_US);
        match &mut self.wake {
            Some(known) => known.take(late, sent),
            none => *none = Some(Shortest { us: late, at: sent }),
        }
    }

    /// What Redis's clock will read, in µs, when a call sent at `now` runs; `None` before the first answer.
    pub(crate) fn reach_us(&self, now: Instant) -> Option<i64> {
        Some(self.local_us(now) + self.ahead?.us)
    }

    /// Whether a call sent at `now` finds what is due at `due`. Before the first answer it is worth a try.
    pub(crate) fn finds(&self, now: Instant, due: UnixMillis) -> bool {
        self.reach_us(now).is_none_or(|reach| reach + TOLERANCE_US >= due_us(due))
    }

    /// When the alarm for `due` has to go off; `now` where that is over, and before the first answer.
    pub(crate) fn alarm_for(&self, due: UnixMillis, now: Instant) -> Instant {
        let Some(reach) = self.reach_us(now) else { return now };
        let wait = due_us(due).saturating_sub(reach);
        if wait <= TOLERANCE_US {
            return now;
        }
        // What is left after an alarm that rang a little early is slept as it is, so that nothing spins.
        let wake = self.wake.map_or(0, |wake| wake.us);
        let wait = if wait > 2 * wake { wait - wake } else { wait };
        now + Duration::from_micros(wait.unsigned_abs()).min(FAR)
    }

    fn local_us(&self, at: Instant) -> i64 {
        micros_between(self.origin, at)
    }
}

/// The farthest that an alarm is set; whatever is later is looked at again then.
const FAR: Duration = Duration::from_secs(3600);

// === impl Shortest ===

impl Shortest {
    fn take(&mut self, sample: i64, at: Instant) {
        let over = (sample - self.us).min(BELIEVED_US);
        if over <= 0 {
            self.us = sample;
        } else {
            let passed = at.saturating_duration_since(self.at).as_secs_f64() / FADES_IN.as_secs_f64();
            self.us += (over as f64 * passed.clamp(0.005, 0.5)) as i64;
        }
        self.at = self.at.max(at);
    }
}

fn due_us(due: UnixMillis) -> i64 {
    i64::try_from(due.get()).unwrap_or(i64::MAX).saturating_mul(1000)
}

fn micros(time: UnixMicros) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

/// From `one` to `other`, negative where it is earlier.
fn micros_between(one: Instant, other: Instant) -> i64 {
    let us = |d: Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    if other >= one { us(other - one) } else { -us(one - other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: UnixMillis = UnixMillis::new(1_700_000_000_000);

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Redis's clock when the local one reads `start + after`: the due time comes 10 ms after `start`.
    fn redis(after: u64) -> UnixMicros {
        UnixMicros(DUE.get() * 1000 - 10_000 + after)
    }

    #[test]
    fn before_the_first_answer_a_call_is_worth_a_try() {
        let start = Instant::now();
        let aim = Aim::new(start);
        assert!(aim.finds(start, DUE));
        assert_eq!(aim.alarm_for(DUE, start), start);
    }

    #[test]
    fn a_call_is_sent_the_way_and_the_wake_up_ahead() {
        let start = Instant::now();
        let mut aim = Aim::new(start);
        // Sent at 0, ran 80 µs later.
        aim.ran(start, redis(80));
        assert_eq!(aim.alarm_for(DUE, start), start + us(9_920));
        assert!(!aim.finds(start + us(9_900), DUE));
        assert!(aim.finds(start + us(9_920), DUE));
        aim.woke(start, start + us(50));
        assert_eq!(aim.alarm_for(DUE, start), start + us(9_870));
        assert_eq!(aim.alarm_for(DUE, start + us(20_000)), start + us(20_000), "what is over is due now");
    }

    #[test]
    fn a_slow_answer_moves_the_aim_little_and_a_fast_one_at_once() {
        let start = Instant::now();
        let mut aim = Aim::new(start);
        aim.ran(start, redis(80));
        aim.ran(start + us(1_000), redis(1_000 + 5_080));
        let wait = aim.alarm_for(DUE, start) - start;
        assert!(wait >= us(9_900) && wait <= us(9_920), "{wait:?}");
        aim.ran(start + us(2_000), redis(2_000 + 40));
        assert_eq!(aim.alarm_for(DUE, start), start + us(9_960));
    }

    #[test]
    fn an_early_arrival_leaves_exactly_the_remainder() {
        let start = Instant::now();
        let mut aim = Aim::new(start);
        aim.ran(start, redis(80));
        let sent = start + us(9_920);
        aim.ran(sent, redis(9_970));
        assert_eq!(aim.alarm_for(DUE, start + us(9_990)), start + us(9_990));
        assert_eq!(aim.alarm_for(DUE, start), start + us(9_950));
    }

    #[test]
    fn a_moved_clock_is_followed_at_once() {
        let start = Instant::now();
        for step_us in [10_000_000_i64, -9_000_000] {
            let mut aim = Aim::new(start);
            aim.ran(start, redis(80));
            let moved = UnixMicros(redis(1_080).0.saturating_add_signed(step_us));
            aim.ran(start + us(1_000), moved);
            assert_eq!(aim.reach_us(start + us(1_000)), Some(moved.0 as i64));
        }
    }

    #[test]
    fn clocks_that_drift_apart_are_followed() {
        let start = Instant::now();
        let mut aim = Aim::new(start);
        for second in 0..60_u64 {
            let at = second * 1_000_000;
            aim.ran(start + us(at), redis(at + 80 + second * 20));
        }
        let last = start + us(59_000_000);
        let error = aim.reach_us(last).unwrap() - redis(59_000_000 + 80 + 59 * 20).0 as i64;
        assert!((-40..=0).contains(&error), "{error} µs off");
    }
}
