//! `settled`: forgetting the answers to recorded writes, once their sources have noted the answers.

use crate::call::Call;
use crate::record::RecordId;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

/// Forgets the answers to records in one shard: at most 500.
pub fn request(shard: ShardId, records: impl IntoIterator<Item = RecordId>) -> Call {
    records
        .into_iter()
        .fold(Call::new(Verb::Settled, shard), |call, record| call.arg(record.to_string().as_bytes()))
}

/// Reads the number of answers that were still kept.
pub fn read(reply: Value) -> Result<u64, ReplyError> {
    Reply::new(Verb::Settled, reply)?.number()
}
