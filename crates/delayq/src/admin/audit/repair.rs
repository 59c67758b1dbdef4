//! Mends the findings of an audit, while the deployment is in use.

use super::findings::{Finding, FindingKind};
use super::paced_calls::PacedCalls;
use super::{Audit, AuditAdmin};
use crate::error::Error;
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::ShardId;
use delayq_core::verbs::repair::{self, Mending};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum rounds of audit and repair: a repair may reveal another fault, such as an entry that is stale now.
const ROUNDS: u32 = 4;

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repaired {
    /// Number of mended findings, by kind.
    pub mended: BTreeMap<FindingKind, u64>,
    /// Number of corrected counters.
    pub recounted: u64,
    /// Reasons for failed repairs.
    pub failed: BTreeSet<String>,
    /// The remaining faults.
    pub left: Audit,
}

// === impl AuditAdmin ===

impl AuditAdmin<'_> {
    /// Mends the findings of `audit`, and audits again until no finding is left that can be mended. One script checks
    /// each finding again and mends the fault; a finding that is sound by then is left alone. Safe to stop and to
    /// repeat. `progress` gets the number of checked messages and entries.
    ///
    /// # Errors
    /// Redis cannot be used; some findings may be mended then.
    pub async fn repair(self, audit: Audit, mut progress: impl FnMut(u64)) -> Result<Repaired, Error> {
        let mut repaired = Repaired { left: audit, ..Repaired::default() };
        for _ in 0..ROUNDS {
            if repaired.left.is_clean() {
                break;
            }
            repaired.failed.clear();
            self.mend(&mut repaired).await?;
            repaired.left = self.run(&mut progress).await?;
        }
        Ok(repaired)
    }

    async fn mend(self, repaired: &mut Repaired) -> Result<(), Error> {
        let mut redis = PacedCalls::new(self.admin.client.clone(), 1.0);
        let mut shards: BTreeMap<ShardId, Vec<Finding>> = BTreeMap::new();
        for finding in std::mem::take(&mut repaired.left.findings) {
            shards.entry(finding.shard).or_default().push(finding);
        }
        for (shard, findings) in shards {
            for (finding, answer) in findings.iter().zip(redis.mend(shard, &findings).await?) {
                match answer {
                    Mending::Mended => *repaired.mended.entry(finding.kind).or_default() += 1,
                    Mending::Sound => {}
                    // A fault that nothing mends is reported by the next audit.
                    Mending::Failed(_) if finding.kind == FindingKind::WrongType => {}
                    Mending::Failed(why) => _ = repaired.failed.insert(format!("{finding}: {why}")),
                }
            }
        }
        for drift in std::mem::take(&mut repaired.left.drifts) {
            redis.counted(drift.shard, &drift.topic, true).await?;
            repaired.recounted += 1;
        }
        Ok(())
    }
}

// === impl PacedCalls ===

impl PacedCalls {
    /// Mends the findings in a shard that are still present: one answer for each finding.
    pub(super) async fn mend(&mut self, shard: ShardId, findings: &[Finding]) -> Result<Vec<Mending>, Error> {
        let mut answers = Vec::with_capacity(findings.len());
        for some in findings.chunks(MAX_IDS_A_CALL) {
            let parts =
                some.iter().map(|found| [found.kind.word().as_bytes(), &found.raw_index, &found.raw_name]);
            let read = |reply| repair::read(reply, some.len());
            match self.ask(repair::request(shard, parts), read).await {
                Err(error) if error.is_wrong_type() => {
                    answers.extend(some.iter().map(|_| Mending::Failed(error.to_string())));
                }
                mended => answers.extend(mended?),
            }
        }
        Ok(answers)
    }
}
