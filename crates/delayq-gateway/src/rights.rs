//! Rights: what the holder of a token may do.

use std::fmt;
use std::str::FromStr;

/// A right, by the word in the file of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Sees messages without payloads, topics, and the state of the deployment.
    Read,
    /// Sees payloads.
    Payload,
    Put,
    /// Reserves and settles messages, and sees their payloads.
    Consume,
    /// Cancels, reschedules, promotes and replays messages.
    Act,
    /// Changes topics: policy, rate, pause, deletion.
    Manage,
    /// Sees who did what.
    Audit,
}

/// Some rights.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights(u8);

// === impl Right ===

impl Right {
    pub(crate) const ALL: [Self; 7] =
        [Self::Read, Self::Payload, Self::Put, Self::Consume, Self::Act, Self::Manage, Self::Audit];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Payload => "payload",
            Self::Put => "put",
            Self::Consume => "consume",
            Self::Act => "act",
            Self::Manage => "manage",
            Self::Audit => "audit",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl FromStr for Right {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|right| right.word() == word).ok_or(())
    }
}

// === impl Rights ===

impl Rights {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const EVERY: Self = Self(u8::MAX);

    pub(crate) const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    pub(crate) const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn words(self) -> Vec<&'static str> {
        Right::ALL.into_iter().filter(|right| self.has(*right)).map(Right::word).collect()
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | right.bit()))
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.words()).finish()
    }
}
