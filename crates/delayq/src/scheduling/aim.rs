//! Estimates when to send a call so that Redis runs the call at a given moment of its clock. Pure.
//!
//! Two lengths are measured. `ahead` is Redis's clock when a call runs, minus the local time of sending: the offset of
//! the two clocks and the network delay in one number. `wake` is the time from an alarm until its call can go out. A
//! call for due time `d` is sent at `d - ahead`; the alarm is set `wake` earlier, and the loop spins for the rest (less
//! than a tenth of a millisecond).
//!
//! For `ahead` the estimate is the length that one call in a hundred undercuts. The mean would be early half the time,
//! and an early call is an empty call; the shortest length would cost lateness each time. For `wake` the estimate is a
//! length that four calls in five keep.

use delayq_core::time::{UnixMicros, UnixMillis};
use std::time::{Duration, Instant};

/// Share of calls that may arrive too early.
const EARLY: f64 = 0.01;
/// Share of wake-ups that are in time for their call.
const IN_TIME: f64 = 0.8;
/// Clock resolution: a call may be sent this much before the due time.
const TOLERANCE_US: f64 = 2.0;
/// While samples are rare: the time after which the latest sample outweighs the earlier samples.
const FADES_IN: Duration = Duration::from_secs(2);
/// A sample this far from the estimate means a busy moment; the estimate follows with a limited step.
const BELIEVED_US: f64 = 250.0;
/// A difference larger than any network delay: the clock was stepped.
const MOVED_US: f64 = 100_000.0;
/// Maximum lead of an alarm for the time to wake.
const LONGEST_WAKE_US: f64 = 100.0;
/// Maximum time to an alarm; a later due time is aimed at again then.
const FAR: Duration = Duration::from_secs(3600);

/// The estimates for one Redis.
#[derive(Clone, Debug)]
pub struct Aim {
    origin: Instant,
    /// The first measured difference: later samples are relative, so that a float keeps nanoseconds.
    base_us: i64,
    ahead: Option<Quantile>,
    wake: Option<Quantile>,
}

/// Follows, over time, the length that a given share of the samples undercuts.
#[derive(Clone, Copy, Debug)]
struct Quantile {
    part: f64,
    us: f64,
    /// The average distance of samples from the estimate: the scale of a step.
    spread_us: f64,
    at: Instant,
}

/// The moments to act on a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// When the alarm has to go off; now if the time has passed.
    pub wake: Instant,
    /// When the call has to go out.
    pub send: Instant,
}

// === impl Shot ===

impl Shot {
    /// Wakes and sends at the same moment.
    pub const fn at(at: Instant) -> Self {
        Self { wake: at, send: at }
    }
}

// === impl Aim ===

impl Aim {
    /// Starts without an answer. `now` is any moment of the local clock.
    pub fn new(now: Instant) -> Self {
        Self { origin: now, base_us: 0, ahead: None, wake: None }
    }

    /// Redis's clock read `ran` during a call that was sent at `sent`.
    pub fn ran(&mut self, sent: Instant, ran: UnixMicros) {
        let whole = i64::try_from(ran.0).unwrap_or(i64::MAX) - self.local_us(sent);
        let sample = (whole - self.base_us) as f64;
        match &mut self.ahead {
            Some(known) if (sample - known.us).abs() < MOVED_US => known.take(sample, sent),
            other => {
                self.base_us = whole;
                *other = Some(Quantile::new(EARLY, 0.0, sent));
            }
        }
    }

    /// As [`Self::ran`], for a call of another kind, and only as the first sample.
    pub fn ran_otherwise(&mut self, sent: Instant, ran: UnixMicros) {
        if self.ahead.is_none() {
            self.ran(sent, ran);
        }
    }

    /// Records that an alarm set to `aimed` woke the loop at `woken`.
    pub fn woke(&mut self, aimed: Instant, woken: Instant) {
        let late = woken.saturating_duration_since(aimed).as_secs_f64() * 1e6;
        match &mut self.wake {
            Some(known) => known.take(late, woken),
            none => *none = Some(Quantile::new(IN_TIME, late.min(LONGEST_WAKE_US), woken)),
        }
    }

    /// In µs, when a call sent at `now` will run; `None` before the first answer.
    pub fn reach_us(&self, now: Instant) -> Option<i64> {
        Some(self.local_us(now) + self.base_us + self.ahead?.us.floor() as i64)
    }

    /// True if a call sent at `now` runs at or after `due`. Before the first answer every call is worth a try.
    pub fn finds(&self, now: Instant, due: UnixMillis) -> bool {
        self.reach_us(now).is_none_or(|reach| reach + TOLERANCE_US as i64 >= due_us(due))
    }

    /// The moments for a due time: at once before the first answer.
    pub fn shot(&self, due: UnixMillis, now: Instant) -> Shot {
        let Some(reach) = self.reach_us(now) else { return Shot { wake: now, send: now } };
        let wait =
            Duration::from_micros(u64::try_from(due_us(due).saturating_sub(reach)).unwrap_or(0)).min(FAR);
        let wake = self.wake.map_or(0.0, |wake| wake.us.clamp(0.0, LONGEST_WAKE_US));
        let wake = Duration::from_micros(wake as u64);
        Shot { wake: now + wait.saturating_sub(wake), send: now + wait }
    }

