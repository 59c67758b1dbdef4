//! `forget`, `forget_quiet`: deleting empty topics from a shard.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use std::time::Duration;

/// The outcome of deleting a topic in one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Deleted; after a mere check, empty.
    Empty,
    /// The topic does not exist.
    Unknown,
    /// Not deleted, because it holds this.
    Kept(String),
}

/// The unused topics of one page that were deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgottenTopics {
    /// The start of the next page; 0: the first again.
    pub next: u64,
    /// The topics.
    pub topics: Vec<Topic>,
}

/// Deletes the topic from the shard; with `look`, only checks.
pub fn request(shard: ShardId, topic: &Topic, look: bool) -> Call {
    Call::new(Verb::Forget, shard).arg(topic.as_bytes()).arg(if look { "look" } else { "forget" })
}

/// Reads the outcome.
pub fn read(reply: Value) -> Result<Forgotten, ReplyError> {
    let text = Reply::text_of(Verb::Forget, reply)?;
    let mut words = Words::new(&text);
    match words.word() {
        "empty" | "forgotten" => Ok(Forgotten::Empty),
        "unknown" => Ok(Forgotten::Unknown),
        "kept" => Ok(Forgotten::Kept(words.rest().to_owned())),
        _ => Err(ReplyError::new(Verb::Forget, &text)),
    }
}

/// Deletes the unused topics of a page of a shard: topics without settings that have been empty and without a put for
/// `quiet`.
pub fn quiet(shard: ShardId, from: u64, quiet: Duration) -> Call {
    Call::new(Verb::ForgetQuiet, shard).number(from).number(quiet.as_millis() as u64)
}

/// Reads the deleted topics, and the start of the next page.
pub fn read_quiet(reply: Value) -> Result<ForgottenTopics, ReplyError> {
    let mut reply = Reply::new(Verb::ForgetQuiet, reply)?;
    let mut forgotten = ForgottenTopics { next: reply.number()?, topics: Vec::new() };
    while !reply.is_empty() {
        forgotten.topics.push(reply.topic()?);
    }
    Ok(forgotten)
}
