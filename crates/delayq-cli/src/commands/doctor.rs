//! `delayq doctor`: can everything be reached, does everything run, and is it set as it must be?

use crate::deployment::{Context, Global};
use crate::failure::UNFIT;
use crate::output::Judgement;
use clap::Args;
use delayq_service::Fault;
use serde::Serialize;

mod etcd;
mod outbox;
mod process;
mod readers;
mod redis;
mod shards;
mod spool;

/// Check that everything can be reached, runs, and is set as it must be
///
/// Looks at Redis, etcd, timers, forwarders, workers, compensators, and at the process whose `[admin] listen` the
/// configuration has. Names each failed check and how to fix it.
#[derive(Debug, Args)]
pub struct Doctor {}

/// What was checked, and what was found.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    what: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do; empty where nothing has to be done.
    advice: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Good,
    Warning,
    Bad,
}

// === impl Doctor ===

impl Doctor {
    /// Prints what it finds.
    ///
    /// # Errors
    /// Something is not as it must be.
    pub async fn run(self, global: &Global) -> Result<(), Fault> {
        let context = &global.context()?;
        let checks = examine(global, context).await;
        context.output.print(&checks, || {
            let mut rows = context.output.rows(&["check", "verdict", "found", "what to do"]);
            for check in &checks {
                let verdict = format!("{:?}", check.verdict).to_lowercase();
                let cells = [check.what.to_owned(), verdict, check.found.clone(), check.advice.clone()];
                rows.judged(check.verdict, cells);
            }
            rows.text()
        })?;
        match checks.iter().filter(|check| check.verdict == Verdict::Bad).count() {
            0 => Ok(()),
            bad => Err(Fault::new(&UNFIT, format!("{bad} of {} checks are bad", checks.len()))),
        }
    }
}

/// Looks at everything.
pub(super) async fn examine(global: &Global, context: &Context) -> Vec<Check> {
    let mut checks = redis::checks(context).await;
    if checks.iter().all(|check| check.verdict != Verdict::Bad) {
        checks.extend(shards::checks(context).await);
        checks.extend(readers::checks(global, context).await);
    }
    checks.extend(etcd::checks(context).await);
    checks.extend(spool::check(context));
    checks.extend(outbox::check(context).await);
    checks.extend(process::check(context).await);
    checks
}

// === impl Verdict ===

impl From<Verdict> for Judgement {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::Good,
            Verdict::Warning => Self::Warning,
            Verdict::Bad => Self::Bad,
        }
    }
}

// === impl Check ===

impl Check {
    fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Good, found: found.into(), advice: String::new() }
    }

    /// A finding of several lines becomes one: a cell of the table has no room for more.
    fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        let found = found.into().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        Self { what, verdict: Verdict::Bad, found, advice: advice.into() }
    }

    fn warning(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Warning, found: found.into(), advice: advice.into() }
    }

    /// The same, and it says of whom.
    fn about(self, whom: &str) -> Self {
        Self { found: format!("{whom}: {}", self.found), ..self }
    }
}
