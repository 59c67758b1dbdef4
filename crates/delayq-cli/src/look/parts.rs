//! The parts of a look, each with its own way to fail.

use super::{Want, Which, line};
use crate::deployment::{Context, of_cluster};
use crate::fleet::observer;
use delayq::admin::{NodeFacts, Numbers, Overview, Policy, Seen, SentinelReport, ShardLayout};
use delayq::protocol::{Layout, NodeName, ShardId};
use delayq::{Admin, Error, Topic, UnixMillis};
use delayq_cluster::{EndpointHealth, Overview as Fleet};
use delayq_service::Fault;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Redis's servers.
#[derive(Debug)]
pub struct Servers {
    /// What each node says of itself, or why it cannot be used now.
    pub nodes: Vec<Result<NodeFacts, Error>>,
    /// What the sentinels of a node say; of several Redises with the node's name.
    pub sentinels: Vec<(String, Vec<SentinelReport>)>,
}

/// The shards.
#[derive(Debug)]
pub struct Shards {
    /// Those that answer, in order.
    pub seen: Vec<Shard>,
    /// This machine's clock when they did.
    pub at: UnixMillis,
    /// Those that do not, a line for each node.
    pub unseen: Vec<String>,
    /// The deployment's layout, or why it is not known.
    pub layout: Result<Layout, Error>,
    /// To how many of those that answer no timer listens; `None` where Redis does not tell.
    pub unheard: Option<usize>,
    /// Those that more than one node serves, with these nodes.
    pub twice: BTreeMap<ShardId, Vec<NodeName>>,
}

/// A shard that answers.
#[derive(Debug)]
pub struct Shard {
    /// Which one.
    pub id: ShardId,
    /// What it says of itself.
    pub overview: Overview,
    /// What it knows of the deployment.
    pub knows: Option<ShardLayout>,
    /// Which of several nodes has it: of several Redises the name, of a cluster the address.
    pub node: Option<String>,
}

/// The topics.
#[derive(Debug, Default)]
pub struct Topics {
    /// Every topic, by name.
    pub names: Vec<Topic>,
    /// Those that were counted.
    pub numbers: BTreeMap<Topic, Numbers>,
    /// Their policies, where those were wanted.
    pub policies: BTreeMap<Topic, Policy>,
}

// === impl Shard ===

impl Shard {
    /// How long its next pump has been due.
    pub fn overdue(&self) -> Duration {
        let now = self.overview.now.millis();
        self.overview.next_due.map_or(Duration::ZERO, |due| now.since(due))
    }

    /// Its owner; before the first one, that there is none.
    pub fn owner(&self) -> &str {
        if self.overview.owner.is_empty() { "nobody yet" } else { &self.overview.owner }
    }

    /// How many messages it holds.
    pub fn messages(&self) -> u64 {
        self.knows.as_ref().map_or(0, |knows| knows.messages)
    }
}

// === impl Shards ===

impl Shards {
    /// How long the shard has been due that has been so for the longest.
    pub fn overdue(&self) -> Duration {
        self.seen.iter().map(Shard::overdue).max().unwrap_or_default()
    }

    /// How many shards are held, because their clock is not trusted.
    pub fn held(&self) -> usize {
        self.seen.iter().filter(|shard| shard.overview.held).count()
    }

    /// How many shards no timer has ever owned.
    pub fn unowned(&self) -> usize {
        self.seen.iter().filter(|shard| shard.overview.owner.is_empty()).count()
    }
}

// === impl Topics ===

impl Topics {
    /// How many topics were not counted.
    pub fn uncounted(&self) -> usize {
        self.names.len().saturating_sub(self.numbers.len())
    }

    /// The topics with ready messages, and how long the oldest of each has waited.
    pub fn ready_ages(&self, now: UnixMillis) -> impl Iterator<Item = (&Topic, Duration)> {
        let age = move |numbers: &Numbers| Some(now.since(numbers.oldest_ready?));
        self.numbers.iter().filter_map(move |(topic, numbers)| Some((topic, age(numbers)?)))
    }
}

/// What Redis stores: the part that answers, its shards and its topics.
pub(super) async fn stored(
    context: &Context,
    want: Want<'_>,
) -> (Context, Result<Shards, Error>, Option<Result<Topics, Error>>) {
    let seen = match context.admin().seen().await {
        Ok(seen) => seen,
        Err(error) => return (context.clone(), Err(error), None),
    };
    let at = UnixMillis::from(Timestamp::now());
    let part = context.limited_to(seen.admin.clone());
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
        true => admin.shard_layouts(&ids).await.into_iter(),
        false => Vec::new().into_iter(),
    };
    let mut seen = Vec::with_capacity(ids.len());
    for (id, overview) in overviews {
        let node = nodes.remove(&id);
        match knows.next().transpose() {
            Ok(knows) => seen.push(Shard { id, overview, knows: knows.flatten(), node }),
            // It stopped answering.
            Err(error) => unseen.push(format!("shard {id}: {error}")),
        }
    }
    let unheard = match want.listeners {
        true => admin.shards_without_listener(&ids).await.ok().map(|unheard| unheard.len()),
        false => None,
    };
    let twice = if want.servers { admin.shards_kept_twice().await } else { BTreeMap::new() };
    Shards { seen, at, unseen, layout: admin.layout().await, unheard, twice }
}

/// The node of each shard, where there are several; without those that nothing is known of.
async fn nodes(admin: &Admin, want: Want<'_>) -> BTreeMap<ShardId, String> {
    let mut nodes = BTreeMap::new();
    if want.layouts && admin.has_nodes() {
        for (node, shards) in admin.shards_by_node().await.unwrap_or_default() {
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
        for topic in wanted {
            topics.numbers.insert(topic.clone(), admin.count(topic).await?);
            if want.policies {
                topics.policies.insert(topic.clone(), admin.policy(topic).await?);
            }
        }
        Ok(topics)
    };
    match want.topics {
        Which::None => None,
        _ => Some(counted.await),
    }
}

pub(super) async fn servers(context: &Context, want: Want<'_>) -> Option<Result<Servers, Error>> {
    let admin = context.admin();
    let both = async {
        let nodes = admin.check_each_node().await?;
        // At last: whatever doubts a master has its sentinels asked again, and only answers to the last question count.
        Ok(Servers { nodes, sentinels: admin.sentinels().await })
    };
    if want.servers { Some(both.await) } else { None }
}

pub(super) async fn fleet(context: &Context, want: Want<'_>) -> Option<Result<Fleet, Fault>> {
    let overview = async { observer(&context.config)?.overview().await.map_err(|error| of_cluster(&error)) };
    if want.fleet && context.config.etcd.enabled { Some(overview.await) } else { None }
}

pub(super) async fn etcd(context: &Context, want: Want<'_>) -> Option<Result<Vec<EndpointHealth>, Fault>> {
    let members = async { Ok(observer(&context.config)?.health().await) };
    if want.etcd && context.config.etcd.enabled { Some(members.await) } else { None }
}
