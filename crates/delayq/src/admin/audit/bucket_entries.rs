//! The entries of the buckets, read before the walk over the keys: a bucket lists thousands of entries at once, which
//! costs Redis a fourth of a separate lookup for each message.
//!
//! ```text
//! alarms ─► buckets ─► pages ─► known ─┬─ SCAN shows its message: accounted for
//!                                      └─ left at the end ─► pages once more, and heads ─► doubtful buckets
//! ```
//! All this only selects candidates for a closer check. The verdict comes from a script, which sees a message and the
//! entry at one moment.

use super::paced_calls::PacedCalls;
use super::sorted_sets::{ENTRIES_A_PAGE, SortedSetPages};
use crate::error::Error;
use delayq_core::shard::ShardId;
use delayq_core::verbs::audit::place_if_delayed;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};

/// Maximum entries in memory, of about 15 bytes each. Further entries are checked individually, as in an audit.
const MOST: usize = 8_000_000;
/// Up to this number of entries, every walk reads the heads of all messages.
const FEW: usize = 10_000;
/// With more entries, one walk out of so many reads the head of a message.
const TURNS: u64 = 16;
/// Heads that are read together.
const HEADS_A_CALL: usize = 500;

/// The bits of an entry, from the lowest: set if the message is in other indexes too, the number of the bucket, a hash
/// of the message's key.
const INDEXED: u64 = 1;
const BUCKET_BITS: u32 = 24;
const HASH: u64 = u64::MAX << (BUCKET_BITS + 1);

/// The entries of all buckets.
#[derive(Debug)]
pub(super) struct BucketEntries {
    /// A new seed in each walk, so that two entries that are confused in one walk are not confused in the next.
    seed: RandomState,
    /// Selects the messages whose heads are read.
    turn: u64,
    reads_all_heads: bool,
    /// Entries whose message was not seen.
    known: BTreeSet<u64>,
    buckets: Vec<(ShardId, Vec<u8>)>,
    numbers: HashMap<(ShardId, Vec<u8>), usize>,
    /// Buckets that a script has to check.
    doubtful: BTreeSet<usize>,
    pages: SortedSetPages,
    /// Entries without a message so far, by bucket, whose heads are to be read.
    unseen: Vec<(usize, Vec<u8>)>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Finding the buckets of this shard, from this position in the alarms.
    Alarms(ShardId, usize),
    Buckets,
    /// During the walk over the keys.
    Keys,
    Left,
    End,
}

// === impl BucketEntries ===

impl BucketEntries {
    /// `turn` counts walks.
    pub(super) fn new(turn: u64) -> Self {
        Self {
            seed: RandomState::new(),
            turn: turn % TURNS,
            reads_all_heads: true,
            known: BTreeSet::new(),
            buckets: Vec::new(),
            numbers: HashMap::new(),
            doubtful: BTreeSet::new(),
            pages: SortedSetPages::default(),
            unseen: Vec::new(),
            stage: Stage::Alarms(ShardId::new(0), 0),
        }
    }

    /// Returns true if a step is due before the walk over the keys.
    pub(super) const fn comes_first(&self) -> bool {
        matches!(self.stage, Stage::Alarms(..) | Stage::Buckets)
    }

    /// Returns true if a step is due after the walk over the keys.
    pub(super) fn comes_last(&mut self) -> bool {
        if matches!(self.stage, Stage::Keys) {
            let left = self.known.iter().map(|&entry| bucket_of(entry)).collect::<BTreeSet<usize>>();
            self.pages.begin(left.into_iter().filter(|bucket| !self.doubtful.contains(bucket)));
            self.stage = Stage::Left;
        }
        matches!(self.stage, Stage::Left)
    }

