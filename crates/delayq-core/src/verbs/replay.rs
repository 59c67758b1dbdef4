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
    /// Number of replayed messages.
    pub replayed: u64,
    /// Number of messages that stay dead, by reason: usually an expiry before the new due time.
    pub kept: BTreeMap<String, u64>,
}

/// New terms of replayed messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayTerms {
    /// Maximum attempts, at least 1.
    pub max_attempts: u16,
    /// Expiry after the replay, at least 1 ms; `None`: never.
    pub expires_after: Option<Duration>,
}

// === impl Replayed ===

impl Replayed {
    /// Number of messages that stay dead.
    pub fn kept(&self) -> u64 {
        self.kept.values().sum()
    }

    /// Adds the counts of another call.
    pub fn add(&mut self, other: Self) {
        self.replayed += other.replayed;
        for (why, count) in other.kept {
            *self.kept.entry(why).or_default() += count;
        }
    }
}

/// Replays dead letters of one topic in one shard, to be ready after `delay`: at most 500. `terms` replace their own.
pub fn request<'t>(
    shard: ShardId,
    topic: &Topic,
    delay: Duration,
    terms: Option<ReplayTerms>,
    targets: impl IntoIterator<Item = &'t Target>,
) -> Call {
    let mut life = delay.as_millis().to_string();
    if let Some(ReplayTerms { max_attempts, expires_after }) = terms {
        let expires_ms = expires_after.map_or(0, |after| after.as_millis());
        life = format!("{life} {max_attempts} {expires_ms}");
    }
    let mut call = Call::new(Verb::Replay, shard).arg(topic.as_bytes()).arg(life);
    targets.into_iter().for_each(|target| call.push(target.stored()));
    call
}

/// Reads the counts, with reasons for the rest.
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
