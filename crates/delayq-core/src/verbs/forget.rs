//! `forget`, `forget_quiet`: deleting topics that hold nothing from one shard.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use std::time::Duration;

/// The outcome of deleting a topic in one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// It was deleted; if only checked, it holds nothing.
    Empty,
    /// It does not exist.
    Unknown,
    /// It was not deleted, because it holds this.
    Kept(String),
}

/// The unused topics of one page that were forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgottenTopics {
    /// Where the next page begins; 0: with the first again.
    pub next: u64,
    /// Their names.
    pub topics: Vec<Topic>,
}

/// Deletes the topic from the shard; with `look`, only asks for the outcome.
pub fn request(shard: ShardId, topic: &Topic, look: bool) -> Call {
    Call::new(Verb::Forget, shard).arg(topic.as_bytes()).arg(if look { "look" } else { "forget" })
}

/// The outcome.
///
/// # Errors
/// The script does not give such an answer.
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

/// Forgets the unused topics of one page of a shard, from where it begins: those that have no settings of their own and
/// have been empty and without a put for `quiet`.
pub fn quiet(shard: ShardId, from: u64, quiet: Duration) -> Call {
    Call::new(Verb::ForgetQuiet, shard).number(from).number(quiet.as_millis() as u64)
}

/// The forgotten topics, and where the next page begins.
///
/// # Errors
/// The script does not give such an answer.
pub fn read_quiet(reply: Value) -> Result<ForgottenTopics, ReplyError> {
    let mut reply = Reply::new(Verb::ForgetQuiet, reply)?;
    let mut forgotten = ForgottenTopics { next: reply.number()?, topics: Vec::new() };
    while !reply.is_empty() {
        forgotten.topics.push(reply.topic()?);
    }
    Ok(forgotten)
}