    /// Takes one step, and returns the number of entries read. After an error the next call repeats the step.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub(super) async fn next(&mut self, redis: &mut PacedCalls) -> Result<u64, Error> {
        match self.stage {
            Stage::Alarms(shard, from) => self.find_buckets(redis, shard, from).await.map(|()| 0),
            Stage::Buckets => self.read_buckets(redis).await,
            Stage::Left => self.look_for_unseen(redis).await.map(|()| 0),
            Stage::Keys | Stage::End => Ok(0),
        }
    }

    async fn find_buckets(
        &mut self,
        redis: &mut PacedCalls,
        shard: ShardId,
        from: usize,
    ) -> Result<(), Error> {
        let all = redis.page(shard, b"alarms", from..from + ENTRIES_A_PAGE).await?;
        for bucket in all.iter().filter(|index| index.starts_with(b"b:")) {
            let key = (shard, bucket.clone());
            if self.buckets.len() < 1 << BUCKET_BITS && !self.numbers.contains_key(&key) {
                self.numbers.insert(key.clone(), self.buckets.len());
                self.buckets.push(key);
            }
        }
        let next = ShardId::new(shard.get() + 1);
        self.stage = if all.len() == ENTRIES_A_PAGE {
            Stage::Alarms(shard, from + all.len())
        } else if redis.shards().contains(next) {
            Stage::Alarms(next, 0)
        } else {
            self.pages.begin(0..self.buckets.len());
            Stage::Buckets
        };
        Ok(())
    }

    async fn read_buckets(&mut self, redis: &mut PacedCalls) -> Result<u64, Error> {
        let mut looked_at = 0;
        for (bucket, entries) in self.pages.next(redis, &self.buckets).await? {
            looked_at += entries.len() as u64;
            entries.iter().for_each(|entry| self.remember(bucket, entry));
        }
        if self.known.len() > MOST {
            self.doubtful.extend(self.pages.stop());
        }
        if self.pages.is_over() {
            self.reads_all_heads = self.known.len() <= FEW;
            self.stage = Stage::Keys;
        }
        Ok(looked_at)
    }

    /// Remembers an entry. A second entry of the same message in one bucket makes the bucket doubtful.
    fn remember(&mut self, bucket: usize, entry: &[u8]) {
        let known = self.known_as(bucket, entry);
        let is_new = |known| !self.known.contains(&(known ^ INDEXED)) && self.known.insert(known);
        if !known.is_some_and(is_new) {
            self.doubtful.insert(bucket);
        }
    }

    /// Returns the compact form of an entry; `None`: the entry is invalid.
    fn known_as(&self, bucket: usize, entry: &[u8]) -> Option<u64> {
        let (shard, index) = &self.buckets[bucket];
        let hash = self.hash(*shard, &key_of(index, entry)?);
        // A gen is odd if the message has a group or an expiry.
        let indexed = u64::from(*entry.last()?) & INDEXED;
        Some(hash | (bucket as u64) << 1 | indexed)
    }

    fn hash(&self, shard: ShardId, key: &[u8]) -> u64 {
        self.seed.hash_one((shard.get(), key)) & HASH
    }

    /// Returns true if the message with this key needs no further check: exactly one bucket has an entry, no other
    /// index has the message, and the head is not due in this walk. A wrong gen or another state is only found by the
    /// walk that reads the head.
    pub(super) fn accounts_for(&mut self, shard: ShardId, key: &[u8]) -> bool {
        let hash = self.hash(shard, key);
        let mut known = self.known.range(hash..=hash | !HASH);
        let (Some(&entry), None) = (known.next(), known.next()) else { return false };
        let is_it = entry & INDEXED == 0 && !self.reads_all_heads && turn_of(key) != self.turn;
        is_it && self.known.remove(&entry)
    }

    /// Records that these messages, by key, are in this bucket, under the gen in the head of the message.
    pub(super) fn are_in(&mut self, shard: ShardId, bucket: Vec<u8>, keys: &[Vec<u8>]) {
        let Some(&number) = self.numbers.get(&(shard, bucket)) else { return };
        for key in keys {
            let entry = self.hash(shard, key) | (number as u64) << 1;
            self.known.remove(&entry);
            self.known.remove(&(entry | INDEXED));
        }
    }

    /// Reads buckets with unaccounted entries again. Entries that came and went meanwhile are no longer there.
    async fn look_for_unseen(&mut self, redis: &mut PacedCalls) -> Result<(), Error> {
        if !self.unseen.is_empty() {
            let from = self.unseen.len().saturating_sub(HEADS_A_CALL);
            let is_delayed = redis.are_delayed(&self.buckets, &self.unseen[from..]).await?;
            for ((bucket, _), is_delayed) in self.unseen.drain(from..).zip(is_delayed) {
                if !is_delayed {
                    self.doubtful.insert(bucket);
                }
            }
            return Ok(());
        }
        for (bucket, entries) in self.pages.next(redis, &self.buckets).await? {
            let is_unseen = |entry: &Vec<u8>| {
                self.known_as(bucket, entry).is_some_and(|entry| self.known.contains(&entry))
            };
            let unseen: Vec<Vec<u8>> = entries.into_iter().filter(is_unseen).collect();
            self.unseen.extend(unseen.into_iter().map(|entry| (bucket, entry)));
        }
        if self.pages.is_over() && self.unseen.is_empty() {
            self.known = BTreeSet::new();
            self.stage = Stage::End;
        }
        Ok(())
    }

    /// Returns true if a script has to check the entries of this bucket.
    pub(super) fn has_doubts(&self, shard: ShardId, bucket: &[u8]) -> bool {
        let number = self.numbers.get(&(shard, bucket.to_vec()));
        number.is_none_or(|number| self.doubtful.contains(number))
    }
}

// === impl PacedCalls ===

impl PacedCalls {
    /// Checks for each entry that the message is delayed in that bucket under that gen.
    async fn are_delayed(
        &mut self,
        buckets: &[(ShardId, Vec<u8>)],
        entries: &[(usize, Vec<u8>)],
    ) -> Result<Vec<bool>, Error> {
        let mut is_delayed = Vec::with_capacity(entries.len());
        for of_one in entries.chunk_by(|(one, _), (other, _)| one == other) {
            let (shard, bucket) = &buckets[of_one[0].0];
            let keys = of_one.iter().map(|(_, entry)| key_of(bucket, entry).unwrap_or_default());
            let keys: Vec<Vec<u8>> = keys.collect();
            let heads = self.heads(*shard, &keys).await?;
            is_delayed.extend(keys.iter().zip(&heads).zip(of_one).map(|((key, head), (_, entry))| {
                place_if_delayed(key, head)
                    .is_some_and(|place| place.bucket == *bucket && place.entry == *entry)
            }));
        }
        Ok(is_delayed)
    }
}

const fn bucket_of(known: u64) -> usize {
    ((known & !HASH) >> 1) as usize
}

/// Returns the turn in which the head of the message with this key is read.
fn turn_of(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() % TURNS
}

/// Returns the key of the message for an entry of a bucket; `None`: the entry is too short.
fn key_of(bucket: &[u8], entry: &[u8]) -> Option<Vec<u8>> {
    let number = bucket.split(|&byte| byte == b':').nth(1)?;
    let (id, _gen) = entry.split_last_chunk::<4>()?;
    Some([b"m:", number, b":", id].concat())
}
