//! `meter`: counting the calls of a caller in a window of fixed length.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use std::time::Duration;

/// Counts a call of `name`, or takes one back; `window` is at least 1 ms.
pub fn request(shard: ShardId, name: &str, takes_back: bool, window: Duration) -> Call {
    let change = if takes_back { "-1" } else { "1" };
    Call::new(Verb::Meter, shard).arg(name).arg(change).number(window.as_millis() as u64)
}

/// Reads the count of the open window.
pub fn read(reply: Value) -> Result<u64, ReplyError> {
    Reply::new(Verb::Meter, reply)?.number()
}
