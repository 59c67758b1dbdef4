//! `pause_group`, `paused_groups`: pauses of single groups of a topic.

use crate::call::Call;
use crate::id::{Group, Topic};
use crate::limits::MAX_IDS_A_CALL;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::UnixMillis;

/// A paused group of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausedGroup {
    /// The group.
    pub group: Group,
    /// The time of the pause, on the clock of Redis.
    pub since: UnixMillis,
}

/// Stops these groups (1 to 500) of a topic from being reserved, or resumes them.
pub fn request<'g>(
    shard: ShardId,
    topic: &Topic,
    pauses: bool,
    groups: impl IntoIterator<Item = &'g Group>,
) -> Call {
    let word = if pauses { "pause" } else { "resume" };
    let call = Call::new(Verb::PauseGroup, shard).arg(topic.as_bytes()).arg(word);
    groups.into_iter().fold(call, |call, group| call.arg(group.as_str()))
}

/// Asks for the paused groups after `last`, the longest paused first: at most 500.
pub fn list(shard: ShardId, topic: &Topic, last: Option<&PausedGroup>) -> Call {
    let call = Call::new(Verb::PausedGroups, shard).arg(topic.as_bytes());
    let call = match last {
        None => call.arg("").arg(""),
        Some(last) => call.number(last.since.get()).arg(last.group.as_str()),
    };
    call.number(MAX_IDS_A_CALL as u64)
}

/// Reads the paused groups; fewer than 500 at the end. A name outside the rules, which no client writes, is left out.
pub fn read_list(reply: Value) -> Result<Vec<PausedGroup>, ReplyError> {
    let mut reply = Reply::new(Verb::PausedGroups, reply)?;
    let mut groups = Vec::new();
    while !reply.is_empty() {
        let (group, since) = (Group::new(reply.text()?), UnixMillis::new(reply.number()?));
        groups.extend(group.map(|group| PausedGroup { group, since }));
    }
    Ok(groups)
}
