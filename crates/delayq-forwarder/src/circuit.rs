//! The circuit breaker of one destination: whether to send, and which failures cost an attempt.
//!
//! ```text
//!            enough failures in a row           the rest ends
//!   Closed ─────────────────────────► Open ─────────────────────────► HalfOpen
//!     ▲                                ▲  rest doubles, up to the longest  │ one probe
//!     └────────────────────────────────┼─────────── delivered ────────────┤
//!                                      └───────── not delivered ──────────┘
//! ```
//! Consecutive rejections without a delivery between them also open the circuit (the brake): a misconfigured
//! destination must not empty a queue into the dead letters. A rejected probe then neither closes the circuit nor is
//! buried.
//!
//! No clock and no I/O: the caller passes the time.

use delayq_service::brokers::{Blame, Outcome};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CircuitSettings {
    /// Consecutive failures of unclear blame that open the circuit. A failure of the destination opens the circuit at
    /// once.
    pub(crate) failures: u32,
    pub(crate) first_rest: Duration,
    pub(crate) longest_rest: Duration,
    /// Consecutive rejections that open the circuit; 0 buries any number.
    pub(crate) max_burials: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Circuit {
    settings: CircuitSettings,
    state: BreakerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerState {
    Closed { failures: u32, rejected: u32 },
    Open { until: Instant, rest: Duration, braked: bool },
    HalfOpen { rest: Duration, braked: bool },
}

const CLOSED: BreakerState = BreakerState::Closed { failures: 0, rejected: 0 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    All,
    Probe,
    /// Nothing: a probe is in flight, or the rest ends at this time.
    None(Option<Instant>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) took: bool,
    pub(crate) down: bool,
    pub(crate) unclear: u32,
    pub(crate) rejected: u32,
    pub(crate) retry_after: Option<Duration>,
}

// === impl Circuit ===

impl Circuit {
    #[must_use]
    pub(crate) const fn new(settings: CircuitSettings) -> Self {
        Self { settings, state: CLOSED }
    }

    /// For a destination that could not be checked. The first probe is due immediately.
    #[must_use]
    pub(crate) const fn open(settings: CircuitSettings, now: Instant) -> Self {
        Self { settings, state: BreakerState::Open { until: now, rest: settings.first_rest, braked: false } }
    }

    #[must_use]
    pub(crate) fn pass(&self, now: Instant) -> Pass {
        match self.state {
            BreakerState::Closed { .. } => Pass::All,
            BreakerState::HalfOpen { .. } => Pass::None(None),
            BreakerState::Open { until, .. } if now >= until => Pass::Probe,
            BreakerState::Open { until, .. } => Pass::None(Some(until)),
        }
    }

    /// No message passes until the probe has its outcome.
    pub(crate) fn probing(&mut self) {
        if let BreakerState::Open { rest, braked, .. } = self.state {
            self.state = BreakerState::HalfOpen { rest, braked };
        }
    }

    pub(crate) fn unprobed(&mut self, now: Instant) {
        if let BreakerState::HalfOpen { rest, braked } = self.state {
            self.state = BreakerState::Open { until: now, rest, braked };
        }
    }

    /// Returns whether the state changed.
    pub(crate) fn judge(&mut self, evidence: Evidence, now: Instant) -> bool {
        let before = self.state;
        self.state = match before {
            _ if evidence.took => CLOSED,
            _ if evidence.is_empty() => before,
            // A batch sent before the circuit opened adds no evidence.
            BreakerState::Open { .. } => before,
            _ if !evidence.failed() => self.rejected(evidence, now),
            BreakerState::HalfOpen { rest, .. } => self.opened(self.longer(rest), evidence, now, false),
            BreakerState::Closed { failures, rejected } => {
                let failures = failures.saturating_add(evidence.unclear);
                if evidence.down || failures >= self.settings.failures {
                    self.opened(self.settings.first_rest, evidence, now, false)
                } else {
                    BreakerState::Closed { failures, rejected: rejected.saturating_add(evidence.rejected) }
                }
            }
        };
        std::mem::discriminant(&before) != std::mem::discriminant(&self.state)
    }

    fn rejected(&self, evidence: Evidence, now: Instant) -> BreakerState {
        let (before, rest) = match self.state {
            BreakerState::HalfOpen { rest, braked: true } => (u32::MAX, self.longer(rest)),
            BreakerState::Closed { rejected, .. } => (rejected, self.settings.first_rest),
            _ => (0, self.settings.first_rest),
        };
        let rejected = before.saturating_add(evidence.rejected);
        if self.settings.max_burials > 0 && rejected >= self.settings.max_burials {
            return self.opened(rest, evidence, now, true);
        }
        BreakerState::Closed { failures: 0, rejected }
    }

    #[must_use]
    pub(crate) const fn burials_left(&self) -> u32 {
        match (self.settings.max_burials, self.state) {
            (0, _) => u32::MAX,
            (max, BreakerState::Closed { rejected, .. }) => max.saturating_sub(rejected),
            (_, BreakerState::Open { braked: true, .. } | BreakerState::HalfOpen { braked: true, .. }) => 0,
            (max, _) => max,
        }
    }

    #[must_use]
    pub(crate) const fn is_braked(&self) -> bool {
        matches!(
            self.state,
            BreakerState::Open { braked: true, .. } | BreakerState::HalfOpen { braked: true, .. }
        )
    }

    #[must_use]
    pub(crate) fn rests(&self, now: Instant) -> bool {
        matches!(self.pass(now), Pass::None(_))
    }

    /// 0 closed, 1 half open, 2 open.
    #[must_use]
    pub(crate) const fn number(&self) -> i64 {
        match self.state {
            BreakerState::Closed { .. } => 0,
            BreakerState::HalfOpen { .. } => 1,
            BreakerState::Open { .. } => 2,
        }
    }

    fn longer(&self, rest: Duration) -> Duration {
        (rest * 2).min(self.settings.longest_rest)
    }

    fn opened(&self, rest: Duration, evidence: Evidence, now: Instant, braked: bool) -> BreakerState {
        let asked = evidence.retry_after.unwrap_or_default().min(self.settings.longest_rest);
        BreakerState::Open { until: now + rest.max(asked), rest, braked }
    }
}

// === impl Evidence ===

impl Evidence {
    pub(crate) fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let mut evidence = Self::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Delivered => evidence.took = true,
                Outcome::Rejected { .. } => evidence.rejected += 1,
                Outcome::Unavailable { blame, retry_after, .. } => {
                    evidence.down |= matches!(blame, Blame::Destination | Blame::Silence);
                    evidence.unclear += u32::from(*blame == Blame::Unclear);
                    evidence.retry_after = evidence.retry_after.max(*retry_after);
                }
            }
        }
        evidence
    }

    /// Merges the evidence of several destinations into evidence about their server. Each destination that failed
    /// without confirming anything counts as a single failure.
    pub(crate) fn of_server(each: impl IntoIterator<Item = Self>) -> Self {
        each.into_iter().fold(Self::default(), |all, one| Self {
            took: all.took || one.took,
            down: false,
            unclear: all.unclear + u32::from(one.failed() && !one.took),
            rejected: all.rejected + one.rejected,
            retry_after: all.retry_after.max(one.retry_after),
        })
    }

    const fn failed(&self) -> bool {
        self.down || self.unclear > 0
    }

    pub(crate) const fn is_empty(&self) -> bool {
        !self.took && !self.failed() && self.rejected == 0
    }

    /// Whether a failed message pays with an attempt; `again`: an earlier failure was free.
    ///
    /// A failure of the destination never costs an attempt. An unclear failure does if other messages of the batch were
    /// confirmed, and a probe always pays. A missing answer follows the same rule, except that the first is free: when
    /// a destination goes down, everything in flight has no answer. So a message that breaks its destination ends as a
    /// dead letter, even if no other message is waiting.
    #[must_use]
    pub(crate) const fn burns(&self, blame: Blame, probe: bool, open: bool, again: bool) -> bool {
        match blame {
            Blame::Nobody | Blame::Destination => false,
            Blame::Message => true,
            Blame::Silence => again && (self.took || probe),
            Blame::Unclear => self.took || probe || !open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: CircuitSettings = CircuitSettings {
        failures: 3,
        first_rest: Duration::from_secs(1),
        longest_rest: Duration::from_secs(4),
        max_burials: 10,
    };
    const NONE: Evidence = Evidence { took: false, down: false, unclear: 0, rejected: 0, retry_after: None };
    const DOWN: Evidence = Evidence { down: true, ..NONE };
    const UNCLEAR: Evidence = Evidence { unclear: 1, ..NONE };
    const TOOK: Evidence = Evidence { took: true, ..NONE };

    fn rejected(count: u32) -> Evidence {
        Evidence { rejected: count, ..NONE }
    }

    fn after(start: Instant, secs: u64) -> Instant {
        start + Duration::from_secs(secs)
    }

    #[test]
    fn a_destination_that_is_down_is_asked_by_one_probe_after_each_rest_which_doubles() {
        let start = Instant::now();
        let mut circuit = Circuit::new(SETTINGS);
        assert!(circuit.judge(DOWN, start));
        let mut now = start;
        for rest in [1, 2, 4, 4] {
            assert_eq!(circuit.pass(now), Pass::None(Some(after(now, rest))));
            now = after(now, rest);
            assert_eq!(circuit.pass(now), Pass::Probe);
            circuit.probing();
            assert_eq!(circuit.pass(now), Pass::None(None));
            assert!(circuit.judge(DOWN, now));
        }
        now = after(now, 4);
        circuit.probing();
        assert!(circuit.judge(TOOK, now));
        assert_eq!(circuit.pass(now), Pass::All);
    }

    #[test]
    fn unclear_failures_open_it_only_in_a_row() {
        let now = Instant::now();
        let mut circuit = Circuit::new(SETTINGS);
        for evidence in [UNCLEAR, UNCLEAR, TOOK, UNCLEAR, UNCLEAR] {
            assert!(!circuit.judge(evidence, now));
        }
        assert!(circuit.judge(UNCLEAR, now));
        assert_ne!(circuit.number(), 0);
    }

    #[test]
    fn a_late_batch_neither_prolongs_a_rest_nor_fails_to_end_it() {
        let now = Instant::now();
        let mut circuit = Circuit::new(SETTINGS);
        circuit.judge(DOWN, now);
        assert!(!circuit.judge(DOWN, after(now, 1)));
        assert_eq!(circuit.pass(after(now, 1)), Pass::Probe);
        assert!(circuit.judge(TOOK, now));
        assert_eq!(circuit.number(), 0);
    }

    #[test]
    fn a_rejected_probe_closes_it_because_somebody_answered() {
        let now = Instant::now();
        let mut circuit = Circuit::open(SETTINGS, now);
        circuit.probing();
        assert!(circuit.judge(Evidence::of(&[Outcome::rejected("too large")]), now));
        assert_eq!(circuit.number(), 0);
    }

    #[test]
    fn the_destination_says_when_it_wants_to_be_asked_again() {
        let now = Instant::now();
        let mut circuit = Circuit::new(SETTINGS);
        circuit.judge(Evidence { retry_after: Some(Duration::from_secs(3)), ..DOWN }, now);
        assert_eq!(circuit.pass(now), Pass::None(Some(after(now, 3))));
        let mut circuit = Circuit::new(SETTINGS);
        circuit.judge(Evidence { retry_after: Some(Duration::from_secs(3600)), ..DOWN }, now);
        assert_eq!(circuit.pass(now), Pass::None(Some(after(now, 4))));
    }

    #[test]
    fn rejections_in_a_row_open_it_and_a_rejected_probe_does_not_close_it() {
        let now = Instant::now();
        let mut circuit = Circuit::new(SETTINGS);
        for (evidence, left) in [(rejected(9), 1), (TOOK, 10), (rejected(6), 4), (NONE, 4), (UNCLEAR, 4)] {
            assert!(!circuit.judge(evidence, now));
            assert_eq!(circuit.burials_left(), left, "{evidence:?}");
        }
        assert!(circuit.judge(rejected(4), now));
        for rest in [1, 2, 4, 4] {
            assert_eq!((circuit.pass(now), circuit.burials_left()), (Pass::None(Some(after(now, rest))), 0));
            circuit.probing();
            circuit.judge(rejected(1), now);
        }
        circuit.probing();
        assert!(circuit.judge(TOOK, now));
        assert_eq!((circuit.is_braked(), circuit.burials_left()), (false, 10));
        let mut unbraked = Circuit::new(CircuitSettings { max_burials: 0, ..SETTINGS });
        assert!(!unbraked.judge(rejected(1_000_000), now));
        assert_eq!(unbraked.burials_left(), u32::MAX);
    }

    #[test]
    fn a_server_is_down_when_several_of_its_destinations_are() {
        let now = Instant::now();
        for (each, open) in [
            (vec![DOWN], false),
            (vec![DOWN; 3], true),
            (vec![DOWN, UNCLEAR, DOWN], true),
            (vec![DOWN, DOWN, DOWN, TOOK], false),
            (vec![Evidence { took: true, ..DOWN }; 3], false),
            (vec![rejected(1); 10], true),
        ] {
            let mut circuit = Circuit::new(SETTINGS);
            circuit.judge(Evidence::of_server(each.clone()), now);
            assert_eq!(circuit.number() != 0, open, "{each:?}");
        }
    }

    #[test]
    fn the_message_pays_only_for_its_own_fault() {
        for (evidence, blame, probe, open, again, burns) in [
            (TOOK, Blame::Nobody, true, true, true, false),
            (DOWN, Blame::Destination, true, true, true, false),
            (TOOK, Blame::Unclear, false, false, false, true),
            (UNCLEAR, Blame::Unclear, false, true, true, false),
            (UNCLEAR, Blame::Unclear, true, true, false, true),
            (UNCLEAR, Blame::Unclear, false, false, false, true),
            (DOWN, Blame::Message, false, true, false, true),
            (TOOK, Blame::Silence, false, false, false, false),
            (TOOK, Blame::Silence, false, false, true, true),
            (DOWN, Blame::Silence, true, true, false, false),
            (DOWN, Blame::Silence, true, true, true, true),
            (DOWN, Blame::Silence, false, true, true, false),
        ] {
            let found = evidence.burns(blame, probe, open, again);
            assert_eq!(found, burns, "{evidence:?} {blame:?} {probe} {open} {again}");
        }
    }
}
