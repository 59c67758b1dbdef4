//! Whether this timer can reach one Redis well enough to own its shards. Pure.
//!
//! ```text
//!          silent for PATIENCE                       answers, and still has shards: nobody else could take them
//! Able ───────────────────────► Hindered ───────────────────────────────────────────────────────────────────► Able
//!   ▲ any answer: patience again   │  answers for STEADY without a failure between
//!   └──────────────────────────────┘
//! ```
//!
//! So a way to Redis that comes and goes moves the shards once at most in patience and steadiness together. An answer is
//! that of a script that may write: a Redis that refuses writes still answers those that only read.

use std::time::{Duration, Instant};

/// How long no call may have been answered before others should have the shards, from the first failure on.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long every call has to be answered before shards are taken again.
const STEADY: Duration = Duration::from_secs(5);

/// How far the way to one Redis is to be trusted with shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// It takes what it is given.
    Able {
        /// Since when no call was answered.
        silent: Option<Instant>,
    },
    /// Others should have the shards.
    Hindered {
        /// Since when every call was answered.
        well: Option<Instant>,
    },
}

// === impl Hindrance ===

impl Hindrance {
    /// Nothing has failed yet.
    pub(crate) const fn none() -> Self {
        Self::Able { silent: None }
    }

    pub(crate) const fn is_hindered(&self) -> bool {
        matches!(self, Self::Hindered { .. })
    }

    /// A call failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        match self {
            Self::Able { silent } => *silent = silent.or(Some(now)),
            Self::Hindered { well } => *well = None,
        }
    }

    /// A call was answered.
    pub(crate) fn answered(&mut self, now: Instant) {
        match self {
            Self::Able { silent } => *silent = None,
            Self::Hindered { well } => *well = well.or(Some(now)),
        }
    }

    /// When `turn` has something to say, if no call ends before.
    pub(crate) fn next(&self) -> Option<Instant> {
        match self {
            Self::Able { silent } => silent.map(|since| since + PATIENCE),
            Self::Hindered { .. } => None,
        }
    }

    /// Moves on, if it is time to. `has_shards`: whether any is given to this timer.
    pub(crate) fn turn(&mut self, now: Instant, has_shards: bool) {
        *self = match *self {
            Self::Able { silent: Some(since) } if now >= since + PATIENCE => Self::Hindered { well: None },
            Self::Hindered { well: Some(since) } if has_shards || now >= since + STEADY => Self::none(),
            same => same,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is hindered after a turn.
    fn is_hindered(way: &mut Hindrance, now: Instant, has_shards: bool) -> bool {
        way.turn(now, has_shards);
        way.is_hindered()
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
        let mut way = Hindrance::Hindered { well: None };
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
        let mut way = Hindrance::Hindered { well: None };
        assert!(is_hindered(&mut way, start, true));
        way.answered(start);
        assert!(!is_hindered(&mut way, start, true));
    }
}
