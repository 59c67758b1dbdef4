//! The deployment: answering shards, and clocks.

use super::causes::{CLOCK_HELD, CLOCKS_APART, DEPLOYMENT_DIFFERS, KEPT_TWICE, OLDER_DATA, SHARDS_AWAY};
use super::check::Check;
use crate::look::{Look, Shard, Shards};
use crate::phrase::{counted, duration};
use delayq::admin::Older;
use delayq::protocol::{NodeName, ShardId, ShardRanges};
use delayq_service::when::time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum difference between clocks. A larger one makes times on the command line misleading; deliveries go by Redis's clock.
const CLOCKS_APART_MS: u64 = 1000;

/// How long older data is reported.
const TOLD: Duration = Duration::from_secs(24 * 3600);

pub(super) fn judge(look: &Look, shards: &Shards) -> Vec<Check> {
    let namespace = look.part.namespace();
    let (seen, held) = (counted(shards.seen.len() as u64, "shard"), shards.held());
    let deployment = match &shards.layout {
        Ok(layout) if shards.seen.len() < layout.shards().get().into() => {
            let (answer, all) = (shards.seen.len(), layout.shards());
            let unseen: String = shards.unseen.iter().map(|line| format!("; {line}")).collect();
            let found = format!("{namespace}: {answer} of {all} shards answer{unseen}");
            SHARDS_AWAY.found(found, [answer.into(), all.get().into()]).with("why", shards.unseen.join("; "))
        }
        Ok(_) => Check::good("deployment", format!("{namespace}, {seen}")),
        Err(error) => DEPLOYMENT_DIFFERS.found(error.to_string(), []).with("why", error.to_string()),
    };
    let values = [held.into(), shards.seen.len().into()];
    let held = (held > 0).then(|| CLOCK_HELD.found(format!("{held} of {seen} held"), values));
    let more = older(shards).into_iter().chain(twice(shards)).chain(held).chain(clocks(shards));
    [deployment].into_iter().chain(more).collect()
}

/// Within the last day, with the bound of the loss.
fn older(shards: &Shards) -> Option<Check> {
    let is_recent = |shard: &Shard, older: &Older| shard.overview.now.millis().since(older.noticed) < TOLD;
    let found = shards
        .seen
        .iter()
        .filter_map(|shard| Some((shard.id, shard.overview.older.filter(|older| is_recent(shard, older))?)));
    let found: Vec<(ShardId, Older)> = found.collect();
    let since = found.iter().map(|(_, older)| older.since).min()?;
    let noticed = found.iter().map(|(_, older)| older.noticed).max()?;
    let ids: ShardRanges = found.iter().map(|(id, _)| *id).collect();
    let which = match since.get() {
        0 => format!("writes before {}", time(noticed)),
        _ => format!("writes from {} to {} ({})", time(since), time(noticed), duration(noticed.since(since))),
    };
    let noun = if found.len() == 1 { "shard" } else { "shards" };
    let found = format!("Redis came back with older data of {noun} {ids}: {which} may be missing");
    let check = OLDER_DATA.found(found, [ids.to_string().into(), noticed.get().into()]);
    Some(if since.get() > 0 { check.with("since_at", since.get()) } else { check })
}

/// One check for each set of nodes.
fn twice(shards: &Shards) -> Vec<Check> {
    let mut by_nodes = BTreeMap::<_, Vec<ShardId>>::new();
    for (&shard, nodes) in &shards.twice {
        by_nodes.entry(nodes).or_default().push(shard);
    }
    let said = |(nodes, shards): (&Vec<NodeName>, Vec<ShardId>)| {
        let nodes: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        let noun = if shards.len() == 1 { "shard" } else { "shards" };
        let ranges: ShardRanges = shards.into_iter().collect();
        let found = format!("{noun} {ranges} are served by several nodes at once: {}", nodes.join(" and "));
        KEPT_TWICE.found(found, [ranges.to_string().into(), nodes.join(", ").into()])
    };
    by_nodes.into_iter().map(said).collect()
}

fn clocks(shards: &Shards) -> Option<Check> {
    let apart = |shard: &Shard| shards.at.get().abs_diff(shard.overview.now.millis().get());
    let furthest = shards.seen.iter().max_by_key(|shard| apart(shard))?;
    let whose = match &furthest.node {
        Some(node) => format!("that of node {node}"),
        None => "Redis's".to_owned(),
    };
    let found = format!("{} ms between this machine's and {whose}", apart(furthest));
    Some(match apart(furthest) {
        0..=CLOCKS_APART_MS => Check::good("clocks", found).quiet(),
        apart_ms => {
            let check = CLOCKS_APART.found(found, [apart_ms.into()]);
            match &furthest.node {
                Some(node) => check.with("node", node.as_str()),
                None => check,
            }
        }
    })
}
