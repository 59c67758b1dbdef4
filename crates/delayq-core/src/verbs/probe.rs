//! `probe`: commands of the scripts that this user may not call.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

/// Tries these commands, in capitals, in a shard; commands unused by scripts are skipped.
pub fn request<'c>(shard: ShardId, commands: impl IntoIterator<Item = &'c str>) -> Call {
    commands.into_iter().fold(Call::new(Verb::Probe, shard), Call::arg)
}

/// Reads the denied commands.
pub fn read(reply: Value) -> Result<Vec<String>, ReplyError> {
    let mut reply = Reply::new(Verb::Probe, reply)?;
    let mut denied = Vec::new();
    while !reply.is_empty() {
        denied.push(reply.text()?);
    }
    Ok(denied)
}
