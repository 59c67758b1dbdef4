//! The clock guard: judges by the local monotonic clock whether the clock of a Redis can be trusted. Pure.
//!
//! ```text
//!            a jump beyond the step                steady for long enough
//! Steady ─────────────────────────────► Jumped ─────────────────────────────► Steady (on the new baseline)
//!                                        ▲  │ another jump: the wait starts over
//!                                        └──┘
//! ```
//!
//! The baseline is the difference of the two clocks. The baseline belongs to the address, not to the connection: a
//! reconnect, a restart or another master behind the same address must fit the baseline, and so must a node of a
//! cluster that takes over.

use delayq_core::time::{UnixMicros, UnixMillis};
use std::time::{Duration, Instant};

/// Maximum drift between two sound clocks: NTP slews by at most 500 ppm, on either side.
const DRIFT_PPM: u128 = 1000;

/// The judge of one clock.
#[derive(Clone, Debug)]
pub struct Guard {
    origin: Instant,
    max_step: Duration,
    steady_for: Duration,
    baseline: Option<Baseline>,
    since: Option<Instant>,
    jumped: bool,
}

/// Redis's clock minus the local clock, and the time of the comparison.
#[derive(Clone, Copy, Debug)]
struct Baseline {
    offset_us: i64,
    at: Instant,
}

/// Redis's clock during a call, and the times of the call by the local clock.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// When the call was sent.
    pub sent: Instant,
    /// What Redis's clock read.
    pub ran: UnixMicros,
    /// When the answer arrived.
    pub answered: Instant,
}

/// The judgement after a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The clock fits the baseline, or was not compared before.
    Fits,
    /// The clock jumped by this number of µs: hold the shards.
    Jumped(i64),
    /// The clock was steady again for long enough: let the shards continue.
    Steady,
}

// === impl Guard ===

impl Guard {
    /// Starts without a baseline. `now` is any moment of the local clock.
    pub fn new(now: Instant, max_step: Duration, steady_for: Duration) -> Self {
        Self { origin: now, max_step, steady_for, baseline: None, since: None, jumped: false }
    }

    /// The guard of the Redis that takes over, whose clock has to fit the same baseline.
    pub fn heir(&self) -> Self {
        Self { since: None, jumped: false, ..self.clone() }
    }

    /// Returns true if the clock is not trusted.
    pub fn is_jumped(&self) -> bool {
        self.jumped
    }

    /// Returns true if the clock was steady for long enough to end a hold that an earlier owner left.
    pub fn is_proven(&self, now: Instant) -> bool {
        !self.jumped
            && self.since.is_some_and(|since| now.saturating_duration_since(since) >= self.steady_for)
    }

    /// The latest reading of Redis's clock, without a jump, during a call that is sent at `sent` and answered within
    /// `trip`; `None` before the first comparison.
    pub fn latest(&self, sent: Instant, trip: Duration) -> Option<UnixMillis> {
        let baseline = self.baseline?;
        let answered = sent + trip;
        let local_us = self.local_us(answered);
        let allowed = i64::try_from(self.allowed_us(baseline.at, answered)).unwrap_or(i64::MAX);
        let us = baseline.offset_us.saturating_add(local_us).saturating_add(allowed);
        Some(UnixMillis::new(u64::try_from(us).unwrap_or(0).div_ceil(1000)))
    }

    /// Takes a comparison of the clocks.
    pub fn compare(&mut self, seen: Comparison) -> Verdict {
        // The call ran between sending and answer, so the offset lies between these two values.
        let low = self.offset_us(seen.ran, seen.answered);
        let high = self.offset_us(seen.ran, seen.sent);
        let middle = low + (high - low) / 2;
        let Some(baseline) = self.baseline else {
            self.rebase(middle, seen.answered);
            self.since = Some(seen.answered);
            return Verdict::Fits;
        };
        let off = baseline.offset_us - baseline.offset_us.clamp(low, high);
        if off.unsigned_abs() > self.allowed_us(baseline.at, seen.answered) {
            self.rebase(middle, seen.answered);
            self.since = Some(seen.answered);
            self.jumped = true;
            return Verdict::Jumped(-off);
        }
        self.since.get_or_insert(seen.answered);
        // A slow answer says little about the offset: such an answer confirms the baseline without moving it.
        self.rebase(baseline.offset_us.clamp(low, high), seen.answered);
        if self.jumped
            && self.since.is_some_and(|since| seen.sent.saturating_duration_since(since) >= self.steady_for)
        {
            self.jumped = false;
            return Verdict::Steady;
        }
        Verdict::Fits
    }

    fn rebase(&mut self, offset_us: i64, at: Instant) {
        self.baseline = Some(Baseline { offset_us, at });
    }

    fn allowed_us(&self, from: Instant, to: Instant) -> u64 {
        let drift = to.saturating_duration_since(from).as_micros() * DRIFT_PPM / 1_000_000;
        u64::try_from(self.max_step.as_micros() + drift).unwrap_or(u64::MAX)
    }

    fn offset_us(&self, redis: UnixMicros, local: Instant) -> i64 {
        i64::try_from(redis.0).unwrap_or(i64::MAX) - self.local_us(local)
    }

