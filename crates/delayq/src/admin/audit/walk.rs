//! A walk over every message, every index and every counter of a deployment, call by call.
//!
//! ```text
//! SCAN ─┬─ messages ─► first check ─► audit ─┬─ findings  (of a sweep, those that `BucketEntries` does not account for)
//!       │                                    └─ in no bucket ─► are they in their queue? ─► findings
//!       ├─ indexes ──► audit_index ─► findings
//!       └─ topics ───► at the end: recount ─► drifts
//! ```
//! Redis lists the keys of all shards at once, so one walk covers the whole deployment.

use super::bucket_entries::BucketEntries;
use super::findings::{Drift, Finding, FindingKind, Uncounted};
use super::paced_calls::PacedCalls;
use super::ready_queues::LostCandidates;
use crate::admin::key_scan::KeyScan;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::shard::ShardId;
use delayq_core::verbs::audit::{self, IndexAt};
use delayq_core::verbs::recount::{self, Counted, Recount};
use redis::from_redis_value;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;

/// Keys that Redis walks over in one step.
const KEYS_A_STEP: usize = 500;
/// Messages of a shard that are checked together.
const MESSAGES_A_LOOK: usize = 500;
/// Messages or entries that a script reads in one call. Each message may be a MiB.
const MESSAGES_A_CALL: usize = 100;
/// Indexes in one call: most groups have few messages.
const INDEXES_A_CALL: usize = 50;
/// Maximum messages that wait to be checked together with other messages of the same shard.
const MOST_WAITING: usize = 20_000;
/// Maximum counts of a topic that changes during the count.
const COUNTS: usize = 5;

/// The walk, and the progress so far.
#[derive(Debug)]
pub(super) struct AuditWalk {
    redis: PacedCalls,
    /// The walk over the keys.
    keys: KeyScan,
    /// Messages that were seen and not checked yet, by key without the base.
    messages: BTreeMap<ShardId, Vec<Vec<u8>>>,
    waiting: usize,
    /// Indexes and other keys that are not messages, likewise.
    indexes: BTreeMap<ShardId, VecDeque<IndexAt>>,
    /// The last entry of the large index under check in a shard, at the start of the check. Later entries are left to
    /// the next walk, because a walk under load would not end otherwise.
    ends: BTreeMap<ShardId, Option<(f64, Vec<u8>)>>,
    /// The entries of the buckets; `None`: a script checks each message and each entry.
    entries: Option<BucketEntries>,
    /// Buckets that were seen: with `entries`, buckets are checked after all messages.
    buckets: BTreeSet<(ShardId, Vec<u8>)>,
    candidates: LostCandidates,
    /// Topics that were seen and not counted yet, by number.
    topics: BTreeSet<(ShardId, String)>,
    /// Number of faults by topic. A topic with a fault is not counted.
    faulty: BTreeMap<(ShardId, String), usize>,
    names: BTreeMap<(ShardId, String), Option<String>>,
    left_out: Arc<BTreeSet<ShardId>>,
}

/// The findings of one step.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) looked_at: u64,
    pub(super) entries: u64,
    pub(super) findings: Vec<Finding>,
    pub(super) drifts: Vec<Drift>,
    pub(super) uncounted: Option<Uncounted>,
    /// The topic that was checked, by shard, number and name.
    pub(super) topic: Option<(ShardId, String, String)>,
}

// === impl AuditWalk ===

impl AuditWalk {
    pub(super) fn new(redis: PacedCalls, entries: Option<BucketEntries>) -> Self {
        let pattern = format!("{{{}:*}}:*", redis.keys().namespace());
        Self {
            redis,
            keys: KeyScan::new(pattern, KEYS_A_STEP),
            messages: BTreeMap::new(),
            waiting: 0,
            indexes: BTreeMap::new(),
            ends: BTreeMap::new(),
            entries,
            buckets: BTreeSet::new(),
            candidates: LostCandidates::default(),
            topics: BTreeSet::new(),
            faulty: BTreeMap::new(),
            names: BTreeMap::new(),
            left_out: Arc::default(),
        }
    }

