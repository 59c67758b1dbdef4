//! Redis: reachability, memory, persistence and failover of every node.

use super::causes::{
    AOF_AS_LOADED, MEMORY_SHORT, MEMORY_UNLIMITED, NO_AOF, NO_MIN_REPLICAS, NO_REPLICA, NOT_SPREAD,
    REDIS_AWAY, REDIS_FULL_OF_CLIENTS, REDIS_UNFIT, SENTINELS_ALONE, SENTINELS_DIFFER, SENTINELS_FEW,
    SENTINELS_SILENT, SENTINELS_UNNAMED,
};
use super::check::Check;
use crate::look::{Look, Servers};
use crate::phrase::counted;
use delayq::Error;
use delayq::admin::{NodeFacts, SentinelFacts, SentinelReport, ServerFacts};
use std::collections::BTreeSet;

pub(super) fn judge(look: &Look, servers: &Result<Servers, Error>) -> Vec<Check> {
    let servers = match servers {
        Ok(servers) => servers,
        Err(error) => return vec![unusable(error)],
    };
    let (admin, address) = (look.part.admin(), look.part.client().address());
    let mut checks: Vec<Check> =
        servers.nodes.iter().filter_map(|node| node.as_ref().err()).map(unusable).collect();
    let nodes: Vec<&NodeFacts> = servers.nodes.iter().flatten().collect();
    let is_whole = checks.is_empty();
    match nodes[..] {
        [] => {}
        _ if admin.nodes().is_cluster() => checks.extend(cluster(&address, &nodes, is_whole)),
        _ if admin.nodes().are_several() => checks.extend(nodes.iter().flat_map(|node| one_of_several(node))),
        [node, ..] => checks.extend(single(&address, &node.facts, &servers.sentinels)),
    }
    for (of, sentinels) in &servers.sentinels {
        let check = failover(sentinels);
        checks.push(if admin.nodes().are_several() { check.about(of) } else { check });
    }
    checks
}

fn unusable(error: &Error) -> Check {
    let cause = match error {
        Error::Unfit(_) => &REDIS_UNFIT,
        Error::TooManyClients { .. } => &REDIS_FULL_OF_CLIENTS,
        _ => &REDIS_AWAY,
    };
    cause.found(error.to_string(), []).with("why", error.to_string())
}

fn single(address: &str, facts: &ServerFacts, sentinels: &[(String, Vec<SentinelReport>)]) -> Vec<Check> {
    let kind = if sentinels.is_empty() { "standalone" } else { "by Sentinel" };
    let found = format!("{address}, version {}, {kind}, {} replicas", facts.version, facts.replicas);
    let mut checks = vec![Check::good("redis", found), eviction(facts), persistence(facts), memory(facts)];
    if !sentinels.is_empty() {
        checks.push(cut_off(facts));
    }
    checks
}

/// `all`: every node answers.
fn cluster(address: &str, nodes: &[&NodeFacts], all: bool) -> Vec<Check> {
    let (masters, version) = (nodes.len(), &nodes[0].facts.version);
    let kind = match all {
        true => format!("a cluster of {masters} masters"),
        false => format!("a cluster, of which {masters} masters answer"),
    };
    let mut checks = vec![
        Check::good("redis", format!("{address}, version {version}, {kind}")),
        eviction(&nodes[0].facts),
        spread(nodes),
    ];
    for NodeFacts { address, facts, .. } in nodes {
        let failover = match facts.replicas {
            0 => NO_REPLICA.found("no replica", []),
            some => Check::good("failover", format!("{some} replicas")).quiet(),
        };
        let of_node = |check: Check| check.about(address);
        checks.extend([failover, persistence(facts), memory(facts)].map(of_node));
    }
    checks
}

fn one_of_several(NodeFacts { address, shards, facts, .. }: &NodeFacts) -> Vec<Check> {
    let found = format!("version {}, {}", facts.version, counted(shards.len() as u64, "shard"));
    let checks = [Check::good("redis", found), eviction(facts), persistence(facts), memory(facts)];
    checks.map(|check| check.about(address)).into()
}

