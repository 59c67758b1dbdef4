//! `delayq repair`: repairs the findings of an audit.

use super::audit::{audited, report};
use crate::deployment::Context;
use crate::failure::{UNBALANCED, of_core};
use clap::Args;
use delayq::admin::Repaired;
use delayq_service::Fault;

/// Repair what `delayq audit --bodies` finds
///
/// Without --apply it only prints what it would do. One script checks each fault again and repairs it, while the deployment
/// is in use. No message is deleted: one that may have been delivered already is delivered again. Safe to repeat after an
/// interruption.
#[derive(Debug, Args)]
pub struct Repair {
    /// Repair what is found instead of printing what would be done
    #[arg(long)]
    apply: bool,
}

// === impl Repair ===

impl Repair {
    /// Prints the planned repairs, or applies the repairs.
    ///
    /// # Errors
    /// Redis cannot be used, or a finding could not be repaired.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let audit = audited(context).await?;
        if !self.apply {
            return context.output.print(&audit, || {
                let advice = if audit.is_clean() {
                    ""
                } else {
                    "\nnothing was changed; delayq repair --apply makes these changes"
                };
                format!("{}{advice}", report(context, &audit))
            });
        }
        let bar = context.output.spinner();
        let repaired = context.admin().audit().repair(audit, |looked_at| bar.set_position(looked_at)).await;
        bar.finish_and_clear();
        let repaired = repaired.map_err(of_core)?;
        context.output.print(&repaired, || done(context, &repaired))?;
        match repaired.left.is_clean() {
            true => Ok(()),
            false => Err(Fault::new(&UNBALANCED, left(&repaired))),
        }
    }
}

fn done(context: &Context, repaired: &Repaired) -> String {
    let mut rows = context.output.rows(&["mended", ">count"]);
    for (kind, count) in &repaired.mended {
        rows.row([kind.to_string(), count.to_string()]);
    }
    if repaired.recounted > 0 {
        rows.row(["counter".to_owned(), repaired.recounted.to_string()]);
    }
    let mended =
        if repaired.mended.is_empty() && repaired.recounted == 0 { String::new() } else { rows.text() };
    format!("{mended}{}", report(context, &repaired.left))
}

fn left(repaired: &Repaired) -> String {
    let found = repaired.left.findings.len() + repaired.left.drifts.len();
    let why = repaired.failed.iter().next().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{found} faults are left{why}")
}
