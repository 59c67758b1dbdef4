//! `delayq doctor`: checks reachability, running processes and settings.

use crate::deployment::{Context, Global};
use crate::failure::UNFIT;
use crate::look::finish;
use crate::output::Judgement;
use crate::sources;
use clap::Args;
use delayq_look::{Check, Limits, Look, Want, judge};
use delayq_service::Fault;

mod process;
mod readers;
mod spool;

/// Check that everything is reachable, running and configured correctly
///
/// Checks Redis, etcd, timers, forwarders, workers, compensators, the spool, the outbox and the intakes, and the process at
/// the configured `[admin] listen`. Names each failed check and how to fix it. `delayq check` gives the same verdicts.
#[derive(Debug, Args)]
pub struct Doctor {}

// === impl Doctor ===

impl Doctor {
    /// Prints the checks.
    ///
    /// # Errors
    /// A check is bad, or some shards could not be asked.
    pub async fn run(self, global: &Global) -> Result<(), Fault> {
        let context = &global.context()?;
        let look = Look::take(&context.deployment, Want::JUDGED).await;
        let checks = examine(global, context, &look).await;
        context.output.print(&checks, || {
            let mut rows = context.output.rows(&["check", "verdict", "found", "what to do"]);
            for check in &checks {
                let verdict = format!("{:?}", check.verdict).to_lowercase();
                let cells = [check.what.to_owned(), verdict, check.found.clone(), check.advice.clone()];
                rows.judged(check.verdict, cells);
            }
            rows.text()
        })?;
        match checks.iter().filter(|check| check.verdict == Judgement::Bad).count() {
            0 => Ok(()),
            // The missing shards may be well or not.
            _ if look.is_partial() => finish(&look, Ok(())),
            bad => Err(Fault::new(&UNFIT, format!("{bad} of {} checks are bad", checks.len()))),
        }
    }
}

/// Adds the checks that only this host can make.
pub(super) async fn examine(global: &Global, context: &Context, look: &Look) -> Vec<Check> {
    let (readers, here) = tokio::join!(readers::checks(global, look), here(global, context));
    let mut checks = judge(look, &Limits::default());
    checks.extend(readers);
    checks.extend(here);
    checks
}

pub(super) async fn here(global: &Global, context: &Context) -> Vec<Check> {
    let (sources, process) = tokio::join!(sources::look(global, context), process::check(context));
    spool::check(context).into_iter().chain(sources).chain(process).collect()
}
