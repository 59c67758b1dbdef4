//! Judges whether this timer reaches one Redis, or one shard, well enough to own shards. Pure.
//!
//! ```text
//!          silent for PATIENCE                       answers, and still has shards: nobody else could take them
//! Able ───────────────────────► Hindered ───────────────────────────────────────────────────────────────────► Able
//!   ▲ any answer: patience again   │  answers for `steady` without a failure between
//!   └──────────────────────────────┘
//! ```
//!
//! A flapping connection to Redis thus moves the shards at most once in patience and steadiness together. A hindrance
//! soon after another doubles the required steadiness: a connection that keeps flapping loses its shards for longer and
//! longer. Only an answer to a script that may write counts: a Redis that refuses writes still answers read-only
//! scripts.

use std::time::{Duration, Instant};

/// How long calls may stay unanswered, from the first failure on, before the shards are offered to other timers.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long every call has to be answered before shards are taken again, at first.
const STEADY: Duration = Duration::from_secs(5);
/// Maximum time that every call has to be answered before shards are taken again.
const LONGEST_STEADY: Duration = Duration::from_secs(80);
/// A hindrance within this time after the previous hindrance requires twice the steadiness.
const SOON: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hindrance {
    state: Ability,
    steady: Duration,
    ended: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ability {
    /// The timer takes the shards given to it.
    Able {
        /// Time of the first failure since the last answer.
        silent: Option<Instant>,
    },
    /// Other timers should own the shards.
    Hindered {
        /// Time of the first answer since the last failure.
        well: Option<Instant>,
    },
}

// === impl Hindrance ===

impl Hindrance {
    pub(crate) const fn none() -> Self {
        Self { state: Ability::Able { silent: None }, steady: STEADY, ended: None }
    }

    pub(crate) const fn is_hindered(&self) -> bool {
        matches!(self.state, Ability::Hindered { .. })
    }

    /// Returns true if the past no longer matters.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.state == Ability::Able { silent: None } && self.ended.is_none_or(|ended| now >= ended + SOON)
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        match &mut self.state {
            Ability::Able { silent } => *silent = silent.or(Some(now)),
            Ability::Hindered { well } => *well = None,
        }
    }

    pub(crate) fn answered(&mut self, now: Instant) {
        match &mut self.state {
            Ability::Able { silent } => *silent = None,
            Ability::Hindered { well } => *well = well.or(Some(now)),
        }
    }

    /// The time at which `turn` may change the state, if no call ends before.
    pub(crate) fn next(&self) -> Option<Instant> {
        match self.state {
            Ability::Able { silent } => silent.map(|since| since + PATIENCE),
            Ability::Hindered { .. } => None,
        }
    }

    /// `has_shards` tells whether any shard on this connection is planned for this timer.
    pub(crate) fn turn(&mut self, now: Instant, has_shards: impl FnOnce() -> bool) {
        match self.state {
            Ability::Able { silent: Some(since) } if now >= since + PATIENCE => {
                let again = self.ended.is_some_and(|ended| now < ended + SOON);
                self.steady = if again { (self.steady * 2).min(LONGEST_STEADY) } else { STEADY };
                self.state = Ability::Hindered { well: None };
            }
            Ability::Hindered { well: Some(since) } if now >= since + self.steady || has_shards() => {
                (self.state, self.ended) = (Ability::Able { silent: None }, Some(now));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_hindered(way: &mut Hindrance, now: Instant, has_shards: bool) -> bool {
        way.turn(now, || has_shards);
        way.is_hindered()
    }

    fn hindered(now: Instant) -> Hindrance {
        let mut way = Hindrance::none();
        way.failed(now - PATIENCE);
        assert!(is_hindered(&mut way, now, true));
        way
    }

    #[test]
    fn patience_ends_when_nothing_was_answered_for_all_of_it() {
        let start = Instant::now();
        let mut way = Hindrance::none();
        assert_eq!(way.next(), None);
        way.failed(start);
        way.answered(start + PATIENCE / 2);
        way.failed(start + PATIENCE);
        way.failed(start + PATIENCE + PATIENCE / 2);
        assert_eq!(way.next(), Some(start + 2 * PATIENCE));
        assert!(!is_hindered(&mut way, start + 2 * PATIENCE - Duration::from_millis(1), true));
        assert!(is_hindered(&mut way, start + 2 * PATIENCE, true));
        assert_eq!(way.next(), None, "it changes by answers");
    }

    #[test]
    fn who_gave_its_shards_away_takes_others_only_when_all_was_answered_for_long() {
        let start = Instant::now();
        let mut way = hindered(start);
        way.answered(start);
        way.failed(start + STEADY / 2);
        way.answered(start + STEADY);
        assert!(is_hindered(&mut way, start + STEADY + STEADY / 2, false));
        way.answered(start + STEADY + STEADY / 2);
        assert!(!is_hindered(&mut way, start + 2 * STEADY, false));
    }

    #[test]
    fn who_still_has_its_shards_goes_on_with_the_first_answer() {
        let start = Instant::now();
        let mut way = hindered(start);
        assert!(is_hindered(&mut way, start, true));
        way.answered(start);
        assert!(!is_hindered(&mut way, start, true));
    }

    #[test]
    fn a_way_that_keeps_coming_and_going_has_to_be_steady_for_longer_each_time() {
        let mut now = Instant::now();
        let mut way = hindered(now);
        for steady in [5, 10, 20, 40, 80, 80] {
            way.answered(now);
            let steady = Duration::from_secs(steady);
            assert!(is_hindered(&mut way, now + steady - Duration::from_secs(1), false), "{steady:?}");
            now += steady;
            assert!(!is_hindered(&mut way, now, false), "{steady:?}");
            way.failed(now);
            now += PATIENCE;
            assert!(is_hindered(&mut way, now, false));
        }
    }

    #[test]
    fn a_way_that_was_well_for_long_is_trusted_after_the_shortest_steadiness_again() {
        let mut now = Instant::now();
        let mut way = hindered(now);
        for calm in [Duration::ZERO, SOON] {
            way.answered(now);
            now += 2 * STEADY;
            assert!(!is_hindered(&mut way, now, false));
            assert_eq!(way.is_over(now + calm), calm == SOON);
            now += calm;
            way.failed(now);
            now += PATIENCE;
            assert!(is_hindered(&mut way, now, false));
        }
        way.answered(now);
        assert!(!is_hindered(&mut way, now + STEADY, false));
    }
}
