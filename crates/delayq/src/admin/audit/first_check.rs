//! The first check of messages, by plain commands: most messages are delayed, and in the right bucket. The plain
//! commands cost Redis a third of a script call, and delay nobody. All other messages, and messages that moved in
//! between, are left to the script, which sees a message and the entry at one moment.

use super::paced_calls::PacedCalls;
use crate::error::Error;
use delayq_core::envelope::HEAD_BYTES;
use delayq_core::shard::ShardId;
use delayq_core::verbs::audit::place_if_delayed;
use redis::{Pipeline, Value, from_redis_value};
use std::collections::BTreeMap;

/// The result of a first check.
#[derive(Debug, Default)]
pub(super) struct FirstCheck {
    /// The messages that are in the right bucket, by bucket; each message by key without the base.
    pub(super) found: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// The messages that a script has to check, likewise.
    pub(super) doubtful: Vec<Vec<u8>>,
}

/// The expected entries of one bucket, and the messages of the entries.
#[derive(Default)]
struct Expected {
    entries: Vec<Vec<u8>>,
    /// The key of each message; true if no other index has the message.
    keys: Vec<(Vec<u8>, bool)>,
}

// === impl PacedCalls ===

impl PacedCalls {
    /// Checks messages of a shard, each by key without the base.
    pub(super) async fn first_check(
        &mut self,
        shard: ShardId,
        keys: Vec<Vec<u8>>,
    ) -> Result<FirstCheck, Error> {
        let heads = self.heads(shard, &keys).await?;
        let (mut checked, mut buckets) = (FirstCheck::default(), BTreeMap::<Vec<u8>, Expected>::new());
        for (key, head) in keys.into_iter().zip(heads) {
            let Some(place) = place_if_delayed(&key, &head) else {
                checked.doubtful.push(key);
                continue;
            };
            let expected = buckets.entry(place.bucket).or_default();
            expected.entries.push(place.entry);
            expected.keys.push((key, place.is_alone));
        }
        self.find(shard, buckets, &mut checked).await?;
        Ok(checked)
    }

    /// Reads the heads of messages, by key without the base; empty if there is no message.
    pub(in crate::admin) async fn heads(
        &mut self,
        shard: ShardId,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let base = self.keys().base(shard).into_bytes();
        let mut pipeline = Pipeline::with_capacity(keys.len());
        for key in keys {
            pipeline.cmd("GETRANGE").arg([&base[..], key].concat()).arg(0).arg(HEAD_BYTES - 1);
        }
        let heads = self.pipeline(shard, &pipeline).await?;
        Ok(heads
            .into_iter()
            .map(|head| from_redis_value(head.ok()?).ok())
            .map(Option::unwrap_or_default)
            .collect())
    }

    /// Checks that each entry is in the expected bucket.
    async fn find(
        &mut self,
        shard: ShardId,
        buckets: BTreeMap<Vec<u8>, Expected>,
        checked: &mut FirstCheck,
    ) -> Result<(), Error> {
        if buckets.is_empty() {
            return Ok(());
        }
        let (base, mut pipeline) =
            (self.keys().base(shard).into_bytes(), Pipeline::with_capacity(buckets.len()));
        for (bucket, expected) in &buckets {
            pipeline.cmd("ZMSCORE").arg([&base[..], bucket].concat()).arg(&expected.entries);
        }
        let answers = self.pipeline(shard, &pipeline).await?;
        for ((bucket, expected), scores) in buckets.into_iter().zip(answers) {
            let scores = match scores {
                Ok(Value::Array(scores)) => scores,
                _ => Vec::new(),
            };
            let mut found = Vec::new();
            for (n, (key, is_alone)) in expected.keys.into_iter().enumerate() {
                let is_there = scores.get(n).is_some_and(|score| *score != Value::Nil);
                if !(is_there && is_alone) {
                    checked.doubtful.push(key.clone());
                }
                if is_there {
                    found.push(key);
                }
            }
            checked.found.insert(bucket, found);
        }
        Ok(())
    }
}
