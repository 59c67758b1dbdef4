//! `replay`: making dead letters ready again.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::Target;
use std::collections::BTreeMap;
use std::time::Duration;

/// The outcome of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many were replayed.
    pub replayed: u64,
    /// How many stay dead, by reason: mostly those whose own expiry is not after the new due time.
    pub kept: BTreeMap<String, u64>,
}

// === impl Replayed ===

impl Replayed {
    /// How many stay dead.
    pub fn kept(&self) -> u64 {
        self.kept.values().sum()
    }

    /// Adds those of another call.
    pub fn add(&mut self, other: Self) {
        self.replayed += other.replayed;
        for (why, count) in other.kept {
            *self.kept.entry(why).or_default() += count;
        }
    }
}

/// Replays dead letters of one topic in one shard, to be ready after `delay`: at most 500.
pub fn request<'t>(
    shard: ShardId,
    topic: &Topic,
    delay: Duration,
    targets: impl IntoIterator<Item = &'t Target>,
) -> Call {
    let mut call = Call::new(Verb::Replay, shard).arg(topic.as_bytes()).number(delay.as_millis() as u64);
    targets.into_iter().for_each(|target| call.push(target.stored()));
    call
}

/// How many were replayed, and why the others were not.
///
/// # Errors
/// The script does not give such an answer.
pub fn read(reply: Value) -> Result<Replayed, ReplyError> {
    let mut reply = Reply::new(Verb::Replay, reply)?;
    let mut replayed = Replayed::default();
    while !reply.is_empty() {
        let text = reply.text()?;
        let mut words = Words::new(&text);
        match words.word() {
            "ready" | "delayed" => replayed.replayed += 1,
            "refused" | "failed" => *replayed.kept.entry(words.rest().to_owned()).or_default() += 1,
            "not" | "unknown" => {}
            _ => return Err(reply.nonsense(&text)),
        }
    }
    Ok(replayed)
}
