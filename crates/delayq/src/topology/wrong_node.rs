//! Errors about a shard that is not at the node that the map names.

use crate::error::Error;
use delayq_core::id::NodeName;
use delayq_core::shard::ShardId;

/// Until the Redis of a single-Redis deployment is named, the shards record no node.
pub(crate) fn check(shard: ShardId, at: Option<&NodeName>, recorded: Option<&NodeName>) -> Result<(), Error> {
    if at == recorded || (at.is_some() && recorded.is_none()) {
        return Ok(());
    }
    let keeper = |node: Option<&NodeName>| match node {
        Some(node) => format!("node {node} of several Redises"),
        None => "one Redis without a node's name".to_owned(),
    };
    Err(Error::Deployment(format!(
        "shard {shard} is recorded on {}, but this process has it on {}: correct [[redis.nodes]]",
        keeper(recorded),
        keeper(at)
    )))
}

pub(crate) fn elsewhere(shard: ShardId, wanted: Option<&NodeName>, found: &NodeName) -> Error {
    let wanted = wanted.map_or("nobody", NodeName::as_str);
    Error::Deployment(format!(
        "shard {shard} is on node {found}, not on node {wanted}: correct [[redis.nodes]]"
    ))
}

pub(crate) fn moving(shard: ShardId) -> Error {
    Error::Redis { code: "TRYAGAIN".to_owned(), detail: format!("shard {shard} is moving to another node") }
}
