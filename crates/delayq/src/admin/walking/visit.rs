//! The nodes that a walk visits, and the check that a shard stayed at a node all the time.

use super::cursor::Visit;
use crate::admin::Admin;
use crate::error::Error;
use crate::link::Link;
use crate::topology::moving;
use delayq_core::call::Call;
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::{self, Asked};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Begins with the next node that has unfinished shards; `None`: all shards are finished.
pub(super) async fn next_visit(
    admin: &Admin,
    through: &BTreeSet<ShardId>,
) -> Result<Option<(Arc<Link>, Visit)>, Error> {
    let calls = &admin.client.calls;
    let left: Vec<ShardId> =
        admin.shards().all().into_iter().filter(|shard| !through.contains(shard)).collect();
    let mut there = Vec::new();
    for (&shard, found) in left.iter().zip(calls.shard_layouts(&left).await) {
        match found {
            Ok(found) => {
                let found = found.ok_or(Error::Uninitialised(shard))?;
                // A growth may be in progress.
                calls.shared_layout().learn(&found.layout);
                there.push(shard);
            }
            Err(error) if is_on_its_way(&error) => {}
            Err(error) => return Err(error),
        }
    }
    for (link, shards) in calls.by_node(&there).await? {
        let state = state_of(admin, &link).await?;
        let shards = whole_at(admin, &link, &shards.into_iter().collect()).await?;
        if !shards.is_empty() {
            return Ok(Some((link, Visit { state, cursor: 0, shards })));
        }
    }
    left.first().map_or(Ok(None), |&shard| Err(moving(shard)))
}

/// Returns the node of a visit, if a node is still in that state.
pub(super) async fn found_again(admin: &Admin, visit: Visit) -> Result<Option<(Arc<Link>, Visit)>, Error> {
    let shards: Vec<ShardId> = visit.shards.iter().copied().collect();
    for (link, _) in admin.client.calls.by_node(&shards).await? {
        if state_of(admin, &link).await? == visit.state {
            return Ok(Some((link, visit)));
        }
    }
    Ok(None)
}

/// Returns the shards that this node has with all keys.
pub(super) async fn whole_at(
    admin: &Admin,
    link: &Link,
    shards: &BTreeSet<ShardId>,
) -> Result<BTreeSet<ShardId>, Error> {
    let asking: Vec<Call> = shards.iter().map(|&shard| deployment::ask(shard)).collect();
    let mut whole = BTreeSet::new();
    for (&shard, reply) in shards.iter().zip(admin.client.calls.send_at(link, asking).await) {
        match reply.and_then(|reply| Ok(deployment::read_asked(reply, shard)?)) {
            Ok(Asked::Here(_)) => {
                whole.insert(shard);
            }
            Ok(_) => {}
            Err(error) if is_on_its_way(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(whole)
}

/// Returns a state that changes if the node is replaced by another process, even if the former process returns
/// later, and if a cluster node is given a slot.
pub(super) async fn state_of(admin: &Admin, link: &Link) -> Result<String, Error> {
    let info: String = link.query("INFO", &redis::cmd("INFO")).await?;
    let run_id = field(&info, "run_id");
    if run_id.is_empty() {
        return Err(Error::Unfit("no run_id in the reply to INFO".to_owned()));
    }
    let process = [run_id, field(&info, "master_replid")].join("/");
    if !admin.nodes().is_cluster() {
        return Ok(process);
    }
    let info: String = link.query("CLUSTER INFO", redis::cmd("CLUSTER").arg("INFO")).await?;
    Ok([&process, field(&info, "cluster_my_epoch")].join("/"))
}

/// Returns a field of a node's report; empty if missing.
fn field<'t>(text: &'t str, name: &str) -> &'t str {
    let value = |line: &'t str| line.trim().strip_prefix(name)?.strip_prefix(':');
    text.lines().find_map(value).unwrap_or_default()
}

/// Returns true if a call was refused because the shard is leaving the node, or has left.
pub(super) fn is_on_its_way(error: &Error) -> bool {
    matches!(error, Error::Redis { code, .. } if ["ASK", "MOVED", "TRYAGAIN"].contains(&code.as_str()))
}
