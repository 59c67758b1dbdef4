//! Discovery: which topics the shards have, so that none waits whose notification was lost.

use delayq_core::{Admin, Client, Error, ShardId, Topic, TopicHere};

/// What was found.
pub(super) struct Discovery {
    /// The topics of each shard, or why it did not say.
    pub(super) topics: Vec<(ShardId, Result<Vec<Topic>, Error>)>,
    /// How many messages are ready of the topics that no route is for.
    pub(super) unrouted: Result<u64, Error>,
}

// === impl Discovery ===

impl Discovery {
    /// Asks every shard for its topics, and counts what waits of those that no route is for.
    pub(super) async fn run(client: Client, shards: Vec<ShardId>, unrouted: Vec<Topic>) -> Self {
        let mut topics = Vec::with_capacity(shards.len());
        for shard in shards {
            topics.push((shard, client.topics(shard).await.map(topics_of)));
        }
        Self { topics, unrouted: count(&client, &unrouted).await }
    }
}

fn topics_of(topics: Vec<TopicHere>) -> Vec<Topic> {
    topics.into_iter().map(|here| here.topic).collect()
}

async fn count(client: &Client, topics: &[Topic]) -> Result<u64, Error> {
    let admin = Admin::new(client.clone());
    let mut ready = 0;
    for topic in topics {
        ready += admin.count(topic).await?.ready;
    }
    Ok(ready)
}
