//! One thing that was checked: what was found, and what to do about it.

use crate::output::Judgement;
use serde::Serialize;

/// What was checked, and what was found.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What was looked at, in a word.
    pub what: &'static str,
    /// Whether it is as it must be.
    pub verdict: Judgement,
    /// In one line.
    pub found: String,
    /// What to do; empty where nothing has to be done.
    pub advice: String,
}

// === impl Check ===

impl Check {
    /// It is as it must be.
    pub fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self::new(what, Judgement::Good, found, "")
    }

    /// It works, and somebody should know.
    pub fn warning(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(what, Judgement::Warning, found, advice)
    }

    /// It does not work.
    pub fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(what, Judgement::Bad, found, advice)
    }

    /// A finding of several lines becomes one: a cell of a table has no room for more.
    pub fn new(
        what: &'static str,
        verdict: Judgement,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let found = found.into().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        Self { what, verdict, found, advice: advice.into() }
    }

    /// The same, and it says of whom.
    #[must_use]
    pub fn about(self, whom: &str) -> Self {
        Self { found: format!("{whom}: {}", self.found), ..self }
    }
}
