//! Counting the messages of topics by state.

use super::Admin;
use super::topic::TopicAdmin;
use crate::calls::{Batch, scatter};
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::reply::Value;
use delayq_core::shard::ShardId;
use delayq_core::verbs::count::{self, Numbers};
use std::iter::from_fn;
use std::slice;

/// Maximum calls of a pipeline, which Redis answers before it turns to other callers. A call takes 30 µs in a shard without the
/// topic, and two milliseconds where messages become due in 720 different hours.
const MAX_CALLS: usize = 8;

/// What is left to count of a topic in a shard: the place of the topic, and the next step.
type Left = (usize, ShardId, u64);

// === impl Admin ===

impl Admin {
    /// Counts the messages of topics, in the order of the topics, each summed over all shards. Each shard is counted at a
    /// separate instant.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn count(&self, topics: &[Topic]) -> Result<Vec<Numbers>, Error> {
        let mut totals = vec![Numbers::default(); topics.len()];
        let mut every = self.every_shard().await?;
        loop {
            // After the first round, those that a growth has added meanwhile.
            let shards: Vec<ShardId> = from_fn(|| every.next()).collect();
            if shards.is_empty() {
                return Ok(totals);
            }
            let of_topic = |at| shards.iter().map(move |&shard| (at, shard, 0));
            let mut left: Vec<Left> = (0..topics.len()).flat_map(of_topic).collect();
            while !left.is_empty() {
                let mut further = Vec::new();
                for some in left.chunks(MAX_CALLS) {
                    further.extend(self.count_some(topics, some, &mut totals).await?);
                }
                left = further;
            }
        }
    }

    /// Returns what is left to count.
    async fn count_some(
        &self,
        topics: &[Topic],
        some: &[Left],
        totals: &mut [Numbers],
    ) -> Result<Vec<Left>, Error> {
        let request = |batch: &Batch<usize>| {
            let (at, shard, step) = some[batch.key];
            count::request(shard, &topics[at], step)
        };
        let read = |_: &Batch<usize>, reply: Value| {
            let mut numbers = Numbers::default();
            let next = count::read(reply, &mut numbers)?;
            Ok(vec![(numbers, next)])
        };
        let keyed = (0..some.len()).map(|call| (call, 0)).collect();
        let answers = scatter(&self.client.calls, keyed, request, read).await;
        let mut further = Vec::new();
        for (&(at, shard, _), answer) in some.iter().zip(answers) {
            let (numbers, next) = answer?;
            totals[at].add(&numbers);
            further.extend(next.map(|step| (at, shard, step)));
        }
        Ok(further)
    }
}

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Counts the messages of a topic, summed over all shards. Each shard is counted at a separate instant.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn count(self) -> Result<Numbers, Error> {
        let totals = self.admin.count(slice::from_ref(self.topic)).await?;
        Ok(totals.into_iter().next().unwrap_or_default())
    }
}
