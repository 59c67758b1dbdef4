//! A check and its result.

use super::judgement::Judgement;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The part that was checked, in a word.
    pub what: &'static str,
    /// The verdict.
    pub verdict: Judgement,
    /// True if `delayq check` reports the check. False for advice on settings, and for a short observation.
    pub alarms: bool,
    /// The finding, in one line.
    pub found: String,
    /// The remedy; empty if nothing has to be done.
    pub advice: String,
    /// The address of the page that explains cause and remedy; empty for a check without a cause.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runbook: String,
    /// The name of the cause, such as `redis_away`; empty for a check without a cause.
    #[serde(skip)]
    pub cause: String,
    /// The values in the finding, for a text in another language. `_ms` and `_at` end the names of durations and of times.
    #[serde(skip)]
    pub values: BTreeMap<&'static str, Value>,
}

// === impl Check ===

impl Check {
    /// The part works.
    pub fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self::new(what, Judgement::Good, found, "")
    }

    /// The part works, and a person should know.
    pub fn warning(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(what, Judgement::Warning, found, advice)
    }

    /// The part does not work.
    pub fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(what, Judgement::Bad, found, advice)
    }

    /// Joins the lines of a finding: a cell of a table has room for one.
    pub fn new(
        what: &'static str,
        verdict: Judgement,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let found = found.into().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        let (runbook, cause, values) = (String::new(), String::new(), BTreeMap::new());
        Self { what, verdict, alarms: true, found, advice: advice.into(), runbook, cause, values }
    }

    /// Adds the name of a node to the finding.
    #[must_use]
    pub fn about(self, node: &str) -> Self {
        Self { found: format!("node {node}: {}", self.found), ..self.with("node", node) }
    }

    /// Adds a value that not every finding of the cause has: see [`super::causes::EXTRAS`].
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.values.insert(name, value.into());
        self
    }

    /// Replaces the advice.
    #[must_use]
    pub fn advising(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// Leaves the check to `delayq doctor` alone.
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { alarms: false, ..self }
    }
}

/// The worst verdict of the checks; good without any.
pub fn worst(checks: &[Check]) -> Judgement {
    checks.iter().map(|check| check.verdict).max().unwrap_or(Judgement::Good)
}
