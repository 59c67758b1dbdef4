//! The timers: owners, and overdue shards.

use super::causes::{
    ALL_DRAINED, ANOTHER_FLEET, DRAINED, NEVER_OWNED, NO_TIMER, NOBODY_LISTENS, OVERDUE, SHARDS_UNPLANNED,
};
use super::check::Check;
use super::judgement::Judgement;
use super::limits::{Limits, verdict};
use crate::look::{Look, Shards};
use crate::phrase::{counted, drained, duration};
use delayq::protocol::is_worker;
use delayq_cluster::{DrainInfo, Overview as Fleet};
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) fn judge(look: &Look, shards: &Shards, limits: &Limits) -> Vec<Check> {
    let mut checks = vec![timers(look, shards), overdue(shards.overdue(), limits)];
    let drains = look.fleet.iter().flatten().flat_map(|fleet| &fleet.drains);
    checks.extend(drains.map(drain));
    checks
}

fn drain(of: &DrainInfo) -> Check {
    let mut check = DRAINED.found(drained(of), [of.name.as_str().into(), of.since_ms.into()]);
    if !of.registered {
        check = check.with("unregistered", true);
    }
    if of.reason.is_empty() { check } else { check.with("why", of.reason.as_str()) }
}

/// The check that explains idle shards, if a shard has no working timer.
pub fn without_timer(shards: &Shards) -> Option<Check> {
    let unserved = never_owned(shards).unwrap_or_else(|| overdue(shards.overdue(), &Limits::default()));
    Some(unserved).filter(|check| check.verdict != Judgement::Good)
}

fn never_owned(shards: &Shards) -> Option<Check> {
    let (all, unowned) = (counted(shards.seen.len() as u64, "shard"), shards.unowned());
    let found = || format!("no timer has ever owned {unowned} of {all}: nothing there is delivered");
    (unowned > 0).then(|| NEVER_OWNED.found(found(), [unowned.into(), shards.seen.len().into()]))
}

fn timers(look: &Look, shards: &Shards) -> Check {
    if let Some(check) = another_fleet(look) {
        return check;
    }
    if let Some(check) = pumped_by_workers(look, shards) {
        return check;
    }
    let unowned = never_owned(shards);
    let all = counted(shards.seen.len() as u64, "shard");
    let owner = shards.seen.first().map_or("nobody", |shard| shard.overview.owner.as_str());
    unowned.unwrap_or_else(|| match (&look.fleet, shards.unheard) {
        (Some(Ok(fleet)), _) => fleet_of(fleet, shards.seen.len()),
        // etcd has a check of its own.
        (Some(Err(_)), _) => Check::good("timers", format!("{all} have owners; no timers known from etcd")),
        (None, Some(unheard @ 1..)) => {
            let found = format!("no timer listens to {unheard} of {all}; the last owner is {owner}");
            NOBODY_LISTENS.found(found, [unheard.into(), shards.seen.len().into(), owner.into()])
        }
        (None, Some(0)) => Check::good("timers", format!("{owner} owns {all}")),
        (None, None) => Check::good("timers", format!("{all} have owners; the last one is {owner}")),
    })
}

/// Without timers, workers may own every shard: such a deployment is whole.
fn pumped_by_workers(look: &Look, shards: &Shards) -> Option<Check> {
    let members = look.fleet.iter().flatten().map(|fleet| fleet.members.len()).sum::<usize>();
    let owners: BTreeSet<&str> = shards.seen.iter().map(|shard| shard.overview.owner.as_str()).collect();
    let is_whole = members == 0 && shards.unheard.unwrap_or(0) == 0 && !owners.is_empty();
    let all = counted(shards.seen.len() as u64, "shard");
    (is_whole && owners.iter().all(|owner| is_worker(owner))).then(|| {
        let pump = if owners.len() == 1 { "pumps" } else { "pump" };
        Check::good(
            "timers",
            format!("{} {pump} {all}, without a timer", counted(owners.len() as u64, "worker")),
        )
    })
}

fn another_fleet(look: &Look) -> Option<Check> {
    let client = look.part.client();
    let mine = (*client.identity().borrow())?;
    let recorded = look.fleet.as_ref()?.as_ref().ok()?.deployment;
    let other = recorded.filter(|&recorded| recorded != mine)?;
    let (other, mine, redis) = (other.short(), mine.short(), client.address());
    let found =
        format!("the timers in etcd belong to deployment {other}, but {redis} keeps deployment {mine}");
    Some(ANOTHER_FLEET.found(found, [other.into(), redis.into(), mine.into()]))
}

fn fleet_of(fleet: &Fleet, shards: usize) -> Check {
    let all = counted(shards as u64, "shard");
    let (members, unplanned) = (fleet.members.len(), fleet.unplanned.len());
    let drained = fleet.members.iter().filter(|member| member.drained).count();
    let registered = counted(members as u64, "timer");
    match members - drained {
        0 if members == 0 => NO_TIMER.found("no timer is registered in etcd", []),
        0 => ALL_DRAINED.found(format!("every timer is drained: no timer pumps {all}"), [shards.into()]),
        _ if unplanned > 0 => {
            let found = format!("{unplanned} of {all} unplanned, {registered} registered");
            SHARDS_UNPLANNED.found(found, [unplanned.into(), shards.into(), members.into()])
        }
        owners => {
            let drained = if drained > 0 { format!(", {drained} drained") } else { String::new() };
            let own = if owners == 1 { "owns" } else { "own" };
            Check::good("timers", format!("{} {own} {all}{drained}", counted(owners as u64, "timer")))
        }
    }
}

fn overdue(longest: Duration, limits: &Limits) -> Check {
    let found = match longest.is_zero() {
        true => "nothing is overdue".to_owned(),
        false => format!("a shard has been due for {}", duration(longest)),
    };
    OVERDUE.judged(
        verdict(longest.as_secs_f64(), limits.overdue),
        found,
        [(longest.as_millis() as u64).into()],
    )
}
