//! One look at the deployment: Redis's shards and topics, and what the processes export.

use crate::deployment::Context;
use crate::endpoints::known;
use crate::exposition::Exposition;
use crate::look::seen;
use delayq::admin::{Numbers, Overview};
use delayq::protocol::ShardId;
use delayq::{Error, Topic, UnixMillis};
use delayq_service::config::HostPort;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::time::Instant;

/// At most so many topics are counted at each look: a count asks every shard.
pub(super) const TOPICS: usize = 100;

/// What was seen at one moment.
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) shards: Result<Vec<Shard>, String>,
    pub(super) topics: Result<BTreeMap<Topic, Numbers>, String>,
    /// How many topics were not counted.
    pub(super) uncounted: usize,
    /// Shards that did not answer, a line for each node.
    pub(super) unseen: Vec<String>,
    pub(super) processes: Vec<Process>,
    /// Why the registrations could not be read.
    pub(super) unregistered: Option<String>,
}

/// A shard: what it says of itself, and how many messages it holds.
pub(super) struct Shard {
    pub(super) id: ShardId,
    pub(super) overview: Overview,
    pub(super) messages: u64,
}

/// A process: what it exports, or why it does not answer.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) exported: Result<Exposition, String>,
    pub(super) ready: bool,
}

// === impl Sample ===

impl Sample {
    /// Looks. Costs Redis three short scripts a shard, and one more for each topic and shard.
    pub(super) async fn take(context: &Context, endpoints: &[HostPort]) -> Self {
        let at = Instant::now();
        let (part, unseen) = match seen(context).await {
            Ok(seen) => seen,
            // Each of them says so itself.
            Err(_) => (context.clone(), Vec::new()),
        };
        let (shards, topics, processes) =
            tokio::join!(shards(&part), topics(&part), processes(context, endpoints));
        let (topics, uncounted) = topics
            .map_or_else(|error| (Err(error.to_string()), 0), |(topics, uncounted)| (Ok(topics), uncounted));
        let (processes, unregistered) = processes;
        let shards = shards.map_err(|error| error.to_string());
        Self { at, shards, topics, uncounted, unseen, processes, unregistered }
    }

    /// What of Redis and etcd is missing, a line each.
    pub(super) fn missing(&self) -> Vec<String> {
        let shards = self.shards.as_ref().err().map(|why| format!("shards: {why}"));
        let topics = self.topics.as_ref().err().map(|why| format!("topics: {why}"));
        let processes = self.unregistered.as_ref().map(|why| format!("processes: {why}"));
        shards.into_iter().chain(topics).chain(self.unseen.iter().cloned()).chain(processes).collect()
    }

    /// Redis's clock, of the shards; zero where none was seen.
    pub(super) fn clock(&self) -> UnixMillis {
        let shards = self.shards.iter().flatten();
        shards.map(|shard| shard.overview.now.millis()).max().unwrap_or(UnixMillis::new(0))
    }
}

async fn shards(context: &Context) -> Result<Vec<Shard>, Error> {
    let admin = context.admin();
    let overviews = admin.overview().await?;
    let ids: Vec<ShardId> = overviews.iter().map(|(shard, _)| *shard).collect();
    let layouts = admin.shard_layouts(&ids).await;
    let shards = overviews.into_iter().zip(layouts).map(|((id, overview), layout)| {
        let messages = layout?.map_or(0, |layout| layout.messages);
        Ok(Shard { id, overview, messages })
    });
    shards.collect()
}

async fn topics(context: &Context) -> Result<(BTreeMap<Topic, Numbers>, usize), Error> {
    let admin = context.admin();
    let topics = admin.topics().await?;
    let uncounted = topics.len().saturating_sub(TOPICS);
    let mut counted = BTreeMap::new();
    for topic in topics.into_iter().take(TOPICS) {
        let numbers = admin.count(&topic).await?;
        counted.insert(topic, numbers);
    }
    Ok((counted, uncounted))
}

async fn processes(context: &Context, given: &[HostPort]) -> (Vec<Process>, Option<String>) {
    let (endpoints, unregistered) = known(&context.config, given).await;
    let processes = endpoints.into_iter().map(|endpoint| async move {
        let (metrics, ready) = tokio::join!(endpoint.get("/metrics"), endpoint.get("/readyz"));
        Process {
            exported: metrics.map(|text| Exposition::read(&text)),
            ready: ready.is_ok_and(|answer| answer.contains("\"ready\":true")),
            name: endpoint.name,
        }
    });
    (join_all(processes).await, unregistered)
}