    fn local_us(&self, at: Instant) -> i64 {
        i64::try_from(at.saturating_duration_since(self.origin).as_micros()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const T0_US: i64 = 1_700_000_000_000_000;

    /// The clock was moved by `step_ms`, and the round trip took `trip_ms`.
    fn seen(start: Instant, at_ms: u64, step_ms: i64, trip_ms: u64) -> Comparison {
        let sent = start + Duration::from_millis(at_ms);
        let ran = T0_US + (at_ms * 1000 + trip_ms * 500) as i64 + step_ms * 1000;
        Comparison { sent, ran: UnixMicros(ran as u64), answered: sent + Duration::from_millis(trip_ms) }
    }

    fn guard(start: Instant) -> Guard {
        Guard::new(start, Duration::from_secs(1), Duration::from_secs(5))
    }

    #[test]
    fn who_takes_over_has_to_fit_the_clock_of_before_and_is_proven_by_its_own_time() {
        let start = clock::steady();
        let mut former = guard(start);
        former.compare(seen(start, 0, 0, 1));
        assert_eq!(former.heir().compare(seen(start, 100, 10_000, 1)), Verdict::Jumped(9_999_500));
        let mut heir = former.heir();
        let after = |ms| start + Duration::from_millis(ms);
        assert_eq!(heir.compare(seen(start, 60_000, 0, 1)), Verdict::Fits);
        assert!(!heir.is_proven(after(64_000)) && heir.is_proven(after(65_001)));
    }

    #[test]
    fn verdicts() {
        type Step = (u64, i64, u64, Verdict);
        let table: &[(&str, &[Step])] = &[
            ("a step within the bound is taken", &[(0, 0, 1, Verdict::Fits), (100, 900, 1, Verdict::Fits)]),
            (
                "steps within the bound add up unseen, one at a time",
                &[(0, 0, 1, Verdict::Fits), (100, 900, 1, Verdict::Fits), (200, 1_800, 1, Verdict::Fits)],
            ),
            ("ten seconds ahead", &[(0, 0, 1, Verdict::Fits), (100, 10_000, 1, Verdict::Jumped(9_999_500))]),
            ("ten seconds back", &[(0, 0, 1, Verdict::Fits), (100, -10_000, 1, Verdict::Jumped(-9_999_500))]),
            (
                "a slow answer accuses nobody",
                &[(0, 0, 1, Verdict::Fits), (100, 1_500, 3_000, Verdict::Fits), (4_000, 0, 1, Verdict::Fits)],
            ),
            (
                "an hour without an answer allows for drift",
                &[(0, 0, 1, Verdict::Fits), (3_600_000, 4_000, 1, Verdict::Fits)],
            ),
            (
                "steady again after five seconds, not before",
                &[
                    (0, 0, 1, Verdict::Fits),
                    (100, 10_000, 1, Verdict::Jumped(9_999_500)),
                    (4_000, 10_000, 1, Verdict::Fits),
                    (5_200, 10_000, 1, Verdict::Steady),
                    (5_300, 10_000, 1, Verdict::Fits),
                ],
            ),
            (
                "a second jump starts the wait over",
                &[
                    (0, 0, 1, Verdict::Fits),
                    (100, 10_000, 1, Verdict::Jumped(9_999_500)),
                    (4_000, 0, 1, Verdict::Jumped(-9_999_000)),
                    (5_200, 0, 1, Verdict::Fits),
                    (9_100, 0, 1, Verdict::Steady),
                ],
            ),
        ];
        for (name, steps) in table {
            let start = clock::steady();
            let mut guard = guard(start);
            for &(at_ms, step_ms, trip_ms, expected) in *steps {
                let verdict = guard.compare(seen(start, at_ms, step_ms, trip_ms));
                let same = match (verdict, expected) {
                    (Verdict::Jumped(one), Verdict::Jumped(other)) => (one - other).abs() <= 1_000,
                    (one, other) => one == other,
                };
                assert!(same, "{name}, at {at_ms} ms: {verdict:?}, not {expected:?}");
            }
        }
    }

    #[test]
    fn what_a_clock_can_read_is_the_baseline_and_the_step_that_is_no_alarm() {
        let start = clock::steady();
        let mut guard = guard(start);
        assert_eq!(guard.latest(start, Duration::ZERO), None, "nothing is known yet");
        guard.compare(seen(start, 0, 0, 0));
        let of_ms = |ms: u64| Some(UnixMillis::new(T0_US as u64 / 1000 + ms));
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(guard.latest(at(0), Duration::ZERO), of_ms(1_000), "a step of a second");
        assert_eq!(guard.latest(at(0), Duration::from_secs(2)), of_ms(3_002), "as long as a call may take");
        assert_eq!(
            guard.latest(at(10_000), Duration::ZERO),
            of_ms(11_010),
            "and what two clocks drift apart"
        );
        guard.compare(seen(start, 10_000, 86_400_000, 0));
        assert_eq!(
            guard.latest(at(10_000), Duration::ZERO),
            of_ms(86_411_000),
            "of a jump, the new baseline"
        );
    }

    #[test]
    fn a_hold_found_at_the_start_ends_only_once_the_clock_is_proven() {
        let start = clock::steady();
        let mut guard = guard(start);
        assert!(!guard.is_proven(start));
        guard.compare(seen(start, 0, 0, 1));
        assert!(!guard.is_proven(start + Duration::from_secs(4)));
        assert!(guard.is_proven(start + Duration::from_secs(6)));
        guard.compare(seen(start, 6_000, 10_000, 1));
        assert!(!guard.is_proven(start + Duration::from_secs(20)));
    }
}
