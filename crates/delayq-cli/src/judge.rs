//! The one judge: what a look at a deployment means, in every command.

mod causes;
mod etcd;
mod limits;
mod redis;
mod shards;
mod timers;
mod topics;

pub use causes::{Cause, causes};
pub use limits::{Limits, Pair, pair};
pub use timers::without_timer;

use crate::look::Look;
use crate::output::Judgement;
use causes::DEPLOYMENT_MISSING;
use delayq::Error;
use serde::Serialize;

/// What was checked, and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at, in a word.
    pub what: &'static str,
    /// Whether it is as it must be.
    pub verdict: Judgement,
    /// Whether `delayq check` says it too: no mere advice on settings, and not seen for a moment only.
    pub alarms: bool,
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
        Self { what, verdict, alarms: true, found, advice: advice.into() }
    }

    /// The same, and it says of whom.
    #[must_use]
    pub fn about(self, whom: &str) -> Self {
        Self { found: format!("{whom}: {}", self.found), ..self }
    }

    /// The same with other advice.
    #[must_use]
    pub fn advising(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// The same, but for `delayq doctor` alone.
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { alarms: false, ..self }
    }
}

/// Judges everything that was looked at.
pub fn judge(look: &Look, limits: &Limits) -> Vec<Check> {
    let servers = look.servers.iter();
    let mut checks: Vec<Check> = servers.flat_map(|servers| redis::judge(look, servers)).collect();
    match &look.shards {
        Ok(shards) => {
            checks.extend(shards::judge(look, shards));
            checks.extend(timers::judge(look, shards, limits));
            checks.extend(look.topics.iter().flat_map(|topics| topics::judge(look, topics, limits)));
        }
        // The servers say why.
        Err(_) if checks.iter().any(|check| check.verdict == Judgement::Bad) => {}
        Err(error) => checks.push(nowhere(look, error)),
    }
    if !look.part.config.etcd.enabled {
        checks.push(Check::good("etcd", "not used: a single timer owns every shard"));
    }
    checks.extend(look.etcd.iter().flat_map(etcd::judge));
    checks
}

/// No shard answers, though the servers do.
fn nowhere(look: &Look, error: &Error) -> Check {
    let missing = DEPLOYMENT_MISSING.found(error.to_string());
    match &look.others {
        Some(others) => missing.advising(others),
        None => missing,
    }
}
