//! Auditing a deployment while it is in use: whether something leads to every message, and every entry to one.

use super::Admin;
use super::auditor::Auditor;
use super::paced::Paced;
use crate::admin::stuck::{Drift, Finding, Uncounted};
use crate::error::Error;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Audit {
    /// How many messages and markers were looked at; one may count twice where Redis's table of keys changes its size
    /// meanwhile.
    pub looked_at: u64,
    /// How many entries of indexes were looked at; likewise.
    pub entries: u64,
    /// What is wrong.
    pub findings: BTreeSet<Finding>,
    /// Counters that are not what there is. Those of a topic with findings are not looked at: mend these first.
    pub drifts: BTreeSet<Drift>,
    /// Topics that could not be counted, by shard, and why.
    pub uncounted: BTreeSet<Uncounted>,
}

// === impl Audit ===

impl Audit {
    /// Whether nothing is wrong. What could not be counted is not.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.drifts.is_empty()
    }
}

// === impl Admin ===

impl Admin {
    /// Looks at every message, every entry of every index and every counter of the deployment, in bounded steps, while
    /// it is in use. `progress` hears how many messages and entries were looked at.
    ///
    /// # Errors
    /// Redis cannot be used, does not allow SCAN, or lacks a shard.
    pub async fn audit(&self, mut progress: impl FnMut(u64)) -> Result<Audit, Error> {
        let mut audit = Audit::default();
        // In a shard that is missing nothing is out of its place.
        self.overview().await?;
        let mut auditor = Auditor::new(Paced::new(self.client.clone(), 1.0), None);
        if !self.unseen.is_empty() {
            let nodes = self.client.calls.by_node(&self.shards()).await?.into_iter();
            let nodes = nodes.map(|(link, _)| link.address().to_owned()).collect();
            auditor = auditor.leaving_out(Arc::clone(&self.unseen), nodes);
        }
        while let Some(page) = auditor.next().await? {
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
