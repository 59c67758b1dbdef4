//! Sweeps: audits and mends in one pass, for no more than a share of Redis's time.

use super::AuditAdmin;
use super::bucket_entries::BucketEntries;
use super::findings::{Drift, Finding, FindingKind};
use super::paced_calls::PacedCalls;
use super::walk::{AuditWalk, Page};
use crate::error::Error;
use crate::options::SHARE;
use delayq_core::shard::ShardId;
use delayq_core::verbs::recount::Counted;
use delayq_core::verbs::repair::Mending;
use std::collections::BTreeMap;
use std::mem;

/// The kind of a counter that differs from the actual number.
const COUNTER: &str = "counter";

/// Repeated walks over a deployment in use: every message, entry and counter. See [`AuditAdmin::sweep`].
///
/// **A counter is mended once two walks in a row found the same error.** A message that got stuck behind the first walk
/// makes the counters of the topic look wrong; the second walk finds that message instead.
#[derive(Debug)]
pub struct Sweep {
    redis: PacedCalls,
    walk: AuditWalk,
    /// Counts walks: each walk reads the heads of different messages.
    turn: u64,
    /// The unfinished part of the last page; `None`: the page is finished.
    open: Option<Open>,
    mends: bool,
    /// The wrong counters by topic, in this walk so far.
    off: Off,
    /// The wrong counters by topic, in the previous walk.
    off_before: Off,
}

/// The errors of counters by shard and topic.
type Off = BTreeMap<(ShardId, String), Vec<(&'static str, i64)>>;

/// A partly finished page of the audit.
#[derive(Debug)]
struct Open {
    findings: BTreeMap<ShardId, Vec<Finding>>,
    topic: Option<(ShardId, String, String)>,
    drifts: Vec<Drift>,
    swept: Swept,
}

/// The result of one step of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Number of checked messages, markers and index entries.
    pub looked_at: u64,
    /// The faults, including mended faults.
    pub faults: Vec<SweptFault>,
    /// Number of dead letters that were purged under the retention limits of the topic.
    pub outlived: u64,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweptFault {
    /// The kind, one of [`Sweep::KINDS`].
    pub kind: &'static str,
    /// The fault in words: the place, the topic and the message.
    pub what: String,
    /// The result of mending.
    pub mending: SweptMending,
}

/// The result of mending a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweptMending {
    /// The fault was mended.
    Mended,
    /// Nothing was changed: the sweep only reports, or no script mends this fault.
    Left,
    /// The fault could not be mended, for this reason.
    Failed(String),
}

// === impl Sweep ===

impl Sweep {
    /// Every kind of fault: the kinds of [`FindingKind`] and `counter`.
    pub const KINDS: [&'static str; FindingKind::ALL.len() + 1] = {
        let mut kinds = [COUNTER; FindingKind::ALL.len() + 1];
        let mut n = 0;
        while n < FindingKind::ALL.len() {
            kinds[n] = FindingKind::ALL[n].word();
            n += 1;
        }
        kinds
    };

    /// Takes one step of a few calls; `None` at the end of a walk: the next step begins the next walk. One script
    /// checks each finding again and mends the fault, so a step may be dropped or repeated, and two sweeps may run at
    /// once.
    ///
    /// # Errors
    /// [`Error::Option`]: the share is outside the allowed range. Redis cannot be used: the next call repeats this
    /// step. Or [`Error::Walk`]: the next step begins a new walk.
    pub async fn next(&mut self) -> Result<Option<Swept>, Error> {
        SHARE.check(self.redis.share())?;
        let step = self.step().await;
        if matches!(step, Ok(None) | Err(Error::Walk(_))) {
            self.turn = self.turn.wrapping_add(1);
            self.open = None;
            self.walk = AuditWalk::new(self.redis.clone(), Some(BucketEntries::new(self.turn)));
            let off = mem::take(&mut self.off);
            if step.is_ok() {
                self.off_before = off;
            }
        }
        step
    }

    async fn step(&mut self) -> Result<Option<Swept>, Error> {
        if self.open.is_none() {
            self.open = self.walk.next().await?.map(Open::of);
        }
        // Each part leaves the page once finished: after an error or a dropped future, the other parts stay.
        while let Some((shard, findings)) = self.open.as_ref().and_then(Open::next_findings) {
            let faults = self.mend(shard, &findings).await?;
            self.has_done(faults, |open| drop(open.findings.remove(&shard)));
        }
        let Some(open) = &self.open else { return Ok(None) };
        if let Some((shard, number, name)) = open.topic.clone() {
            let faults = self.mend_counters(shard, &name, open.drifts.clone()).await?;
            self.has_done(faults, |open| open.drifts.clear());
            if self.mends {
                let outlived = self.redis.retain(shard, &number, &name).await?;
                self.has_done(Vec::new(), |open| open.swept.outlived = outlived);
            }
        }
        Ok(self.open.take().map(|open| open.swept))
    }