/// Redis with any other policy is unfit.
fn eviction(facts: &ServerFacts) -> Check {
    Check::good("eviction", facts.maxmemory_policy.clone())
}

fn spread(nodes: &[&NodeFacts]) -> Check {
    let counts = || nodes.iter().map(|node| node.shards.len());
    let each: Vec<String> =
        nodes.iter().map(|node| format!("{} at {}", node.shards.len(), node.address)).collect();
    let found = format!("shards: {}", each.join(", "));
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    if most <= 2 * least {
        return Check::good(NOT_SPREAD.what, found).quiet();
    }
    let each: Vec<String> =
        nodes.iter().map(|node| format!("{}: {}", node.address, node.shards.len())).collect();
    NOT_SPREAD.found(found, [each.join(", ").into()])
}

fn memory(facts: &ServerFacts) -> Check {
    let (used, limit) = (facts.used_memory_bytes, facts.maxmemory_bytes);
    let found = match limit {
        0 => format!("{} MiB used, no limit", used >> 20),
        _ => format!("{} of {} MiB used", used >> 20, limit >> 20),
    };
    match limit {
        0 => MEMORY_UNLIMITED.found(found, [(used >> 20).into()]),
        _ if used > limit / 10 * 9 => MEMORY_SHORT.found(found, [(used >> 20).into(), (limit >> 20).into()]),
        _ => Check::good(MEMORY_SHORT.what, found),
    }
}

/// Checks that the sentinels agree and can fail over.
fn failover(sentinels: &[SentinelReport]) -> Check {
    let heard = || sentinels.iter().filter_map(|sentinel| sentinel.said.as_ref().ok());
    let silent = sentinels
        .iter()
        .filter_map(|sentinel| Some(format!("; {}: {}", sentinel.address, sentinel.said.as_ref().err()?)));
    let masters: BTreeSet<&str> = heard().map(|(master, _)| master.as_str()).collect();
    let most = |number: fn(&SentinelFacts) -> u64| heard().map(|(_, facts)| number(facts)).max().unwrap_or(0);
    let (all, quorum, replicas) =
        (most(|facts| facts.sentinels), most(|facts| facts.quorum), most(|facts| facts.replicas));
    let (answer, named) = (heard().count(), sentinels.len());
    let found = format!(
        "{answer} of {named} named answer and see {all}, quorum {quorum}; master {}, {replicas} replicas{}",
        masters.iter().copied().collect::<Vec<_>>().join(" and "),
        silent.collect::<String>()
    );
    let masters_named = masters.iter().copied().collect::<Vec<_>>().join(", ");
    match answer {
        _ if masters.len() > 1 => SENTINELS_DIFFER.found(found, [masters_named.into()]),
        _ if replicas == 0 => SENTINELS_ALONE.found(found, [masters_named.into()]),
        _ if answer < named && answer as u64 <= all / 2 => {
            SENTINELS_FEW.found(found, [answer.into(), all.into()])
        }
        _ if answer < named => SENTINELS_SILENT.found(found, [answer.into(), named.into()]),
        _ if (named as u64) < all => SENTINELS_UNNAMED.found(found, [named.into(), all.into()]),
        _ => Check::good("sentinels", found),
    }
}

/// Checks the behaviour of a master without contact to replicas, which may have a successor.
fn cut_off(facts: &ServerFacts) -> Check {
    match facts.min_replicas_seen {
        Some(seen) => {
            let found = format!("min-replicas-to-write is set, {seen} replicas are in sync");
            Check::good("failover", found).quiet()
        }
        None => NO_MIN_REPLICAS.found(
            "min-replicas-to-write is 0: an isolated master keeps accepting writes, which are lost",
            [],
        ),
    }
}

fn persistence(facts: &ServerFacts) -> Check {
    match (facts.aof, facts.aof_as_loaded) {
        (true, false) => Check::good("persistence", "append-only file").quiet(),
        (true, true) => AOF_AS_LOADED.found("append-only file, not rewritten since Redis started", []),
        (false, _) => NO_AOF.found("no append-only file", []),
    }
}
