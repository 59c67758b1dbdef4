//! Checks that a Redis is fit to keep messages: before serving, and regularly afterwards.

use crate::calls::{AtNode, Calls};
use crate::error::Error;
use crate::link::Link;
use crate::listen::try_listening;
use crate::role::Role;
use delayq_core::durability::Durability;
use delayq_core::id::NodeName;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMicros;
use delayq_core::verbs::probe;
use futures_util::future::join_all;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The oldest Redis with the features that the scripts need (flags of scripts, sharded pub/sub).
const OLDEST: (u64, u64) = (7, 0);
const MASTER: &str = "master";

/// The oldest Redis with WAITAOF. Every Valkey reports this version or a newer version.
const WAITAOF: (u64, u64) = (7, 2);

/// A replica that has confirmed nothing for so many seconds confirms no write in time.
const SILENT_S: u64 = 5;

/// The state that a Redis reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ServerFacts {
    /// Identifies this process of Redis.
    pub run_id: String,
    /// The version; a Valkey reports the compatible Redis version.
    pub version: String,
    /// `master`, or `slave`.
    pub role: String,
    /// The policy for full memory; must be `noeviction`.
    pub maxmemory_policy: String,
    /// The memory limit in bytes; 0: none.
    pub maxmemory_bytes: u64,
    /// The memory in use, in bytes.
    pub used_memory_bytes: u64,
    /// True if Redis writes an append-only file.
    pub aof: bool,
    /// True if Redis still writes to the append-only file that was loaded when Redis started. If a crash had torn the
    /// end of the file, the beginning of a transaction may stand open there: the next start runs that transaction, or
    /// drops all later writes. BGREWRITEAOF replaces the file. Redis does not report a torn file.
    pub aof_as_loaded: bool,
    /// True if the server is part of a Redis Cluster.
    pub cluster: bool,
    /// The number of replicas that follow.
    pub replicas: u64,
    /// The number of replicas that have confirmed nothing for seconds: a replica confirms each second.
    pub silent_replicas: u64,
    /// The number of replicas close enough to count for `min-replicas-to-write`. `None`: the setting is missing, and a
    /// master that is cut off continues to take writes.
    pub min_replicas_seen: Option<u64>,
}

/// The reported state and the shards of a Redis: the only Redis, a configured node, or a node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NodeFacts {
    /// The name of the node among several Redises.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<NodeName>,
    /// The address.
    pub address: String,
    /// The shards of the node, as far as the number of all shards is known.
    pub shards: Vec<ShardId>,
    /// The state that the node reports.
    pub facts: ServerFacts,
}

/// Checks that the server would lose no message and denies no command that the role needs, and that an existing
/// deployment is the configured deployment. Checks each of several Redises, and each master of a cluster. A node that
/// cannot be reached is only reported if the other nodes have no worse problem. Each check costs about a millisecond
/// and a short connection.
///
/// # Errors
/// [`Error::Unfit`] names the setting and the remedy; [`Error::Deployment`] if the deployment never had the configured
/// number of shards; other errors if the server cannot be reached.
pub(crate) async fn check(calls: &Calls, role: Option<Role>) -> Result<Vec<NodeFacts>, Error> {
    check_each(calls, role).await?.into_iter().collect()
}

/// Like [`check`], but skips unreachable nodes as long as another node can be used.
pub(crate) async fn check_usable(calls: &Calls, role: Option<Role>) -> Result<Vec<NodeFacts>, Error> {
    let (mut usable, mut outage) = (Vec::new(), None);
    for node in check_each(calls, role).await? {
        match node {
            Ok(facts) => usable.push(facts),
            Err(error) => outage = outage.or(Some(error)),
        }
    }
    match outage {
        Some(error) if usable.is_empty() => return Err(error),
        Some(error) => tracing::warn!(%error, "some Redis nodes cannot be used"),
        None => {}
    }
    Ok(usable)
}

