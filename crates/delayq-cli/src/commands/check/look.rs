//! What a check looks at.

use crate::checked::Check;
use crate::deployment::{Context, Global};
use crate::failure::message_of;
use crate::fleet::observer;
use crate::look::seen;
use crate::sources;
use delayq::admin::{NodeFacts, Numbers, Overview};
use delayq::protocol::ShardId;
use delayq::{Admin, Error, Topic, UnixMillis};
use std::collections::BTreeMap;
use std::time::Duration;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Redis, of several the fullest, or why one cannot be used.
    pub(super) redis: Option<Result<Fullest, String>>,
    /// Every shard; nothing where Redis does not tell.
    pub(super) shards: Option<Shards>,
    /// The fleet of timers in etcd, or why it cannot be asked; `None`: etcd is not used.
    pub(super) fleet: Option<Result<Fleet, String>>,
    /// Redis's clock when the shards were seen.
    pub(super) now: Option<UnixMillis>,
    /// The numbers of each topic.
    pub(super) topics: BTreeMap<Topic, Numbers>,
    /// The outbox and the intakes.
    pub(super) sources: Vec<Check>,
}

/// The node with the least room.
#[derive(Debug)]
pub(super) struct Fullest {
    pub(super) node: NodeFacts,
    /// How many there are.
    pub(super) of: usize,
}

/// The shards together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shards {
    pub(super) count: usize,
    /// How long the one that is overdue for the longest has been due.
    pub(super) overdue: Duration,
    /// How many no timer has ever owned.
    pub(super) unowned: usize,
    /// How many are held, because their clock is not trusted.
    pub(super) held: usize,
    /// To how many no timer listens; `None` where Redis does not tell.
    pub(super) unheard: Option<usize>,
}

/// The timers that etcd knows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fleet {
    pub(super) members: usize,
    pub(super) unplanned: usize,
    /// How many members an operator keeps without shards.
    pub(super) drained: usize,
}

// === impl Look ===

impl Look {
    /// Looks at everything. What cannot be seen is missing or says why.
    pub(super) async fn take(global: &Global, context: &Context, topics: &[Topic]) -> Self {
        let (look, sources) =
            tokio::join!(Self::of_messages(context, topics), sources::look(global, context));
        Self { sources, ..look }
    }

    async fn of_messages(context: &Context, topics: &[Topic]) -> Self {
        let mut look = Self { redis: Some(fullest(&context.admin()).await), ..Self::default() };
        let looked = match seen(context).await {
            Ok((part, _)) => look.messages(&part, topics).await.map_err(|error| error.to_string()),
            Err(fault) => Err(message_of(&fault)),
        };
        // What a server says of itself comes first: it names the one that is missing.
        if let (Err(why), Some(Ok(_))) = (looked, &look.redis) {
            look.redis = Some(Err(why));
        }
        if context.config.etcd.enabled {
            look.fleet = Some(fleet(context).await);
        }
        look
    }

    async fn messages(&mut self, context: &Context, topics: &[Topic]) -> Result<(), Error> {
        let admin = context.admin();
        let overviews = admin.overview().await?;
        self.now = overviews.iter().map(|(_, one)| one.now.millis()).max();
        self.shards = Some(Shards {
            unheard: match context.config.etcd.enabled {
                true => None,
                false => unheard(&admin, &overviews).await,
            },
            ..Shards::of(&overviews)
        });
        let topics = if topics.is_empty() { admin.topics().await? } else { topics.to_vec() };
        for topic in topics {
            let numbers = admin.count(&topic).await?;
            self.topics.insert(topic, numbers);
        }
        Ok(())
    }

    /// How long ago a time was.
    pub(super) fn age(&self, since: Option<UnixMillis>) -> Option<Duration> {
        Some(self.now?.since(since?))
    }

    /// The topics with ready messages, and how long the oldest of each has waited.
    pub(super) fn ready_ages(&self) -> impl Iterator<Item = (&Topic, Duration)> {
        self.topics.iter().filter_map(|(topic, numbers)| Some((topic, self.age(numbers.oldest_ready)?)))
    }

    pub(super) fn overdue_ms(&self) -> Option<u64> {
        self.shards.as_ref().map(|shards| shards.overdue.as_millis() as u64)
    }
}

// === impl Shards ===

impl Shards {
    fn of(overviews: &[(ShardId, Overview)]) -> Self {
        let overdue = |one: &Overview| one.next_due.map_or(Duration::ZERO, |due| one.now.millis().since(due));
        Self {
            count: overviews.len(),
            overdue: overviews.iter().map(|(_, one)| overdue(one)).max().unwrap_or_default(),
            unowned: overviews.iter().filter(|(_, one)| one.owner.is_empty()).count(),
            held: overviews.iter().filter(|(_, one)| one.held).count(),
            unheard: None,
        }
    }
}

async fn fullest(admin: &Admin) -> Result<Fullest, String> {
    let nodes = admin.check_nodes().await.map_err(|error| error.to_string())?;
    let of = nodes.len();
    let fullest = nodes.into_iter().max_by_key(fullness);
    fullest.map(|node| Fullest { node, of }).ok_or_else(|| "it has no nodes".to_owned())
}

/// How many thousandths of its limit a node uses, if it has one, and how many bytes that is.
fn fullness(NodeFacts { facts, .. }: &NodeFacts) -> (u64, u64) {
    let used = facts.used_memory_bytes;
    (used.saturating_mul(1000).checked_div(facts.maxmemory_bytes).unwrap_or(0), used)
}

async fn unheard(admin: &Admin, overviews: &[(ShardId, Overview)]) -> Option<usize> {
    let shards: Vec<ShardId> = overviews.iter().map(|(shard, _)| *shard).collect();
    admin.shards_without_listener(&shards).await.ok().map(|unheard| unheard.len())
}

async fn fleet(context: &Context) -> Result<Fleet, String> {
    let observer = observer(&context.config).map_err(|fault| fault.to_string())?;
    let overview = observer.overview().await.map_err(|error| error.to_string())?;
    let drained = overview.members.iter().filter(|member| member.drained).count();
    Ok(Fleet { members: overview.members.len(), unplanned: overview.unplanned.len(), drained })
}
