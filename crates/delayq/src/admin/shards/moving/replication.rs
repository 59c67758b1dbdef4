//! Checks that a node is a replica of another node, and promotes the replica.

use crate::error::Error;
use crate::link::Link;
use delayq_core::id::NodeName;
use std::collections::HashMap;
use std::sync::Arc;

/// The replication and persistence state of a Redis.
pub(super) struct Replication(HashMap<String, String>);

// === impl Replication ===

impl Replication {
    async fn of(link: &Link) -> Result<Self, Error> {
        let text: String = link.query("INFO", &redis::cmd("INFO")).await?;
        let fields = text.lines().filter_map(|line| line.trim().split_once(':'));
        Ok(Self(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    fn says(&self, name: &str, value: &str) -> bool {
        self.0.get(name).is_some_and(|said| said == value)
    }

    fn is_replica(&self) -> bool {
        self.says("role", "slave")
    }

    /// Returns the reason why this node, the intended replica, cannot take shards over from the old node.
    fn objection(&self, old: &Self) -> Option<&'static str> {
        let same = |name| self.0.get(name) == old.0.get(name);
        Some(match () {
            () if old.is_replica() => "the node with the shards is itself a replica",
            () if !self.is_replica() => {
                "is not a replica of that node (REPLICAOF makes it one, and deletes \
                 its data)"
            }
            () if !same("master_replid") => "is a replica of another Redis",
            () if !self.says("slave_read_only", "1") => "accepts writes as a replica (set replica-read-only)",
            () if !self.says("master_link_status", "up") => {
                "has lost the connection to that node, or is still copying"
            }
            () if !same("aof_enabled") => "differs in appendonly",
            () if !self.says("maxmemory_policy", "noeviction") => {
                "has a maxmemory-policy other than noeviction"
            }
            () => return None,
        })
    }
}

/// Checks that the new node can take shards over from the old node. Returns true if the new node still is a replica.
/// `begins`: true if any shard is yet to be fenced, which requires a replica.
pub(super) async fn check(
    old: &Arc<Link>,
    new: &Arc<Link>,
    from: &NodeName,
    to: &NodeName,
    begins: bool,
) -> Result<bool, Error> {
    for (link, name) in [(old, from), (new, to)] {
        if link.sentinels().await.is_some() {
            return Err(Error::Move(format!(
                "node {name} is watched by sentinels, which would make node {to} a replica again: while \
                 shards move, configure the node's own address, and remove it from the sentinels (SENTINEL \
                 REMOVE)"
            )));
        }
    }
    let (of_old, of_new) = (Replication::of(old).await?, Replication::of(new).await?);
    match of_new.objection(&of_old) {
        Some(why) if begins || of_new.is_replica() => {
            Err(Error::Move(format!("node {to}, seen from node {from}: {why}")))
        }
        _ if of_new.is_replica() => try_promotion(new, &of_new, to).await.map(|()| true),
        _ => Ok(false),
    }
}

/// A promotion that is denied after the fence would leave the shards without a node, so the command is tried before,
/// with the present master: that changes nothing.
async fn try_promotion(new: &Link, of_new: &Replication, to: &NodeName) -> Result<(), Error> {
    let [host, port] =
        ["master_host", "master_port"].map(|name| of_new.0.get(name).cloned().unwrap_or_default());
    match new.run(redis::cmd("REPLICAOF").arg(host).arg(port)).await {
        Err(Error::Redis { code, detail }) if code == "NOPERM" => {
            Err(Error::Move(format!("node {to} cannot be promoted: {detail}: allow +replicaof there")))
        }
        answer => answer.map(drop),
    }
}

/// Promotes a node, if the node is a replica. Returns the reason if the promotion could not be written to the
/// configuration file: the next start would make the node a replica again.
pub(super) async fn promote(new: &Arc<Link>) -> Result<Option<String>, Error> {
    if Replication::of(new).await?.is_replica() {
        new.run(redis::cmd("REPLICAOF").arg("NO").arg("ONE")).await?;
    }
    Ok(new.run(redis::cmd("CONFIG").arg("REWRITE")).await.err().map(|error| error.to_string()))
}
