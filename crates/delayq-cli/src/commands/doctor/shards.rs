//! The shards: do they exist, does a timer own each, and do the clocks agree?

use super::Check;
use crate::deployment::Context;
use crate::fleet::{drained, observer};
use crate::output::{counted, duration};
use crate::verdicts::UNPLANNED_SHARDS;
use delayq::UnixMillis;
use delayq::admin::Overview;
use delayq::protocol::ShardId;
use delayq_cluster::{DrainInfo, Overview as Fleet};
use jiff::Timestamp;
use std::time::Duration;

/// Clocks further apart than this make times on the command line misleading; deliveries go by Redis's alone.
const CLOCKS_APART_MS: u64 = 1000;
/// A shard that is overdue for so long has no timer that works.
const OVERDUE: Duration = Duration::from_secs(2);
pub(in crate::commands) const START: &str =
    "start a timer: delayq-timer --config FILE, or delayq up for everything on one machine";

pub(super) async fn checks(context: &Context) -> Vec<Check> {
    let namespace = &context.config.deployment.namespace;
    let overviews = match context.admin().overview().await {
        Ok(overviews) => overviews,
        Err(error) => {
            let others = context.other_namespaces().await;
            let advice = others.unwrap_or_else(|| "delayq init, if the deployment is new".to_owned());
            return vec![Check::bad("deployment", error.to_string(), advice)];
        }
    };
    let shards = counted(overviews.len() as u64, "shard");
    let mut checks = vec![match context.admin().layout().await {
        Ok(layout) if overviews.len() < layout.shards().get().into() => {
            let found = format!("{namespace}: {} of {} shards answer", overviews.len(), layout.shards());
            Check::bad(
                "deployment",
                found,
                "correct what the checks of Redis name; delayq shards names the others",
            )
        }
        Ok(_) => Check::good("deployment", format!("{namespace}, {shards}")),
        Err(error) => Check::bad("deployment", error.to_string(), "correct [deployment] shards"),
    }];
    let held = overviews.iter().filter(|(_, overview)| overview.held).count();
    if held > 0 {
        let advice = "check Redis's clock and the timers' logs";
        checks.push(Check::bad("clock guard", format!("{held} of {shards} held"), advice));
    }
    let fleet = fleet(context).await;
    checks.push(timers(context, &overviews, fleet.as_ref()).await);
    checks.extend(fleet.iter().flat_map(|fleet| &fleet.drains).map(of_drain));
    checks.extend(clocks(context, &overviews).await);
    checks
}

/// Why messages of some shards do not become ready, if no timer works there.
pub(in crate::commands) fn without_timer(overviews: &[(ShardId, Overview)]) -> Option<String> {
    let shards = counted(overviews.len() as u64, "shard");
    let unowned = overviews.iter().filter(|(_, overview)| overview.owner.is_empty()).count();
    if unowned > 0 {
        return Some(format!("no timer has ever owned {unowned} of {shards}: nothing there is delivered"));
    }
    let overdue = overviews.iter().map(|(_, overview)| overdue(overview)).max().unwrap_or_default();
    (overdue >= OVERDUE).then(|| format!("a shard has been due for {}", duration(overdue)))
}

/// Whether every shard has a timer that works.
async fn timers(context: &Context, overviews: &[(ShardId, Overview)], fleet: Option<&Fleet>) -> Check {
    if let Some(found) = without_timer(overviews) {
        return Check::bad("timers", found, START);
    }
    let shards = counted(overviews.len() as u64, "shard");
    if !context.config.etcd.enabled {
        let owner = &overviews[0].1.owner;
        return match unheard(context, overviews).await {
            Some(0) => Check::good("timers", format!("{owner} owns all shards, nothing is overdue")),
            None => Check::good("timers", format!("nothing is overdue; the last owner is {owner}")),
            Some(unheard) => {
                let found = format!("no timer listens to {unheard} of {shards}; the last owner is {owner}");
                Check::bad("timers", found, START)
            }
        };
    }
    // etcd has a check of its own.
    let Some(fleet) = fleet else { return Check::good("timers", "nothing is overdue") };
    let (members, unplanned) = (fleet.members.len(), fleet.unplanned.len());
    if members == 0 {
        return Check::bad("timers", "no timer is registered in etcd", START);
    }
    if fleet.members.iter().all(|member| member.drained) {
        return Check::bad("timers", "every timer is drained: nobody pumps", "delayq timers undrain NAME");
    }
    match unplanned {
        0 => Check::good("timers", format!("{members} registered, nothing is overdue")),
        _ => Check::new(
            "timers",
            UNPLANNED_SHARDS,
            format!("{unplanned} of {shards} unplanned, {} registered", counted(members as u64, "timer")),
            "see the timers' logs, and delayq timers",
        ),
    }
}

/// A timer that is drained, which somebody may have forgotten.
fn of_drain(drain: &DrainInfo) -> Check {
    let advice = "delayq timers undrain NAME, when it may have shards again, or is gone for good";
    Check::warning("drained", drained(drain), advice)
}

/// To how many shards no timer listens; `None` where Redis does not say.
async fn unheard(context: &Context, overviews: &[(ShardId, Overview)]) -> Option<usize> {
    let shards: Vec<ShardId> = overviews.iter().map(|(shard, _)| *shard).collect();
    let unheard = context.admin().shards_without_listener(&shards).await.ok()?;
    Some(unheard.len())
}

/// The timers; `None` without etcd, and where it does not say.
async fn fleet(context: &Context) -> Option<Fleet> {
    if !context.config.etcd.enabled {
        return None;
    }
    observer(&context.config).ok()?.overview().await.ok()
}

fn overdue(overview: &Overview) -> Duration {
    overview.next_due.map_or(Duration::ZERO, |due| overview.now.millis().since(due))
}

/// Whether Redis's clock, or that of each of several nodes, is near this machine's.
async fn clocks(context: &Context, overviews: &[(ShardId, Overview)]) -> Option<Check> {
    let here = UnixMillis::from(Timestamp::now());
    let apart = |(shard, one): &(ShardId, Overview)| (here.get().abs_diff(one.now.millis().get()), *shard);
    let (apart, shard) = overviews.iter().map(apart).max()?;
    let whose = match context.admin().has_nodes() {
        true => format!("that of {}", node_of(context, shard).await),
        false => "Redis's".to_owned(),
    };
    let found = format!("{apart} ms between this machine's and {whose}");
    Some(match apart {
        0..=CLOCKS_APART_MS => Check::good("clocks", found),
        _ => Check::warning("clocks", found, "due times go by Redis's clock; correct NTP on one of the two"),
    })
}

/// The node that has a shard.
async fn node_of(context: &Context, shard: ShardId) -> String {
    let nodes = context.admin().shards_by_node().await.unwrap_or_default();
    let its = nodes.into_iter().find(|(_, shards)| shards.contains(&shard));
    its.map_or_else(|| format!("shard {shard}'s node"), |(node, _)| format!("node {node}"))
}