    /// Limits the walk to these nodes, and leaves out these shards.
    pub(super) fn leaving_out(self, left_out: Arc<BTreeSet<ShardId>>, nodes: BTreeSet<String>) -> Self {
        Self { keys: self.keys.of_nodes(nodes), left_out, ..self }
    }

    /// Takes one step, and returns the findings; `None` at the end of the walk. After an error the next call repeats
    /// the step.
    ///
    /// # Errors
    /// Redis cannot be used, or [`Error::Walk`]: only a new walk sees all.
    pub(super) async fn next(&mut self) -> Result<Option<Page>, Error> {
        let mut page = match self.whats_next() {
            Next::Entries => self.look_at_entries().await?,
            Next::Messages(shard) => self.look_at_messages(shard).await?,
            Next::Indexes(shard) => self.look_at_indexes(shard).await?,
            Next::Queues => self.look_through_queues().await?,
            Next::Keys => self.scan().await?,
            Next::Topic(shard, number) => self.look_at_topic(shard, number).await?,
            Next::Nothing => return Ok(None),
        };
        for finding in &mut page.findings {
            let Some(number) = finding.number() else { continue };
            let key = (finding.shard, number);
            let name = self.name_of(&key).await.ok().flatten();
            finding.topic = name.unwrap_or_else(|| format!("#{}", key.1));
            *self.faulty.entry(key).or_default() += 1;
        }
        Ok(Some(page))
    }

