//! The parts of a look; each fails alone.

use super::want::{Want, Which};
use crate::deployment::{Deployment, of_cluster};
use delayq::admin::{NodeFacts, Numbers, Overview, Policy, Seen, SentinelReport, ShardLayout, Unseen};
use delayq::protocol::{Layout, NodeName, ShardId, ShardRanges};
use delayq::{Admin, Error, Topic, UnixMillis};
use delayq_cluster::{EndpointHealth, Overview as Fleet};
use delayq_service::Fault;
use delayq_service::json::add_time;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The Redis servers.
#[derive(Debug)]
pub struct Servers {
    /// The facts of each node, or the error.
    pub nodes: Vec<Result<NodeFacts, Error>>,
    /// The reports of the sentinels, by node; a single Redis has no name.
    pub sentinels: Vec<(String, Vec<SentinelReport>)>,
}

/// The shards.
#[derive(Debug)]
pub struct Shards {
    /// The shards that answer, in order.
    pub seen: Vec<Shard>,
    /// This machine's clock at the answer.
    pub at: UnixMillis,
    /// The shards without an answer: a line for each node.
    pub unseen: Vec<String>,
    /// The layout of the deployment, or the error.
    pub layout: Result<Layout, Error>,
    /// The number of answering shards without a listening timer; `None`: Redis refused the question.
    pub unheard: Option<usize>,
    /// The shards that several nodes serve, with the nodes.
    pub twice: BTreeMap<ShardId, Vec<NodeName>>,
}

/// A shard that answers.
#[derive(Debug)]
pub struct Shard {
    /// The number of the shard.
    pub id: ShardId,
    /// The overview by the shard.
    pub overview: Overview,
    /// The layout that the shard knows.
    pub knows: Option<ShardLayout>,
    /// The node: a name of `[[redis.nodes]]`, or an address in a cluster; `None` for a single Redis.
    pub node: Option<String>,
}

/// The topics.
#[derive(Debug, Default)]
pub struct Topics {
    /// Every topic, by name.
    pub names: Vec<Topic>,
    /// The counts.
    pub numbers: BTreeMap<Topic, Numbers>,
    /// The policies, if wanted.
    pub policies: BTreeMap<Topic, Policy>,
}

// === impl Shard ===

impl Shard {
    /// How long the next pump has been due.
    pub fn overdue(&self) -> Duration {
        let now = self.overview.now.millis();
        self.overview.next_due.map_or(Duration::ZERO, |due| now.since(due))
    }

    /// The owner, or `nobody yet`.
    pub fn owner(&self) -> &str {
        if self.overview.owner.is_empty() { "nobody yet" } else { &self.overview.owner }
    }

    /// Number of messages.
    pub fn messages(&self) -> u64 {
        self.knows.as_ref().map_or(0, |knows| knows.messages)
    }

    /// The shard as JSON, for commands and HTTP.
    pub fn json(&self) -> Value {
        let Self { id, overview, knows, node } = self;
        let mut value = json!({
            "shard": id, "messages": self.messages(), "owner": overview.owner, "epoch": overview.epoch,
            "leases": overview.leases, "markers": overview.markers, "topics": overview.topics,
            "held": overview.held,
        });
        if let Some(node) = node {
            value["node"] = json!(node);
        }
        let counts = knows.as_ref().map_or(&[][..], |knows| knows.layout.counts());
        value["layout"] = counts.iter().map(|count| count.get()).collect();
        add_time(&mut value, "next_pump", overview.next_due);
        value
    }
}

// === impl Shards ===

impl Shards {
    /// The longest time for which a shard has been due.
    pub fn overdue(&self) -> Duration {
        self.seen.iter().map(Shard::overdue).max().unwrap_or_default()
    }

    /// Number of shards whose clock is not trusted.
    pub fn held(&self) -> usize {
        self.seen.iter().filter(|shard| shard.overview.held).count()
    }

    /// Number of shards that no timer has ever owned.
    pub fn unowned(&self) -> usize {
        self.seen.iter().filter(|shard| shard.overview.owner.is_empty()).count()
    }
}

// === impl Topics ===

impl Topics {
    /// Number of topics without a count.
    pub fn uncounted(&self) -> usize {
        self.names.len().saturating_sub(self.numbers.len())
    }

    /// The topics with ready messages, and the age of the oldest.
    pub fn ready_ages(&self, now: UnixMillis) -> impl Iterator<Item = (&Topic, Duration)> {
        let age = move |numbers: &Numbers| Some(now.since(numbers.oldest_ready?));
        self.numbers.iter().filter_map(move |(topic, numbers)| Some((topic, age(numbers)?)))
    }
}

