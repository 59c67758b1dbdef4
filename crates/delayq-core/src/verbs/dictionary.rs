//! `dictionary`: the dictionaries for compressing payloads.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

/// Stores a dictionary in the deployment's first shard, or reads it if `bytes` is empty.
pub fn request(id: u32, bytes: &[u8]) -> Call {
    Call::new(Verb::Dictionary, ShardId::new(0)).number(id).arg(bytes)
}

/// Reads the dictionary, if present.
pub fn read(reply: Value) -> Result<Option<Vec<u8>>, ReplyError> {
    let found = Reply::new(Verb::Dictionary, Value::Array(vec![reply]))?.bytes()?;
    Ok(Some(found).filter(|bytes| !bytes.is_empty()))
}