/// Like [`check`], but returns the facts or the outage of each node.
pub(crate) async fn check_each(
    calls: &Calls,
    role: Option<Role>,
) -> Result<Vec<Result<NodeFacts, Error>>, Error> {
    let links = calls.nodes().all().await?;
    let shards: Vec<ShardId> = calls.shards().shards().collect();
    let (placed, nowhere) = calls.placed(&shards).await;
    let checked = join_all(links.iter().map(|link| {
        let here = placed.iter().find(|(node, _)| Arc::ptr_eq(node, link));
        check_node(calls, link, here.map_or_else(Vec::new, |(_, shards)| shards.clone()), role)
    }));
    let mut nodes = Vec::with_capacity(links.len());
    for (link, facts) in links.iter().zip(checked.await) {
        nodes.push(match facts {
            Err(error) if !error.is_outage() && calls.nodes().only().is_none() => {
                return Err(of_node(link, error));
            }
            Err(error) if !error.is_outage() => return Err(error),
            facts => facts,
        });
    }
    check_are_several(&nodes)?;
    nodes.extend(nowhere.into_iter().next().map(|(_, error)| Err(error)));
    if nodes.iter().all(Result::is_err) {
        return Ok(nodes);
    }
    match calls.layout().await {
        Ok(_) if calls.nodes().map().is_some() => {}
        Ok(_) | Err(Error::Uninitialised(_)) => return Ok(nodes),
        Err(error) => return Err(error),
    }
    // A shard of each node tells the deployment of the node.
    let first: Vec<ShardId> = placed.iter().filter_map(|(_, shards)| shards.first().copied()).collect();
    let said = calls.shard_layouts(&first).await.into_iter();
    let foreign = said.filter_map(Result::err).find(|error| matches!(error, Error::Foreign { .. }));
    foreign.map_or(Ok(nodes), Err)
}

/// One Redis may appear under two addresses.
fn check_are_several(nodes: &[Result<NodeFacts, Error>]) -> Result<(), Error> {
    let mut seen = HashMap::new();
    for node in nodes.iter().flatten().filter(|node| !node.facts.run_id.is_empty()) {
        if let Some(other) = seen.insert(&node.facts.run_id, &node.address) {
            let why =
                format!("the nodes {other} and {} are the same Redis: correct [[redis.nodes]]", node.address);
            return Err(Error::Unfit(why));
        }
    }
    Ok(())
}

async fn check_node(
    calls: &Calls,
    link: &Arc<Link>,
    shards: Vec<ShardId>,
    role: Option<Role>,
) -> Result<NodeFacts, Error> {
    let facts = facts(link).await.map_err(denied_by_name)?;
    let in_cluster = calls.nodes().is_cluster();
    let several = calls.nodes().map().is_some();
    if several && shards.is_empty() && facts.role != MASTER {
        // Shards will move to this node.
        return Ok(NodeFacts {
            name: link.name().cloned(),
            address: link.address().to_owned(),
            shards,
            facts,
        });
    }
    if (in_cluster || several) && facts.role != MASTER {
        // The node was the master a moment ago, or is promoted soon.
        link.master().doubt();
        let why = "the master has become a replica".to_owned();
        return Err(Error::Unreachable { address: link.address().to_owned(), why });
    }
    facts.check(in_cluster)?;
    check_permissions(calls, link, shards.first().copied(), role).await.map_err(denied_by_name)?;
    Ok(NodeFacts { name: link.name().cloned(), address: link.address().to_owned(), shards, facts })
}

fn of_node(link: &Link, error: Error) -> Error {
    match error {
        Error::Unfit(why) => Error::Unfit(format!("node {}: {why}", link.address())),
        error => error,
    }
}

/// Reads the clock of a shard's Redis. Works on a replica, and on a server that refuses writes.
///
/// # Errors
/// Redis cannot be reached, or does not allow TIME.
pub(crate) async fn redis_time(calls: &Calls, shard: ShardId) -> Result<UnixMicros, Error> {
    let link = calls.link_of(shard).await?;
    time_of(&link, link.settings().deadline).await
}

