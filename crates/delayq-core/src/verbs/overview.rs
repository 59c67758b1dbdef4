//! `overview`: the state of a shard, and its topics.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value, Words};
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
    /// Time of the next pump.
    pub next_due: Option<UnixMillis>,
    /// The owner's epoch.
    pub epoch: u64,
    /// The owner's name; empty before the first claim.
    pub owner: String,
    /// True if the shard is held, because the clock is not trusted.
    pub held: bool,
    /// Leases.
    pub leases: u64,
    /// Remembered ids of finished messages.
    pub markers: u64,
    /// Total topics so far, including deleted ones.
    pub topics: u64,
    /// Set if a pump found that Redis had come back with older data.
    #[serde(skip)]
    pub older: Option<Older>,
}

/// Older data with which Redis came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Older {
    /// The time that the data is from, or an earlier one: writes after it may be missing. Zero: unknown.
    pub since: UnixMillis,
    /// The time at which a pump found the data: writes after it are there.
    pub noticed: UnixMillis,
}

/// A topic in a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicHere {
    /// The name.
    pub topic: Topic,
    /// True if the topic has a ready queue there: a consumer should reserve from it.
    pub waiting: bool,
}

/// Some of the topics of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicsPage {
    /// About 500. While topics come and go, a topic may appear on two pages; no lasting topic is missed.
    pub topics: Vec<TopicHere>,
    /// The start of the next page; `None` after the last.
    pub next: Option<u64>,
}

/// Asks for the shard alone, at a constant cost.
pub fn request(shard: ShardId) -> Call {
    Call::new(Verb::Overview, shard).number(0_u64)
}

/// Asks for the shard and a page of its topics, from the end of the previous page; `None`: the first page.
pub fn topics(shard: ShardId, from: Option<u64>) -> Call {
    let call = Call::new(Verb::Overview, shard);
    match from {
        None => call.arg("first"),
        Some(cursor) => call.number(cursor),
    }
}

/// Reads the state of the shard.
pub fn read(reply: Value) -> Result<Overview, ReplyError> {
    Ok(shard_of(&mut Reply::new(Verb::Overview, reply)?)?.0)
}

/// Reads the page of topics.
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

/// The shard itself, and the start of the next page of topics.
fn shard_of(reply: &mut Reply) -> Result<(Overview, Option<u64>), ReplyError> {
    let mut overview = Overview {
        now: UnixMicros(reply.number()?),
        next_due: reply.maybe_number()?.map(UnixMillis::new),
        epoch: reply.number()?,
        owner: reply.text()?,
        held: !reply.bytes()?.is_empty(),
        leases: reply.number()?,
        markers: reply.number()?,
        topics: reply.number()?,
        older: None,
    };
    let next = reply.maybe_number()?;
    let text = reply.text()?;
    let mut words = Words::new(&text);
    if let (Ok(since), Some(noticed)) = (words.word().parse(), words.number()) {
        let [since, noticed] = [since, noticed].map(UnixMillis::new);
        overview.older = Some(Older { since, noticed });
    }
    Ok((overview, next))
}
