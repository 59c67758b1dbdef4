//! `delayq doctor`: can everything be reached, does everything run, and is it set as it must be?

use crate::checked::Check;
use crate::deployment::{Context, Global};
use crate::failure::UNFIT;
use crate::look::seen;
use crate::output::Judgement;
use crate::sources;
use clap::Args;
use delayq_service::Fault;

mod durability;
mod etcd;
mod process;
mod readers;
mod redis;
pub(in crate::commands) mod shards;
mod spool;

/// Check that everything is reachable, running and configured correctly
///
/// Checks Redis, etcd, timers, forwarders, workers, compensators, the spool, the outbox and the intakes, and the process at
/// the configured `[admin] listen`. Names each failed check and how to fix it.
#[derive(Debug, Args)]
pub struct Doctor {}

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
        match checks.iter().filter(|check| check.verdict == Judgement::Bad).count() {
            0 => Ok(()),
            bad => Err(Fault::new(&UNFIT, format!("{bad} of {} checks are bad", checks.len()))),
        }
    }
}

/// Looks at everything.
pub(super) async fn examine(global: &Global, context: &Context) -> Vec<Check> {
    let mut checks = redis::checks(context).await;
    match seen(context).await {
        Ok((part, _)) => {
            checks.extend(shards::checks(&part).await);
            checks.extend(durability::checks(&part).await);
            checks.extend(readers::checks(global, &part).await);
        }
        // The servers answer, and say why no shard does.
        Err(_) if checks.iter().all(|check| check.verdict != Judgement::Bad) => {
            checks.extend(shards::checks(context).await);
        }
        Err(_) => {}
    }
    checks.extend(etcd::checks(context).await);
    checks.extend(spool::check(context));
    checks.extend(sources::look(global, context).await);
    checks.extend(process::check(context).await);
    checks
}
