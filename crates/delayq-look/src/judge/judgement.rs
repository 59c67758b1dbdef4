//! A verdict.

use serde::Serialize;

/// A verdict; a better one is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// The part works.
    Good,
    /// The part works, and a person should know.
    Warning,
    /// The part does not work.
    Bad,
}

// === impl Judgement ===

impl From<bool> for Judgement {
    fn from(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}
