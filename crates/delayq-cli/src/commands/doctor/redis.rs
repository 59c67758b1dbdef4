//! Redis itself: its version, and the settings that delayq depends on.

use super::Check;
use crate::deployment::Context;
use crate::output::{Judgement, counted};
use crate::verdicts::of_memory;
use delayq::Error;
use delayq::admin::{NodeFacts, SentinelFacts, SentinelReport, ServerFacts};
use std::collections::BTreeSet;

pub(super) async fn checks(context: &Context) -> Vec<Check> {
    let address = context.client.address();
    let (mut nodes, mut checks) = (Vec::new(), Vec::new());
    match context.admin().check_each_node().await {
        Ok(each) => {
            for node in each {
                match node {
                    Ok(facts) => nodes.push(facts),
                    Err(error) => checks.push(away(&error)),
                }
            }
        }
        Err(error @ Error::Unfit(_)) => {
            return vec![Check::bad("redis", error.to_string(), "change the setting, or use another Redis")];
        }
        Err(error) => return vec![away(&error)],
    }
    if context.admin().is_cluster() {
        checks.extend(cluster(&address, &nodes, checks.is_empty()));
        return checks;
    }
    if context.admin().has_nodes() {
        checks.extend(several(&nodes));
        return checks;
    }
    let Some(NodeFacts { facts, .. }) = nodes.first() else { return checks };
    let sentinels = context.admin().sentinels().await;
    let kind = if sentinels.is_some() { "by Sentinel" } else { "standalone" };
    let mut checks = vec![
        Check::good(
            "redis",
            format!("{address}, version {}, {kind}, {} replicas", facts.version, facts.replicas),
        ),
        Check::good("eviction", facts.maxmemory_policy.clone()),
    ];
    if let Some(sentinels) = sentinels {
        checks.push(failover(&sentinels));
        checks.push(cut_off(facts));
    }
    checks.extend([persistence(facts), memory(facts)]);
    checks
}

/// A node that cannot be used now.
fn away(error: &Error) -> Check {
    let advice =
        "start it, or correct [redis] url, username and password, [redis.sentinel] and [[redis.nodes]]";
    Check::bad("redis", error.to_string(), advice)
}

/// Whether each node that answers is fit, and the shards are spread over them; `all` do or not.
fn cluster(address: &str, nodes: &[NodeFacts], all: bool) -> Vec<Check> {
    let Some(first) = nodes.first() else { return Vec::new() };
    let (masters, version) = (nodes.len(), &first.facts.version);
    let kind = match all {
        true => format!("a cluster of {masters} masters"),
        false => format!("a cluster, of which {masters} masters answer"),
    };
    let mut checks = vec![
        Check::good("redis", format!("{address}, version {version}, {kind}")),
        Check::good("eviction", first.facts.maxmemory_policy.clone()),
        spread(nodes),
    ];
    for NodeFacts { address, facts, .. } in nodes {
        let of_node = |check: Check| check.about(&format!("node {address}"));
        checks.push(of_node(match facts.replicas {
            0 => Check::warning("failover", "no replica", "add one: its shards stop while this node is gone"),
            some => Check::good("failover", format!("{some} replicas")),
        }));
        checks.extend([persistence(facts), memory(facts)].map(of_node));
    }
    checks
}

/// Whether each of several Redises is fit.
fn several(nodes: &[NodeFacts]) -> Vec<Check> {
    let of_node = |NodeFacts { address, shards, facts, .. }: &NodeFacts| {
        let found = format!("version {}, {}", facts.version, counted(shards.len() as u64, "shard"));
        let eviction = Check::good("eviction", facts.maxmemory_policy.clone());
        let checks = [Check::good("redis", found), eviction, persistence(facts), memory(facts)];
        checks.map(|check| check.about(&format!("node {address}")))
    };
    nodes.iter().flat_map(of_node).collect()
}

