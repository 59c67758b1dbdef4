//! Audits a deployment in use: checks that every message is reachable, and that every entry has a message.

mod bucket_entries;
mod findings;
mod first_check;
pub(super) mod paced_calls;
mod ready_queues;
mod repair;
mod retention;
mod sorted_sets;
mod sweep;
mod walk;

pub use findings::{Drift, Finding, FindingKind, Uncounted};
pub use repair::Repaired;
pub use sweep::{Sweep, Swept, SweptFault, SweptMending};

use super::Admin;
use crate::error::Error;
use paced_calls::PacedCalls;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use walk::AuditWalk;

/// Checks a deployment for faults, and mends the faults, during normal use. See [`Admin::audit`].
///
/// ```no_run
/// # async fn example(admin: delayq::Admin) -> Result<(), delayq::Error> {
/// let audit = admin.audit().run(|_| {}).await?;
/// if !audit.is_clean() {
///     let repaired = admin.audit().repair(audit, |_| {}).await?;
///     println!("{} faults are left", repaired.left.findings.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AuditAdmin<'a> {
    admin: &'a Admin,
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Audit {
    /// Number of checked messages and markers. A message may count twice if Redis resizes the table of keys meanwhile.
    pub looked_at: u64,
    /// Number of checked index entries. An entry may count twice in the same way.
    pub entries: u64,
    /// The faults.
    pub findings: BTreeSet<Finding>,
    /// Wrong counters. The counters of a topic with findings are not checked: mend the findings first.
    pub drifts: BTreeSet<Drift>,
    /// Topics that could not be counted, by shard, with the reason.
    pub uncounted: BTreeSet<Uncounted>,
}

// === impl Audit ===

impl Audit {
    /// Returns true if no fault was found. Uncounted topics are not faults.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.drifts.is_empty()
    }
}

// === impl Admin ===

impl Admin {
    /// Returns the handle to audit, repair and sweep the deployment.
    pub const fn audit(&self) -> AuditAdmin<'_> {
        AuditAdmin { admin: self }
    }
}

// === impl AuditAdmin ===

impl AuditAdmin<'_> {
    /// Checks every message, every entry of every index and every counter of the deployment, in bounded steps, during
    /// normal use. `progress` gets the number of checked messages and entries.
    ///
    /// # Errors
    /// Redis cannot be used, does not allow SCAN, or lacks a shard.
    pub async fn run(self, mut progress: impl FnMut(u64)) -> Result<Audit, Error> {
        let mut audit = Audit::default();
        // In a missing shard, nothing would look wrong.
        self.admin.shards().overview().await?;
        let mut walk = AuditWalk::new(PacedCalls::new(self.admin.client.clone(), 1.0), None);
        if !self.admin.unseen.is_empty() {
            let nodes = self.admin.client.calls.by_node(&self.admin.shards().all()).await?.into_iter();
            let nodes = nodes.map(|(link, _)| link.address().to_owned()).collect();
            walk = walk.leaving_out(Arc::clone(&self.admin.unseen), nodes);
        }
        while let Some(page) = walk.next().await? {
            audit.looked_at += page.looked_at;
            audit.entries += page.entries;
            audit.findings.extend(page.findings);
            audit.drifts.extend(page.drifts);
            audit.uncounted.extend(page.uncounted);
            progress(audit.looked_at + audit.entries);
        }
        Ok(audit)
    }
}
