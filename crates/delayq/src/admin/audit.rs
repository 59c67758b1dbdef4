//! Auditing a deployment while it is in use: whether something leads to every message, and every entry to one.

use super::Admin;
use super::queues::Candidates;
use crate::admin::stuck::{Drift, Finding, FindingKind};
use crate::error::Error;
use delayq_core::shard::ShardId;
use delayq_core::verbs::audit;
use delayq_core::verbs::recount::{self, Counted, Recount};
use futures_util::{StreamExt, TryStreamExt, stream};
use redis::from_redis_value;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Keys or entries that Redis walks over in one step.
const A_STEP: usize = 1000;
/// Messages that a script reads in one call; each may be a MiB.
const BODIES_A_CALL: usize = 100;
/// Calls under way at the same time.
const AT_ONCE: usize = 8;
/// How often a topic that changes while it is counted is counted again.
const COUNTS: usize = 5;

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

/// A topic that could not be counted in a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Uncounted {
    /// Where.
    pub shard: ShardId,
    /// Which.
    pub topic: String,
    /// `crowded`: it has too many leases or buckets to be counted in one step; `busy`: more than 1,000 of its messages
    /// are ready, and it changed while they were counted.
    pub why: &'static str,
}

/// The keys of one step over the keys of Redis.
#[derive(Default)]
struct Keys {
    bodies: BTreeMap<ShardId, Vec<Vec<u8>>>,
    others: Vec<(ShardId, Vec<u8>)>,
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
    /// Redis cannot be used, or does not allow SCAN and ZSCAN.
    pub async fn audit(&self, mut progress: impl FnMut(u64)) -> Result<Audit, Error> {
        self.client.calls.layout().await?;
        let (mut audit, mut candidates, mut topics) =
            (Audit::default(), Candidates::default(), BTreeSet::new());
        let mut cursor = 0;
        loop {
            let (next, keys) = self.scan(cursor).await?;
            let topic = |(shard, name): &(ShardId, Vec<u8>)| Some((*shard, topic_number(name)?));
            topics.extend(keys.others.iter().filter_map(topic));
            self.audit_bodies(keys.bodies, &mut audit, &mut candidates).await?;
            self.audit_indexes(keys.others, &mut audit).await?;
            if next == 0 || candidates.is_full() {
                let lost = self.lost(std::mem::take(&mut candidates)).await?;
                audit.findings.extend(lost);
            }
            progress(audit.looked_at + audit.entries);
            if next == 0 {
                break;
            }
            cursor = next;
        }
        self.name_topics(&mut audit).await?;
        self.count_all(&topics, &mut audit).await?;
        Ok(audit)
    }