    /// Records that a finding was mended.
    pub(super) fn is_mended(&mut self, finding: &Finding) {
        let Some(number) = finding.number() else { return };
        if let Entry::Occupied(mut count) = self.faulty.entry((finding.shard, number)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Selects full pages first, and the rest of each shard once all keys were seen.
    fn whats_next(&mut self) -> Next {
        if self.entries.as_ref().is_some_and(BucketEntries::comes_first) {
            return Next::Entries;
        }
        let is_over = self.keys.is_over();
        let is_crowded = is_over || self.waiting > MOST_WAITING;
        let fullest = self.messages.iter().max_by_key(|(_, keys)| keys.len());
        if let Some((&shard, keys)) = fullest
            && (keys.len() >= MESSAGES_A_LOOK || is_crowded && !keys.is_empty())
        {
            return Next::Messages(shard);
        }
        if is_over && let Some(entries) = &mut self.entries {
            if entries.comes_last() {
                return Next::Entries;
            }
            for (shard, bucket) in mem::take(&mut self.buckets) {
                let at = IndexAt { entries: entries.has_doubts(shard, &bucket), ..IndexAt::first(bucket) };
                self.indexes.entry(shard).or_default().push_back(at);
            }
        }
        let fullest = self.indexes.iter().max_by_key(|(_, indexes)| indexes.len());
        if let Some((&shard, indexes)) = fullest
            && (indexes.len() >= INDEXES_A_CALL || is_over && !indexes.is_empty())
        {
            return Next::Indexes(shard);
        }
        if self.candidates.is_full() || is_over && !self.candidates.is_empty() {
            return Next::Queues;
        }
        if !is_over {
            return Next::Keys;
        }
        match self.topics.first() {
            Some((shard, number)) => Next::Topic(*shard, number.clone()),
            None => Next::Nothing,
        }
    }

    async fn look_at_entries(&mut self) -> Result<Page, Error> {
        let entries = match &mut self.entries {
            Some(entries) => entries.next(&mut self.redis).await?,
            None => 0,
        };
        Ok(Page { entries, ..Page::default() })
    }

    async fn scan(&mut self) -> Result<Page, Error> {
        let mut page = Page::default();
        let found = self.redis.scan(&mut self.keys).await?;
        for (shard, name) in found.iter().filter_map(|key| self.redis.keys().parse(key)) {
            if self.left_out.contains(&shard) {
                continue;
            }
            if name.starts_with(b"m:") {
                if self.entries.as_mut().is_some_and(|entries| entries.accounts_for(shard, name)) {
                    page.looked_at += 1;
                    continue;
                }
                self.messages.entry(shard).or_default().push(name.to_vec());
                self.waiting += 1;
                continue;
            }
            self.topics.extend(topic_number(name).map(|number| (shard, number)));
            if self.entries.is_some() && name.starts_with(b"b:") {
                self.buckets.insert((shard, name.to_vec()));
                continue;
            }
            self.indexes.entry(shard).or_default().push_back(IndexAt::first(name.to_vec()));
        }
        Ok(page)
    }

    async fn look_at_messages(&mut self, shard: ShardId) -> Result<Page, Error> {
        let waiting = &self.messages[&shard];
        let left = waiting.len().saturating_sub(MESSAGES_A_LOOK);
        let keys = waiting[left..].to_vec();
        let mut page = Page { looked_at: keys.len() as u64, ..Page::default() };
        let checked = self.redis.first_check(shard, keys).await?;
        let mut reports = Vec::new();
        for keys in checked.doubtful.chunks(MESSAGES_A_CALL) {
            reports.push(self.redis.ask(audit::messages(shard, keys), audit::read_messages).await?);
        }
        if let Some(entries) = &mut self.entries {
            checked.found.into_iter().for_each(|(bucket, keys)| entries.are_in(shard, bucket, &keys));
        }
        for report in reports {
            for (word, name) in report.findings {
                match FindingKind::from_word(&word) {
                    Some(kind) => page.findings.push(Finding::of_message(kind, shard, name)),
                    None => self.candidates.add(shard, &name),
                }
            }
        }
        self.messages.entry(shard).or_default().truncate(left);
        self.waiting -= page.looked_at as usize;
        Ok(page)
    }

    async fn look_at_indexes(&mut self, shard: ShardId) -> Result<Page, Error> {
        // An index that was not finished by the first step is large.
        let large = self.indexes[&shard].front().filter(|first| !first.member.is_empty());
        if let Some(index) = large.map(|large| large.index.clone())
            && !self.ends.contains_key(&shard)
        {
            let end = self.redis.last_entry(shard, &index).await?;
            self.ends.insert(shard, end);
        }
        let waiting = self.indexes.entry(shard).or_default();
        let some = if self.ends.contains_key(&shard) { 1 } else { INDEXES_A_CALL };
        let call = audit::indexes(shard, MESSAGES_A_CALL, waiting.iter().take(some));
        let report = self.redis.ask(call, audit::read_indexes).await?;
        waiting.drain(..report.done.min(waiting.len()));
        let mut is_through = report.done > 0;
        if let Some(next) = waiting.front_mut()
            && !report.at.1.is_empty()
        {
            (next.score, next.member) = report.at;
            if self.ends.get(&shard).and_then(Option::as_ref).is_some_and(|end| is_at(next, end)) {
                waiting.pop_front();
                is_through = true;
            }
        }
        if is_through {
            self.ends.remove(&shard);
        }
        self.indexes.retain(|_, waiting| !waiting.is_empty());
        let finding = |(index, (word, entry)): (Vec<u8>, (String, Vec<u8>))| {
            let kind = FindingKind::from_word(&word)?;
            Some(Finding::of_index(kind, shard, index, entry))
        };
        let findings = report.findings.into_iter().filter_map(finding).collect();
        Ok(Page { entries: report.entries, findings, ..Page::default() })
    }

    async fn look_through_queues(&mut self) -> Result<Page, Error> {
        let findings = self.redis.lost(&self.candidates).await?;
        self.candidates = LostCandidates::default();
        Ok(Page { findings, ..Page::default() })
    }

    /// Counts a topic, unless the topic has findings.
    async fn look_at_topic(&mut self, shard: ShardId, number: String) -> Result<Page, Error> {
        let key = (shard, number);
        let page = match self.name_of(&key).await? {
            Some(topic) => self.count(&key, topic).await?,
            None => Page::default(),
        };
        self.topics.remove(&key);
        Ok(page)
    }

    async fn count(&mut self, key: &(ShardId, String), topic: String) -> Result<Page, Error> {
        let shard = key.0;
        let mut page = Page { topic: Some((shard, key.1.clone(), topic.clone())), ..Page::default() };
        if self.faulty.contains_key(key) {
            return Ok(page);
        }
        let why = match self.redis.counted(shard, &topic, false).await {
            Err(error) if error.is_wrong_type() => "wrong_type",
            Err(error) => return Err(error),
            Ok(Counted::All(pairs)) => {
                let named = ["ready", "leased", "accepted"].into_iter().zip(pairs);
                let drifts = named.filter(|(_, (says, is))| says != is);
                let drift = |(counter, (says, is))| Drift { shard, topic: topic.clone(), counter, says, is };
                page.drifts.extend(drifts.map(drift));
                return Ok(page);
            }
            Ok(Counted::Crowded) => "crowded",
            Ok(Counted::Changed) => "busy",
        };
        page.uncounted = Some(Uncounted { shard, topic, why });
        Ok(page)
    }

    async fn name_of(&mut self, key: &(ShardId, String)) -> Result<Option<String>, Error> {
        if let Some(name) = self.names.get(key) {
            return Ok(name.clone());
        }
        let name = self.redis.topic_name(key.0, &key.1).await?.map(String::from);
        self.names.insert(key.clone(), name.clone());
        Ok(name)
    }
}

/// The next step.
enum Next {
    Entries,
    Messages(ShardId),
    Indexes(ShardId),
    Queues,
    Keys,
    Topic(ShardId, String),
    Nothing,
}

// === impl PacedCalls ===

impl PacedCalls {
    /// Returns the last entry of an index; `None`: the index is empty.
    async fn last_entry(&mut self, shard: ShardId, index: &[u8]) -> Result<Option<(f64, Vec<u8>)>, Error> {
        let mut zrange = redis::cmd("ZRANGE");
        zrange.arg([self.keys().base(shard).as_bytes(), index].concat());
        let last = self.query(shard, "ZRANGE", zrange.arg(-1).arg(-1).arg("WITHSCORES")).await;
        let last: Vec<(Vec<u8>, f64)> = match last {
            Err(error) if error.is_wrong_type() => Vec::new(),
            last => last?,
        };
        Ok(last.into_iter().next().map(|(member, score)| (score, member)))
    }

    /// Returns the name of the topic with this number in a shard.
    pub(in crate::admin) async fn topic_name(
        &mut self,
        shard: ShardId,
        number: &str,
    ) -> Result<Option<Topic>, Error> {
        let mut hget = redis::cmd("HGET");
        hget.arg(format!("{}t:{number}", self.keys().base(shard))).arg("name");
        match self.run(shard, &hget).await {
            Ok(name) => {
                let name: Option<Vec<u8>> = from_redis_value(name).ok().flatten();
                Ok(name.map(|name| Topic::from_stored(&name)))
            }
            // A key of the wrong type is a separate finding.
            Err(error) if error.is_wrong_type() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Counts a topic in a shard, and repeats the count if the topic changed meanwhile.
    pub(super) async fn counted(
        &mut self,
        shard: ShardId,
        topic: &str,
        mend: bool,
    ) -> Result<Counted, Error> {
        let mut counted = Counted::Changed;
        for _ in 0..COUNTS {
            counted = self.recount(shard, topic, mend).await?;
            if counted != Counted::Changed {
                break;
            }
        }
        Ok(counted)
    }

    async fn recount(&mut self, shard: ShardId, topic: &str, mend: bool) -> Result<Counted, Error> {
        let topic: Topic = topic.parse()?;
        let mut at = Recount::default();
        loop {
            let call = recount::request(shard, &topic, mend, &at);
            if let Some(counted) = self.ask(call, |reply| recount::read(reply, &mut at)).await? {
                return Ok(counted);
            }
        }
    }
}

/// Returns true if the check has reached an entry, or passed its place.
fn is_at(at: &IndexAt, end: &(f64, Vec<u8>)) -> bool {
    let score = std::str::from_utf8(&at.score).ok().and_then(|score| score.parse::<f64>().ok());
    score.is_some_and(|score| (score, &at.member) >= (end.0, &end.1))
}

/// Returns the number of the topic whose key has this name.
fn topic_number(name: &[u8]) -> Option<String> {
    let number = std::str::from_utf8(name.strip_prefix(b"t:")?).ok()?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.to_owned())
}