pub(super) async fn stored(
    deployment: &Deployment,
    want: Want<'_>,
) -> (Deployment, Result<Shards, Error>, Option<Result<Topics, Error>>) {
    let seen = match deployment.admin().seen().await {
        Ok(seen) => seen,
        Err(error) => return (deployment.clone(), Err(error), None),
    };
    let at = UnixMillis::from(Timestamp::now());
    let part = deployment.limited_to(seen.admin.clone());
    let admin = part.admin();
    let (shards, topics) = tokio::join!(shards(&admin, seen, at, want), topics(&admin, want));
    (part, Ok(shards), topics)
}

async fn shards(admin: &Admin, seen: Seen, at: UnixMillis, want: Want<'_>) -> Shards {
    let Seen { overviews, unseen, .. } = seen;
    let ids: Vec<ShardId> = overviews.iter().map(|(shard, _)| *shard).collect();
    let mut unseen: Vec<String> = unseen.iter().map(line).collect();
    let mut nodes = nodes(admin, want).await;
    let mut knows = match want.layouts {
        true => admin.shards().layouts(&ids).await.into_iter(),
        false => Vec::new().into_iter(),
    };
    let mut seen = Vec::with_capacity(ids.len());
    for (id, overview) in overviews {
        let node = nodes.remove(&id);
        match knows.next().transpose() {
            Ok(knows) => seen.push(Shard { id, overview, knows: knows.flatten(), node }),
            // The shard stopped answering.
            Err(error) => unseen.push(format!("shard {id}: {error}")),
        }
    }
    let unheard = match want.listeners {
        true => admin.shards().without_listener(&ids).await.ok().map(|unheard| unheard.len()),
        false => None,
    };
    let twice = if want.servers { admin.shards().kept_twice().await } else { BTreeMap::new() };
    Shards { seen, at, unseen, layout: admin.layout().await, unheard, twice }
}

/// Empty with a single node; unknown nodes are left out.
async fn nodes(admin: &Admin, want: Want<'_>) -> BTreeMap<ShardId, String> {
    let mut nodes = BTreeMap::new();
    if want.layouts && admin.nodes().are_several() {
        for (node, shards) in admin.shards().by_node().await.unwrap_or_default() {
            nodes.extend(shards.into_iter().map(|shard| (shard, node.clone())));
        }
    }
    nodes
}

async fn topics(admin: &Admin, want: Want<'_>) -> Option<Result<Topics, Error>> {
    let counted = async {
        let mut topics = Topics { names: admin.topics().await?, ..Topics::default() };
        let wanted = match want.topics {
            Which::None => &[],
            Which::All(most) => &topics.names[..most.unwrap_or(usize::MAX).min(topics.names.len())],
            Which::Only(these) => these,
        };
        let numbers = admin.count(wanted).await?;
        topics.numbers = wanted.iter().cloned().zip(numbers).collect();
        for topic in wanted.iter().filter(|_| want.policies) {
            topics.policies.insert(topic.clone(), admin.topic(topic).policy().await?);
        }
        Ok(topics)
    };
    match want.topics {
        Which::None => None,
        _ => Some(counted.await),
    }
}

pub(super) async fn servers(deployment: &Deployment, want: Want<'_>) -> Option<Result<Servers, Error>> {
    let admin = deployment.admin();
    let both = async {
        let nodes = admin.nodes().check_each().await?;
        // Last: a doubt about a master has the sentinels asked again, and only the answers to the last question count.
        Ok(Servers { nodes, sentinels: admin.nodes().sentinels().await })
    };
    if want.servers { Some(both.await) } else { None }
}

pub(super) async fn fleet(deployment: &Deployment, want: Want<'_>) -> Option<Result<Fleet, Fault>> {
    let overview = async { deployment.observer()?.overview().await.map_err(|error| of_cluster(&error)) };
    if want.fleet && deployment.has_etcd() { Some(overview.await) } else { None }
}

pub(super) async fn etcd(
    deployment: &Deployment,
    want: Want<'_>,
) -> Option<Result<Vec<EndpointHealth>, Fault>> {
    let members = async { Ok(deployment.observer()?.health().await) };
    if want.etcd && deployment.has_etcd() { Some(members.await) } else { None }
}

/// Names shards without an answer, and the error.
fn line(Unseen { shards, error, .. }: &Unseen) -> String {
    let noun = if shards.len() == 1 { "shard" } else { "shards" };
    format!("{noun} {}: {error}", ShardRanges::from_iter(shards.iter().copied()))
}
