//! Sending what was gathered: one call for each shard and topic, in one pipeline.

use super::{Waiting, calls_worth};
use crate::{Client, Message, ShardId, Topic, verbs::put};
use std::collections::HashMap;

/// What sends the puts that were gathered.
pub(super) struct Sender(pub(super) Client);

// === impl Sender ===

impl Sender {
    /// Sends what was gathered: one call for each shard and topic, in one pipeline.
    pub(super) async fn send(&self, gathered: Vec<Waiting>) {
        self.0.next_shard();
        let mut batches: HashMap<(ShardId, Topic), Vec<Waiting>> = HashMap::new();
        for waiting in gathered {
            batches.entry((waiting.shard, waiting.message.topic.clone())).or_default().push(waiting);
        }
        let mut groups = Vec::new();
        for (place, mut batch) in batches {
            while !batch.is_empty() {
                let rest = batch.split_off(calls_worth(batch.iter().map(|waiting| &waiting.message)));
                groups.push((place.clone(), std::mem::replace(&mut batch, rest)));
            }
        }
        let calls: Vec<_> = groups
            .iter()
            .map(|((shard, topic), batch)| {
                let messages: Vec<&Message> = batch.iter().map(|waiting| &waiting.message).collect();
                self.0.put_request(*shard, topic, &messages)
            })
            .collect();
        let replies = self.0.link().send_all(&calls).await;
        for ((_, batch), reply) in groups.into_iter().zip(replies) {
            let messages: Vec<&Message> = batch.iter().map(|waiting| &waiting.message).collect();
            let outcomes = match reply.and_then(|reply| put::read(reply, &messages)) {
                Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error); batch.len()],
            };
            for (waiting, outcome) in batch.into_iter().zip(outcomes) {
                // Whoever waited may be gone: the put is carried out all the same.
                let _ = waiting.answer.send(outcome);
            }
        }
    }
}
