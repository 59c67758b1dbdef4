//! `recount`: counting a topic's messages in a shard, and correcting its counters.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

/// The result of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Ready, leased, accepted: the counter, and the true number.
    All([(i64, i64); 3]),
    /// Too many leases or buckets to count in one step.
    Crowded,
    /// The topic changed between two steps.
    Changed,
}

/// The position of a count in several steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recount {
    mark: String,
    passed: u64,
    ready: u64,
}

/// One step; with `mend`, the last step corrects the counters.
pub fn request(shard: ShardId, topic: &Topic, mend: bool, at: &Recount) -> Call {
    let call = Call::new(Verb::Recount, shard).arg(topic.as_bytes()).arg(if mend { "mend" } else { "look" });
    call.arg(&at.mark).number(at.passed).number(at.ready)
}

/// Reads the result; `None`: the next step begins at the new `at`.
pub fn read(reply: Value, at: &mut Recount) -> Result<Option<Counted>, ReplyError> {
    let mut reply = Reply::new(Verb::Recount, reply)?;
    let word = reply.text()?;
    *at = Recount { mark: reply.text()?, passed: reply.number()?, ready: reply.number()? };
    let mut pair = || Ok::<_, ReplyError>((reply.signed()?, reply.signed()?));
    match word.as_str() {
        "more" => Ok(None),
        "changed" => Ok(Some(Counted::Changed)),
        "crowded" => Ok(Some(Counted::Crowded)),
        "counted" => Ok(Some(Counted::All([pair()?, pair()?, pair()?]))),
        other => Err(ReplyError::new(Verb::Recount, other)),
    }
}