/// Reads the clock of each shard's Redis, or the error if no answer arrives `within` this time. Each Redis is asked
/// once, and no call waits for another Redis.
pub(crate) async fn times(
    calls: &Calls,
    shards: &BTreeSet<ShardId>,
    within: Duration,
) -> BTreeMap<ShardId, Result<UnixMicros, Error>> {
    let (placed, nowhere) = calls.placed(&shards.iter().copied().collect::<Vec<_>>()).await;
    let said = join_all(placed.iter().map(|(link, _)| time_of(link, within))).await;
    let of_node = |((_, here), time): (AtNode, Result<UnixMicros, Error>)| {
        here.into_iter().map(move |shard| (shard, time.clone()))
    };
    let nowhere = nowhere.into_iter().map(|(shard, error)| (shard, Err(error)));
    placed.into_iter().zip(said).flat_map(of_node).chain(nowhere).collect()
}

async fn time_of(link: &Link, within: Duration) -> Result<UnixMicros, Error> {
    let (seconds, micros): (u64, u64) = link.query_within("TIME", &redis::cmd("TIME"), within).await?;
    Ok(UnixMicros(seconds * 1_000_000 + micros))
}

async fn facts(link: &Link) -> Result<ServerFacts, Error> {
    let text: String = link.query("INFO", &redis::cmd("INFO")).await?;
    Ok(ServerFacts::parse(&text))
}

/// Checks that every command of the role is allowed; without a role, every command of the scripts. A command that is
/// denied to a script would stop the script halfway. Without SCRIPT LOAD a restarted Redis could never be served, and
/// without SSUBSCRIBE every wake-up would be lost. Scripts and channels can only be tried at a shard of the node.
async fn check_permissions(
    calls: &Calls,
    link: &Link,
    shard: Option<ShardId>,
    role: Option<Role>,
) -> Result<(), Error> {
    link.run(redis::cmd("SCRIPT").arg("LOAD").arg("return 1")).await?;
    if role.is_some_and(Role::sweeps) {
        link.run(redis::cmd("SCAN").arg(0)).await?;
    }
    if role.is_some_and(Role::asks_who_listens) {
        link.run(redis::cmd("PUBSUB").arg("SHARDNUMSUB")).await?;
    }
    let Some(shard) = shard else { return Ok(()) };
    if role.is_some_and(Role::sweeps) {
        link.run(redis::cmd("GETRANGE").arg(calls.keys().never(shard)).arg(0).arg(0)).await?;
    }
    if role.is_none_or(Role::listens) {
        try_listening(link.master(), calls.keys(), shard).await?;
    }
    let needed: Vec<String> =
        role.unwrap_or(Role::Admin).commands().into_iter().map(|command| command.to_uppercase()).collect();
    let denied = calls.ask(probe::request(shard, needed.iter().map(String::as_str)), probe::read).await?;
    if denied.is_empty() {
        return Ok(());
    }
    let denied = denied.join(", ");
    Err(Error::Unfit(format!(
        "this user lacks the command {denied}: allow it in the ACL (delayq acl print shows all)"
    )))
}

/// Turns a denial into a permanent error; the text of the denial names the command.
fn denied_by_name(error: Error) -> Error {
    match error {
        Error::Redis { code, detail } if code == "NOPERM" => {
            Error::Unfit(format!("{detail}: allow it in the ACL (delayq acl print shows all)"))
        }
        error => error,
    }
}

// === impl ServerFacts ===

impl ServerFacts {
    fn parse(info: &str) -> Self {
        let fields: HashMap<&str, &str> =
            info.lines().filter_map(|line| line.trim().split_once(':')).collect();
        let text = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
        let number = |name: &str| fields.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        Self {
            run_id: text("run_id"),
            version: text("redis_version"),
            role: text("role"),
            maxmemory_policy: text("maxmemory_policy"),
            maxmemory_bytes: number("maxmemory"),
            used_memory_bytes: number("used_memory"),
            aof: number("aof_enabled") == 1,
            // A file that was begun and not loaded has an empty base.
            aof_as_loaded: number("aof_enabled") == 1
                && number("aof_base_size") > 0
                && number("aof_rewrites") == 0,
            cluster: number("cluster_enabled") == 1,
            replicas: number("connected_slaves"),
            silent_replicas: fields.iter().filter(|(name, told)| is_silent(name, told)).count() as u64,
            min_replicas_seen: fields.get("min_slaves_good_slaves").and_then(|text| text.parse().ok()),
        }
    }

