//! The first look at messages, by plain commands: most are delayed, and plainly where they should be. That costs Redis a third
//! of what a script does for them, and holds nobody up. Whatever is not so, or moved in between, is left to the script, which
//! sees a message and its entry at one moment.

use super::paced::Paced;
use crate::error::Error;
use delayq_core::envelope::HEAD_BYTES;
use delayq_core::shard::ShardId;
use delayq_core::verbs::audit::delayed_entry;
use redis::{Pipeline, Value, from_redis_value};
use std::collections::BTreeMap;

/// What a first look at messages tells.
#[derive(Debug, Default)]
pub(super) struct Glance {
    /// How many of the messages each bucket has.
    pub(super) buckets: BTreeMap<Vec<u8>, u64>,
    /// The messages that a script has to look at, each by its key without the base.
    pub(super) doubtful: Vec<Vec<u8>>,
}

/// Of one bucket: its entries, and whose they are.
#[derive(Default)]
struct Expected {
    entries: Vec<Vec<u8>>,
    keys: Vec<Vec<u8>>,
}

// === impl Paced ===

impl Paced {
    /// Looks at messages of a shard, each named by its key without the base.
    pub(super) async fn glance(&mut self, shard: ShardId, keys: Vec<Vec<u8>>) -> Result<Glance, Error> {
        let base = self.keys().base(shard).into_bytes();
        let mut pipeline = Pipeline::with_capacity(keys.len());
        for key in &keys {
            pipeline.cmd("GETRANGE").arg([&base[..], key].concat()).arg(0).arg(HEAD_BYTES - 1);
        }
        let heads = self.pipeline(shard, &pipeline).await?;
        let (mut glance, mut buckets) = (Glance::default(), BTreeMap::<Vec<u8>, Expected>::new());
        for (key, head) in keys.into_iter().zip(heads) {
            let head = head.ok().and_then(|head| from_redis_value::<Vec<u8>>(head).ok()).unwrap_or_default();
            let Some((bucket, entry)) = delayed_entry(&key, &head) else {
                glance.doubtful.push(key);
                continue;
            };
            let expected = buckets.entry(bucket).or_default();
            expected.entries.push(entry);
            expected.keys.push(key);
        }
        self.find(shard, buckets, &mut glance).await?;
        Ok(glance)
    }

    /// Whether each entry is in its bucket.
    async fn find(
        &mut self,
        shard: ShardId,
        buckets: BTreeMap<Vec<u8>, Expected>,
        glance: &mut Glance,
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
            let found = scores.iter().filter(|score| **score != Value::Nil).count();
            if found > 0 {
                glance.buckets.insert(bucket, found as u64);
            }
            let lacking = expected.keys.into_iter().enumerate();
            let lacking = lacking.filter(|(n, _)| scores.get(*n).is_none_or(|score| *score == Value::Nil));
            glance.doubtful.extend(lacking.map(|(_, key)| key));
        }
        Ok(())
    }
}
