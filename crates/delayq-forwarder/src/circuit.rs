//! The circuit of one destination: whether it is worth asking, and who pays for the answer.
//!
//! ```text
//!            enough failures in a row            the rest is over
//!   Closed ─────────────────────────► Open ─────────────────────────► HalfOpen
//!     ▲                                ▲  rest doubles, up to the longest  │ one probe
//!     └────────────────────────────────┼─────── it was delivered ─────────┤
//!                                      └─────── it was not ───────────────┘
//! ```
//! No clock and no I/O: the time is passed in.

use crate::sink::{Blame, Outcome};
use std::time::{Duration, Instant};

/// The settings of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CircuitSettings {
    /// Failures in a row that open it, where the blame is unclear. One that is the destination's opens it at once.
    pub(crate) failures: u32,
    /// The first rest.
    pub(crate) first_rest: Duration,
    /// The longest rest.
    pub(crate) longest_rest: Duration,
}

/// Whether a destination is worth asking.
#[derive(Clone, Debug)]
pub(crate) struct Circuit {
    settings: CircuitSettings,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, rest: Duration },
    HalfOpen { rest: Duration },
}

/// How much may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// As much as there is room for.
    All,
    /// One message, to see.
    Probe,
    /// Nothing: a probe is out, or the rest lasts until then.
    None(Option<Instant>),
}

/// What a batch showed of its destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// It took some.
    pub(crate) took: bool,
    /// It failed as a whole.
    pub(crate) down: bool,
    /// So many failed and the answer does not tell why.
    pub(crate) unclear: u32,
    /// When it wants to be asked again.
    pub(crate) retry_after: Option<Duration>,
}

// === impl Circuit ===

impl Circuit {
    /// Closed.
    #[must_use]
    pub(crate) const fn new(settings: CircuitSettings) -> Self {
        Self { settings, state: State::Closed { failures: 0 } }
    }

    /// Open from the start, for a destination that could not be looked at; the first probe is due now.
    #[must_use]
    pub(crate) const fn open(settings: CircuitSettings, now: Instant) -> Self {
        Self { settings, state: State::Open { until: now, rest: settings.first_rest } }
    }

    /// How much may be sent now.
    #[must_use]
    pub(crate) fn pass(&self, now: Instant) -> Pass {
        match self.state {
            State::Closed { .. } => Pass::All,
            State::HalfOpen { .. } => Pass::None(None),
            State::Open { until, .. } if now >= until => Pass::Probe,
            State::Open { until, .. } => Pass::None(Some(until)),
        }
    }

    /// A probe is on its way: nothing else until its answer.
    pub(crate) fn probing(&mut self) {
        if let State::Open { rest, .. } = self.state {
            self.state = State::HalfOpen { rest };
        }
    }

    /// A probe came to nothing: no message was there to be sent.
    pub(crate) fn unprobed(&mut self, now: Instant) {
        if let State::HalfOpen { rest } = self.state {
            self.state = State::Open { until: now, rest };
        }
    }

    /// Judges a batch. Returns whether the state changed.
    pub(crate) fn judge(&mut self, evidence: Evidence, now: Instant) -> bool {
        let before = self.state;
        self.state = match before {
            _ if evidence.took => State::Closed { failures: 0 },
            _ if !evidence.down && evidence.unclear == 0 => match before {
                // Rejected by the destination itself: it answers, so it is there.
                State::HalfOpen { .. } => State::Closed { failures: 0 },
                other => other,
            },
            State::HalfOpen { rest } => {
                self.opened((rest * 2).min(self.settings.longest_rest), evidence, now)
            }
            State::Closed { failures } => {
                let failures = failures.saturating_add(evidence.unclear);
                if evidence.down || failures >= self.settings.failures {
                    self.opened(self.settings.first_rest, evidence, now)
                } else {
                    State::Closed { failures }
                }
            }
            // A batch that was on its way when the circuit opened says nothing new.
            open @ State::Open { .. } => open,
        };
        std::mem::discriminant(&before) != std::mem::discriminant(&self.state)
    }

    /// Whether nothing but a probe passes.
    #[cfg(test)]
    pub(crate) const fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }

    /// 0 closed, 1 half open, 2 open, as the metric says it.
    #[must_use]
    pub(crate) const fn number(&self) -> i64 {
        match self.state {
            State::Closed { .. } => 0,
            State::HalfOpen { .. } => 1,
            State::Open { .. } => 2,
        }
    }

    fn opened(&self, rest: Duration, evidence: Evidence, now: Instant) -> State {
        let asked = evidence.retry_after.unwrap_or_default().min(self.settings.longest_rest);
        State::Open { until: now + rest.max(asked), rest }
    }
}

// === impl Evidence ===

impl Evidence {
    /// What these outcomes show.
    pub(crate) fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let mut evidence = Self::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Delivered => evidence.took = true,
                Outcome::Rejected { .. } => {}
                Outcome::Unavailable { blame, retry_after, .. } => {
                    evidence.down |= *blame == Blame::Destination;
                    evidence.unclear += u32::from(*blame == Blame::Unclear);
                    evidence.retry_after = evidence.retry_after.max(*retry_after);
                }
            }
        }
        evidence
    }

    /// Whether a message that failed pays with an attempt.
    ///
    /// The destination's fault never costs one. Where the answer does not tell, it costs one if others of the same
    /// batch were taken, and a probe always pays: so a message that breaks its destination is dead one day, even if
    /// it is the only one.
    #[must_use]
    pub(crate) const fn burns(&self, blame: Blame, probe: bool, open: bool) -> bool {
        match blame {
            Blame::Destination => false,
            Blame::Message => true,
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
    };
    const DOWN: Evidence = Evidence { took: false, down: true, unclear: 0, retry_after: None };
    const UNCLEAR: Evidence = Evidence { took: false, down: false, unclear: 1, retry_after: None };
    const TOOK: Evidence = Evidence { took: true, down: false, unclear: 0, retry_after: None };

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
        assert!(circuit.is_open());
    }

    #[test]
    fn a_late_batch_neither_prolongs_a_rest_nor_fails_to_end_it() {
        let now = Instant::now();
        let mut circuit = Circuit::new(SETTINGS);
        circuit.judge(DOWN, now);
        assert!(!circuit.judge(DOWN, after(now, 1)));
        assert_eq!(circuit.pass(after(now, 1)), Pass::Probe);
        assert!(circuit.judge(TOOK, now));
        assert!(!circuit.is_open());
    }

    #[test]
    fn a_rejected_probe_closes_it_because_somebody_answered() {
        let now = Instant::now();
        let mut circuit = Circuit::open(SETTINGS, now);
        circuit.probing();
        assert!(circuit.judge(Evidence::of(&[Outcome::rejected("too large")]), now));
        assert!(!circuit.is_open());
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
    fn the_message_pays_only_for_its_own_fault() {
        for (evidence, blame, probe, open, burns) in [
            (DOWN, Blame::Destination, true, true, false),
            (TOOK, Blame::Unclear, false, false, true),
            (UNCLEAR, Blame::Unclear, false, true, false),
            (UNCLEAR, Blame::Unclear, true, true, true),
            (UNCLEAR, Blame::Unclear, false, false, true),
            (DOWN, Blame::Message, false, true, true),
        ] {
            assert_eq!(evidence.burns(blame, probe, open), burns, "{evidence:?} {blame:?} {probe} {open}");
        }
    }
}