    /// Records faults, and removes the finished part from the page.
    fn has_done(&mut self, faults: Vec<SweptFault>, part: impl FnOnce(&mut Open)) {
        if let Some(open) = &mut self.open {
            open.swept.faults.extend(faults);
            part(open);
        }
    }

    /// Mends the counters of a topic.
    async fn mend_counters(
        &mut self,
        shard: ShardId,
        topic: &str,
        drifts: Vec<Drift>,
    ) -> Result<Vec<SweptFault>, Error> {
        if drifts.is_empty() {
            return Ok(Vec::new());
        }
        let (key, off) =
            ((shard, topic.to_owned()), drifts.iter().map(|drift| (drift.counter, drift.by())).collect());
        let is_proven = self.off_before.get(&key) == Some(&off);
        let mending = match self.mends {
            true if is_proven => match self.redis.counted(shard, topic, true).await? {
                // Normal operation mended the counters meanwhile.
                Counted::All(pairs) if pairs.iter().all(|(says, is)| says == is) => return Ok(Vec::new()),
                Counted::All(_) => SweptMending::Mended,
                Counted::Crowded | Counted::Changed => SweptMending::Failed("it changed".to_owned()),
            },
            _ => SweptMending::Left,
        };
        if mending != SweptMending::Mended {
            self.off.insert(key, off);
        }
        if !is_proven {
            return Ok(Vec::new());
        }
        let fault =
            |drift: Drift| SweptFault { kind: COUNTER, what: drift.to_string(), mending: mending.clone() };
        Ok(drifts.into_iter().map(fault).collect())
    }

    async fn mend(&mut self, shard: ShardId, findings: &[Finding]) -> Result<Vec<SweptFault>, Error> {
        let fault = |finding: &Finding, mending| SweptFault {
            kind: finding.kind.word(),
            what: finding.to_string(),
            mending,
        };
        if !self.mends {
            return Ok(findings.iter().map(|finding| fault(finding, SweptMending::Left)).collect());
        }
        let mut faults = Vec::new();
        let answers = self.redis.mend(shard, findings).await?;
        for (finding, answer) in findings.iter().zip(answers) {
            let mending = match answer {
                Mending::Mended => SweptMending::Mended,
                // Normal operation mended the fault meanwhile.
                Mending::Sound => {
                    self.walk.is_mended(finding);
                    continue;
                }
                Mending::Failed(_) if finding.kind == FindingKind::WrongType => SweptMending::Left,
                Mending::Failed(why) => SweptMending::Failed(why),
            };
            if mending == SweptMending::Mended {
                self.walk.is_mended(finding);
            }
            faults.push(fault(finding, mending));
        }
        Ok(faults)
    }
}

// === impl Open ===

impl Open {
    fn of(page: Page) -> Self {
        let Page { looked_at, entries, findings: found, drifts, topic, .. } = page;
        let mut findings: BTreeMap<ShardId, Vec<Finding>> = BTreeMap::new();
        for finding in found {
            findings.entry(finding.shard).or_default().push(finding);
        }
        let swept = Swept { looked_at: looked_at + entries, ..Swept::default() };
        Self { findings, topic, drifts, swept }
    }

    fn next_findings(&self) -> Option<(ShardId, Vec<Finding>)> {
        self.findings.first_key_value().map(|(shard, findings)| (*shard, findings.clone()))
    }
}

// === impl AuditAdmin ===

impl AuditAdmin<'_> {
    /// Begins a sweep: an audit that mends each finding, and purges dead letters beyond the retention limits of the
    /// topic. With `mends` false, the sweep only reports. The calls take no more than a `share` of the time, network
    /// time included: from 0.000001 to 1, which means without a pause.
    pub fn sweep(self, share: f64, mends: bool) -> Sweep {
        let redis = PacedCalls::new(self.admin.client.clone(), share);
        let turn = fastrand::u64(..);
        let walk = AuditWalk::new(redis.clone(), Some(BucketEntries::new(turn)));
        Sweep { redis, walk, turn, open: None, mends, off: Off::new(), off_before: Off::new() }
    }
}