    fn local_us(&self, at: Instant) -> i64 {
        let us = |d: Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
        if at >= self.origin { us(at - self.origin) } else { -us(self.origin - at) }
    }
}

// === impl Quantile ===

impl Quantile {
    fn new(part: f64, us: f64, at: Instant) -> Self {
        Self { part, us, spread_us: 20.0, at }
    }

    /// Steps towards the sample. The up and down steps are sized so that, at rest, the given share of samples lies
    /// below.
    fn take(&mut self, sample: f64, at: Instant) {
        let off = (sample - self.us).clamp(-BELIEVED_US, BELIEVED_US);
        self.spread_us += (off.abs() - self.spread_us) * 0.05;
        let step = self.spread_us.max(1.0) / 8.0;
        let by = if off < 0.0 { off.max(-step * (1.0 - self.part)) } else { off.min(step * self.part) };
        // While samples are rare, each sample tells most about two clocks that drift apart.
        let passed = at.saturating_duration_since(self.at).as_secs_f64() / FADES_IN.as_secs_f64();
        let drifted = off * passed.min(0.5);
        self.us += if drifted.abs() > by.abs() { drifted } else { by };
        self.at = self.at.max(at);
    }
}

fn due_us(due: UnixMillis) -> i64 {
    i64::try_from(due.get()).unwrap_or(i64::MAX).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const DUE: UnixMillis = UnixMillis::new(1_700_000_000_000);

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// The due time comes 10 ms after `start`.
    fn redis(after: u64) -> UnixMicros {
        UnixMicros(DUE.get() * 1000 - 10_000 + after)
    }

    #[test]
    fn before_the_first_answer_a_call_is_worth_a_try() {
        let start = clock::steady();
        let aim = Aim::new(start);
        assert!(aim.finds(start, DUE));
        assert_eq!(aim.shot(DUE, start), Shot { wake: start, send: start });
    }

    #[test]
    fn a_call_is_sent_the_way_ahead_and_its_alarm_the_wake_up_before_that() {
        let start = clock::steady();
        let mut aim = Aim::new(start);
        // Sent at 0, ran 80 µs later.
        aim.ran(start, redis(80));
        assert_eq!(aim.shot(DUE, start), Shot { wake: start + us(9_920), send: start + us(9_920) });
        assert!(!aim.finds(start + us(9_900), DUE));
        assert!(aim.finds(start + us(9_920), DUE));
        aim.woke(start, start + us(50));
        assert_eq!(aim.shot(DUE, start), Shot { wake: start + us(9_870), send: start + us(9_920) });
        let over = start + us(20_000);
        assert_eq!(aim.shot(DUE, over), Shot { wake: over, send: over }, "what has passed is due now");
    }

    #[test]
    fn one_call_in_a_hundred_is_early() {
        let start = clock::steady();
        let mut aim = Aim::new(start);
        let (mut early, mut late_us) = (0, 0);
        let mut random = fastrand::Rng::with_seed(7);
        for n in 0..20_000_u64 {
            // A network delay of 60 to 160 µs, mostly short, with a busy moment now and then.
            let way = 60
                + random.u64(0..20) * random.u64(0..20) / 4
                + random.u64(0..10)
                + u64::from(n % 97 == 0) * 3_000;
            let at = start + us(n * 1_000);
            let target = n * 1_000 + 500;
            if n > 1_000 {
                let base = redis(0).0 as i64;
                let wait = base + target as i64 - aim.reach_us(at).unwrap();
                let arrives = n as i64 * 1_000 + wait + way as i64 - target as i64;
                early += u64::from(arrives < 0);
                late_us += arrives.max(0);
            }
            aim.ran(at, redis(n * 1_000 + way));
        }
        assert!((20..=380).contains(&early), "{early} of 19,000 were early");
        assert!(late_us / 19_000 < 80, "{} µs late on the average", late_us / 19_000);
    }

    #[test]
    fn a_slow_answer_moves_the_aim_little() {
        let start = clock::steady();
        let mut aim = Aim::new(start);
        aim.ran(start, redis(80));
        aim.ran(start + us(1_000), redis(1_000 + 5_080));
        let wait = aim.shot(DUE, start).send - start;
        assert!(wait >= us(9_915) && wait <= us(9_921), "{wait:?}");
    }

    #[test]
    fn a_moved_clock_is_followed_at_once() {
        let start = clock::steady();
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
        for drift_us in [20, -20_i64] {
            let start = clock::steady();
            let mut aim = Aim::new(start);
            let ran = |second: i64| (second * 1_000_000 + 80 + second * drift_us) as u64;
            for second in 0..60 {
                aim.ran(start + us(second as u64 * 1_000_000), redis(ran(second)));
            }
            let error = aim.reach_us(start + us(59_000_000)).unwrap() - redis(ran(59)).0 as i64;
            assert!((-40..=40).contains(&error), "{error} µs off");
        }
    }
}