    fn is_before(&self, version: (u64, u64)) -> bool {
        let mut parts = self.version.split('.').map_while(|part| part.parse::<u64>().ok());
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < version
    }

    /// Checks that the server can confirm writes as a topic demands.
    ///
    /// # Errors
    /// The missing feature.
    pub fn confirms(&self, durability: Durability) -> Result<(), String> {
        match durability {
            Durability::Disk if self.is_before(WAITAOF) => {
                Err(format!("version {} has no WAITAOF: use Redis 7.2 or Valkey", self.version))
            }
            Durability::Disk if !self.aof => Err("the append-only file is off".to_owned()),
            Durability::Replicas(count) if self.replicas < u64::from(count) => {
                Err(format!("{} replicas follow", self.replicas))
            }
            Durability::Replicas(count) if self.replicas - self.silent_replicas < u64::from(count) => {
                Err(format!(
                    "{} of {} replicas have been silent for {SILENT_S} s",
                    self.silent_replicas, self.replicas
                ))
            }
            Durability::Memory | Durability::Disk | Durability::Replicas(_) => Ok(()),
        }
    }

    /// `in_cluster`: true if the server was reached as a node of a cluster.
    fn check(&self, in_cluster: bool) -> Result<(), Error> {
        let unfit = |why: String| Err(Error::Unfit(why));
        if self.is_before(OLDEST) {
            return unfit(format!(
                "version {} is too old: delayq needs Redis 7.0 or Valkey 7.2",
                self.version
            ));
        }
        if self.role != MASTER {
            return unfit("it is a replica: connect to its master".to_owned());
        }
        if self.maxmemory_policy != "noeviction" {
            return unfit(format!(
                "maxmemory-policy is {}, which deletes messages when memory is full: set it to noeviction",
                self.maxmemory_policy
            ));
        }
        if self.cluster && !in_cluster {
            return unfit(
                "it is a node of a Redis Cluster: write redis+cluster://host:port,host:port with some of \
                 its nodes"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// True if this field of INFO describes a replica that has confirmed nothing for long.
fn is_silent(name: &str, told: &str) -> bool {
    let is_replica = name.strip_prefix("slave").is_some_and(|n| n.parse::<u32>().is_ok());
    let lag = told.split(',').find_map(|field| field.strip_prefix("lag=")?.parse::<u64>().ok());
    is_replica && lag.is_some_and(|lag| lag >= SILENT_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(info: &str) -> ServerFacts {
        ServerFacts::parse(info)
    }

    #[test]
    fn a_server_that_would_lose_messages_is_refused_by_name() {
        let good =
            "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\ncluster_enabled:0\r\n";
        assert!(facts(good).check(false).is_ok());
        assert!(facts(&good.replace("enabled:0", "enabled:1")).check(true).is_ok());
        for (from, to, named) in [
            ("7.0.15", "6.2.7", "version 6.2.7"),
            ("master", "slave", "replica"),
            ("noeviction", "allkeys-lru", "allkeys-lru"),
            ("enabled:0", "enabled:1", "Cluster"),
        ] {
            let error = facts(&good.replace(from, to)).check(false).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
    #[test]
    fn what_cannot_be_confirmed_is_named() {
        let info = "redis_version:7.2.4\r\naof_enabled:1\r\nconnected_slaves:1\r\n";
        for durability in [Durability::Memory, Durability::Disk, Durability::Replicas(1)] {
            let near = format!("{info}slave0:ip=::1,port=1,state=online,offset=9,lag=1\r\n");
            assert_eq!(facts(&near).confirms(durability), Ok(()));
        }
        for (info, durability, named) in [
            (info.replace("7.2.4", "7.0.15"), Durability::Disk, "WAITAOF"),
            (info.replace("enabled:1", "enabled:0"), Durability::Disk, "append-only"),
            (info.to_owned(), Durability::Replicas(2), "1 replicas"),
            (
                format!("{info}slave0:ip=::1,port=1,state=online,offset=9,lag=5\r\n"),
                Durability::Replicas(1),
                "1 of 1",
            ),
        ] {
            let why = facts(&info).confirms(durability).unwrap_err();
            assert!(why.contains(named), "{why}");
        }
    }
}