    /// One step over the keys: where the next one begins (0: this was the last), and the keys of this one.
    async fn scan(&self, cursor: u64) -> Result<(u64, Keys), Error> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{{{}:*}}:*", self.client.calls.keys().namespace()));
        let (next, found) = self.scan_step(scan.arg("COUNT").arg(A_STEP)).await?;
        let mut keys = Keys::default();
        for (shard, name) in found.iter().filter_map(|key| self.client.calls.keys().parse(key)) {
            match name.starts_with(b"m:") {
                true => keys.bodies.entry(shard).or_default().push(name.to_vec()),
                false => keys.others.push((shard, name.to_vec())),
            }
        }
        Ok((next, keys))
    }

    async fn audit_bodies(
        &self,
        bodies: BTreeMap<ShardId, Vec<Vec<u8>>>,
        audit: &mut Audit,
        candidates: &mut Candidates,
    ) -> Result<(), Error> {
        audit.looked_at += bodies.values().map(|some| some.len() as u64).sum::<u64>();
        let pages =
            bodies.iter().flat_map(|(shard, keys)| keys.chunks(BODIES_A_CALL).map(|some| (*shard, some)));
        let calls = pages.map(|(shard, some)| async move {
            let call = audit::messages(shard, some);
            Ok::<_, Error>((shard, self.client.calls.ask(call, audit::read_messages).await?))
        });
        // Collected first: a stream over borrowed pages cannot be sent between threads.
        let calls: Vec<_> = calls.collect();
        let told: Vec<_> = stream::iter(calls).buffer_unordered(AT_ONCE).try_collect().await?;
        for (shard, found) in told {
            for (word, name) in found {
                match FindingKind::from_word(&word) {
                    Some(kind) => {
                        audit.findings.insert(Finding::of_message(kind, shard, name));
                    }
                    None => candidates.add(shard, &name),
                }
            }
        }
        Ok(())
    }

    async fn audit_indexes(&self, indexes: Vec<(ShardId, Vec<u8>)>, audit: &mut Audit) -> Result<(), Error> {
        let calls: Vec<_> =
            indexes.into_iter().map(|(shard, index)| self.audit_index(shard, index)).collect();
        let all: Vec<_> = stream::iter(calls).buffer_unordered(AT_ONCE).try_collect().await?;
        for (entries, findings) in all {
            audit.entries += entries;
            audit.findings.extend(findings);
        }
        Ok(())
    }

    /// How many entries an index has, and what is wrong with it and them.
    async fn audit_index(&self, shard: ShardId, index: Vec<u8>) -> Result<(u64, Vec<Finding>), Error> {
        let told = self.client.calls.ask(audit::index(shard, &index, &[]), audit::read_index).await?;
        let finding = |(word, entry): (String, Vec<u8>)| {
            let kind = FindingKind::from_word(&word)?;
            Some(Finding::of_index(kind, shard, index.clone(), entry))
        };
        let mut findings: Vec<Finding> = told.into_iter().filter_map(finding).collect();
        let is_broken = findings.iter().any(|found| found.kind == FindingKind::WrongType);
        if is_broken || !has_entries(&index) {
            return Ok((0, findings));
        }
        let (mut cursor, mut count) = (0, 0);
        let key = [self.client.calls.keys().base(shard).as_bytes(), &index].concat();
        loop {
            let mut zscan = redis::cmd("ZSCAN");
            zscan.arg(&key).arg(cursor).arg("COUNT").arg(A_STEP);
            let (next, found) = self.scan_step(&zscan).await?;
            let members: Vec<Vec<u8>> = found.into_iter().step_by(2).collect();
            count += members.len() as u64;
            for some in members.chunks(BODIES_A_CALL) {
                let told =
                    self.client.calls.ask(audit::index(shard, &index, some), audit::read_index).await?;
                findings.extend(told.into_iter().filter_map(finding));
            }
            if next == 0 {
                return Ok((count, findings));
            }
            cursor = next;
        }
    }

    /// Gives the findings their topics' names in the place of numbers.
    async fn name_topics(&self, audit: &mut Audit) -> Result<(), Error> {
        let mut names = BTreeMap::new();
        let mut named = BTreeSet::new();
        for mut finding in std::mem::take(&mut audit.findings) {
            let Some(number) = finding.number() else {
                named.insert(finding);
                continue;
            };
            let known = names.entry((finding.shard, number.clone()));
            let name = match known {
                std::collections::btree_map::Entry::Occupied(name) => name.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(self.topic_name(finding.shard, &number).await?)
                }
            };
            finding.topic = name.clone().unwrap_or_else(|| format!("#{number}"));
            named.insert(finding);
        }
        audit.findings = named;
        Ok(())
    }

    /// The name of a topic that has this number in a shard.
    pub(super) async fn topic_name(&self, shard: ShardId, number: &str) -> Result<Option<String>, Error> {
        let mut hget = redis::cmd("HGET");
        hget.arg(format!("{}t:{number}", self.client.calls.keys().base(shard))).arg("name");
        match self.client.calls.link().run(&hget).await {
            Ok(name) => Ok(from_redis_value(name).ok().flatten()),
            // A key of the wrong type is a finding of its own.
            Err(error) if error.is_outage() => Err(error),
            Err(_) => Ok(None),
        }
    }

    async fn count_all(&self, topics: &BTreeSet<(ShardId, String)>, audit: &mut Audit) -> Result<(), Error> {
        for (shard, number) in topics {
            let Some(topic) = self.topic_name(*shard, number).await? else { continue };
            let is_of_topic = |found: &Finding| found.shard == *shard && found.topic == topic;
            if audit.findings.iter().any(is_of_topic) {
                continue;
            }
            let counted = self.counted(*shard, &topic, false).await?;
            note(counted, *shard, topic, audit);
        }
        Ok(())
    }

    /// Counts a topic in a shard; again where it changed meanwhile.
    pub(super) async fn counted(&self, shard: ShardId, topic: &str, mend: bool) -> Result<Counted, Error> {
        let mut counted = Counted::Changed;
        for _ in 0..COUNTS {
            counted = self.recount(shard, topic, mend).await?;
            if counted != Counted::Changed {
                break;
            }
        }
        Ok(counted)
    }

    async fn recount(&self, shard: ShardId, topic: &str, mend: bool) -> Result<Counted, Error> {
        let mut at = Recount::default();
        loop {
            let call = recount::request(shard, topic, mend, &at);
            if let Some(counted) = self.client.calls.ask(call, |reply| recount::read(reply, &mut at)).await? {
                return Ok(counted);
            }
        }
    }

    /// One step of SCAN or ZSCAN: where the next one begins (0: this was the last), and what it found.
    async fn scan_step(&self, command: &redis::Cmd) -> Result<(u64, Vec<Vec<u8>>), Error> {
        self.client.calls.link().query("SCAN", command).await
    }
}

fn note(counted: Counted, shard: ShardId, topic: String, audit: &mut Audit) {
    let why = match counted {
        Counted::All(pairs) => {
            let named = ["ready", "leased", "accepted"].into_iter().zip(pairs);
            let drifts = named.filter(|(_, (says, is))| says != is);
            let drift = |(counter, (says, is))| Drift { shard, topic: topic.clone(), counter, says, is };
            audit.drifts.extend(drifts.map(drift));
            return;
        }
        Counted::Crowded => "crowded",
        Counted::Changed => "busy",
    };
    audit.uncounted.insert(Uncounted { shard, topic, why });
}

/// The number of a topic of whose key this is the name.
fn topic_number(name: &[u8]) -> Option<String> {
    let number = std::str::from_utf8(name.strip_prefix(b"t:")?).ok()?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.to_owned())
}

/// Whether the key is an index whose entries stand for messages.
fn has_entries(index: &[u8]) -> bool {
    let named = [&b"leases"[..], b"expiries", b"markers", b"ends"].contains(&index);
    named || [&b"b:"[..], b"d:", b"g:"].iter().any(|prefix| index.starts_with(prefix))
}
