//! Back-off: the delay before a message is tried again.

use std::time::Duration;

/// The delay before a message is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// A constant delay.
    Fixed(Duration),
    /// Doubles from `first` to `longest`; each delay is random, between half and all of that.
    Exponential {
        /// The delay after the first attempt.
        first: Duration,
        /// Maximum delay.
        longest: Duration,
    },
    /// One delay per attempt, 1 to 32 of them; the last repeats.
    List(Vec<Duration>),
}

/// Maximum delay, in ms: 49 days.
pub const MAX_DELAY_MS: u32 = u32::MAX;

/// Maximum number of delays in a list.
pub const MAX_DELAYS: usize = 32;

// === impl Backoff ===

impl Backoff {
    const LONGEST_MS: u128 = MAX_DELAY_MS as u128;

    /// True if every delay is 1 ms to 49 days, and a list has 1 to 32 delays.
    pub fn is_valid(&self) -> bool {
        let fits = |delay: &Duration| (1..=Self::LONGEST_MS).contains(&delay.as_millis());
        match self {
            Self::Fixed(delay) => fits(delay),
            Self::Exponential { first, longest } => fits(first) && fits(longest) && first <= longest,
            Self::List(delays) => (1..=MAX_DELAYS).contains(&delays.len()) && delays.iter().all(fits),
        }
    }

    /// Kind (1 fixed, 2 exponential, 3 list), then the delays, 4 bytes of ms each.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, delays) = match self {
            Self::Fixed(delay) => (1, vec![*delay]),
            Self::Exponential { first, longest } => (2, vec![*first, *longest]),
            Self::List(delays) => (3, delays.clone()),
        };
        let ms = |delay: Duration| u32::try_from(delay.as_millis()).unwrap_or(u32::MAX).to_be_bytes();
        std::iter::once(kind).chain(delays.into_iter().flat_map(ms)).collect()
    }

    /// Reads the stored form; `None` if invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let (chunks, []) = rest.as_chunks::<4>() else { return None };
        let delays: Vec<_> =
            chunks.iter().map(|ms| Duration::from_millis(u32::from_be_bytes(*ms).into())).collect();
        match (kind, delays.as_slice()) {
            (1, &[delay]) => Some(Self::Fixed(delay)),
            (2, &[first, longest]) => Some(Self::Exponential { first, longest }),
            (3, [_, ..]) => Some(Self::List(delays)),
            _ => None,
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential { first: Duration::from_secs(1), longest: Duration::from_secs(600) }
    }
}