/// Whether one node has much more than another: a core of Redis is the limit of its shards.
fn spread(nodes: &[NodeFacts]) -> Check {
    const WHAT: &str = "spread";
    let counts = || nodes.iter().map(|node| node.shards.len());
    let each: Vec<String> =
        nodes.iter().map(|node| format!("{} at {}", node.shards.len(), node.address)).collect();
    let found = format!("shards: {}", each.join(", "));
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    if most <= 2 * least {
        return Check::good(WHAT, found);
    }
    let advice =
        "more shards spread more evenly (delayq shards grow), or move slots: redis-cli --cluster reshard";
    Check::warning(WHAT, found, advice)
}

fn memory(facts: &ServerFacts) -> Check {
    match (facts.used_memory_bytes, facts.maxmemory_bytes) {
        (used, 0) => Check::warning(
            "memory",
            format!("{} MiB used, no limit", used >> 20),
            "set maxmemory, so that a full Redis refuses puts instead of being killed",
        ),
        (used, most) => {
            let verdict = of_memory(facts);
            let advice = if verdict == Judgement::Good { "" } else { "raise maxmemory, or purge" };
            Check::new("memory", verdict, format!("{} of {} MiB used", used >> 20, most >> 20), advice)
        }
    }
}

/// Whether the sentinels can fail over, and agree.
fn failover(sentinels: &[SentinelReport]) -> Check {
    const WHAT: &str = "sentinels";
    let heard = || sentinels.iter().filter_map(|sentinel| sentinel.said.as_ref().ok());
    let silent = sentinels
        .iter()
        .filter_map(|sentinel| Some(format!("; {}: {}", sentinel.address, sentinel.said.as_ref().err()?)));
    let masters: BTreeSet<&str> = heard().map(|(master, _)| master.as_str()).collect();
    let most = |number: fn(&SentinelFacts) -> u64| heard().map(|(_, facts)| number(facts)).max().unwrap_or(0);
    let (all, quorum, replicas) =
        (most(|facts| facts.sentinels), most(|facts| facts.quorum), most(|facts| facts.replicas));
    let found = format!(
        "{} of {} named answer and see {all}, quorum {quorum}; master {}, {replicas} replicas{}",
        heard().count(),
        sentinels.len(),
        masters.iter().copied().collect::<Vec<_>>().join(" and "),
        silent.collect::<String>()
    );
    let enough = heard().count() as u64 > all / 2;
    if masters.len() > 1 {
        Check::warning(WHAT, found, "ask again after a failover; if it stays, see why the sentinels differ")
    } else if replicas == 0 {
        Check::bad(WHAT, found, "start a replica: nothing can take over from this master")
    } else if heard().count() < sentinels.len() && !enough {
        Check::bad(WHAT, found, "start the sentinels: without most of them there is no failover")
    } else if heard().count() < sentinels.len() {
        Check::warning(WHAT, found, "start the others, or correct their addresses")
    } else if (sentinels.len() as u64) < all {
        Check::warning(WHAT, found, "name all of them, so that some may be down")
    } else {
        Check::good(WHAT, found)
    }
}

/// What a master does that is cut off from its replicas, and perhaps succeeded.
fn cut_off(facts: &ServerFacts) -> Check {
    match facts.min_replicas_seen {
        Some(seen) => {
            Check::good("failover", format!("min-replicas-to-write is set, {seen} replicas are close enough"))
        }
        None => Check::warning(
            "failover",
            "min-replicas-to-write is 0: an isolated master keeps accepting writes, which are lost",
            "min-replicas-to-write 1 and min-replicas-max-lag 10, or accept that loss",
        ),
    }
}

fn persistence(facts: &ServerFacts) -> Check {
    match (facts.aof, facts.aof_as_loaded) {
        (true, false) => Check::good("persistence", "append-only file"),
        (true, true) => Check::warning(
            "persistence",
            "append-only file, not rewritten since Redis started",
            "BGREWRITEAOF, unless its last stop was an orderly one: a torn end would spoil the next start",
        ),
        (false, _) => Check::warning(
            "persistence",
            "no append-only file",
            "a restart of Redis loses everything: appendonly yes",
        ),
    }
}
