//! `overview`: the state of a shard, and its topics.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::{UnixMicros, UnixMillis};
use serde::Serialize;

/// The state of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// Redis's clock.
    #[serde(skip)]
    pub now: UnixMicros,
    /// When it must be pumped next.
    pub next_due: Option<UnixMillis>,
    /// The epoch of its owner.
    pub epoch: u64,
    /// Its owner's name; empty if it never had one.
    pub owner: String,
    /// Whether it is held, because its clock is not trusted.
    pub held: bool,
    /// Leases.
    pub leases: u64,
    /// Finished ids that it remembers.
    pub markers: u64,
    /// How many topics it ever had, including deleted ones.
    pub topics: u64,
}

/// A topic in a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicHere {
    /// Its name.
    pub topic: Topic,
    /// Whether it has a ready queue there: a consumer should reserve from it.
    pub waiting: bool,
}

/// Some of the topics of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicsPage {
    /// About 500. While topics come and go, one may appear on two pages; no topic that stays is missed.
    pub topics: Vec<TopicHere>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<u64>,
}

/// Asks for the shard alone, at a constant cost.
pub fn request(shard: ShardId) -> Call {
    Call::new(Verb::Overview, shard).number(0_u64)
}

/// Asks for the shard and one page of its topics, from the end of the previous page; `None`: the first page.
pub fn topics(shard: ShardId, from: Option<u64>) -> Call {
    let call = Call::new(Verb::Overview, shard);
    match from {
        None => call.arg("first"),
        Some(cursor) => call.number(cursor),
    }
}

/// The state of the shard.
///
/// # Errors
/// The script does not give such an answer.
pub fn read(reply: Value) -> Result<Overview, ReplyError> {
    Ok(shard_of(&mut Reply::new(Verb::Overview, reply)?)?.0)
}

/// The page of topics.
///
/// # Errors
/// The script does not give such an answer.
pub fn read_topics(reply: Value) -> Result<TopicsPage, ReplyError> {
    let mut reply = Reply::new(Verb::Overview, reply)?;
    let (_, next) = shard_of(&mut reply)?;
    let mut topics = Vec::new();
    while !reply.is_empty() {
        let topic = reply.topic()?;
        topics.push(TopicHere { topic, waiting: !reply.bytes()?.is_empty() });
    }
    Ok(TopicsPage { topics, next })
}

/// The shard itself, and where the next page of its topics begins.
fn shard_of(reply: &mut Reply) -> Result<(Overview, Option<u64>), ReplyError> {
    let overview = Overview {
        now: UnixMicros(reply.number()?),
        next_due: reply.maybe_number()?.map(UnixMillis::new),
        epoch: reply.number()?,
        owner: reply.text()?,
        held: !reply.bytes()?.is_empty(),
        leases: reply.number()?,
        markers: reply.number()?,
        topics: reply.number()?,
    };
    Ok((overview, reply.maybe_number()?))
}
