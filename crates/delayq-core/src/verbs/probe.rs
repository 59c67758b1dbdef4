//! `probe`: which commands of the scripts this user may not call.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

/// Tries these commands in a shard, in capitals; those that no script uses are passed over.
pub fn request<'c>(shard: ShardId, commands: impl IntoIterator<Item = &'c str>) -> Call {
    commands.into_iter().fold(Call::new(Verb::Probe, shard), Call::arg)
}

/// The commands that are denied.
///
/// # Errors
/// The script does not give such an answer.
pub fn read(reply: Value) -> Result<Vec<String>, ReplyError> {
    let mut reply = Reply::new(Verb::Probe, reply)?;
    let mut denied = Vec::new();
    while !reply.is_empty() {
        denied.push(reply.text()?);
    }
    Ok(denied)
}
