//! Prints a check for Nagios, Prometheus and people.

use super::status::Status;
use crate::output::{Judgement, Output};
use delayq::UnixMillis;
use delayq::admin::{NodeFacts, Numbers};
use delayq_cluster::Overview as Fleet;
use delayq_look::{Check, Limits, Look, Pair, Topics};
use std::collections::BTreeMap;
use std::fmt::Write as _;

type StateCount = (&'static str, fn(&Numbers) -> u64);

/// Checks that the line names after Redis if nothing is wrong.
const HEADLINE: [&str; 5] = ["timers", "overdue", "ready age", "ready messages", "dead letters"];

/// A line: the status, the faults or else the most important checks, and the performance data behind a bar.
pub(super) fn nagios(status: Status, look: Option<&Look>, checks: &[Check], limits: &Limits) -> String {
    let told = match status {
        Status::Ok => {
            let headline = checks.iter().filter(|check| HEADLINE.contains(&check.what));
            look.and_then(redis).into_iter().chain(headline.map(|check| check.found.clone())).collect()
        }
        Status::Unknown => checks.iter().map(|check| check.found.clone()).collect(),
        Status::Warning | Status::Critical => wrong(checks),
    };
    let line = format!("{} - {}", status.word(), told.join(", ").replace('|', "/"));
    match look.and_then(|look| performance(look, limits)) {
        Some(data) => format!("{line} | {data}"),
        None => line,
    }
}

/// The worst first.
fn wrong(checks: &[Check]) -> Vec<String> {
    let of = |verdict| checks.iter().filter(move |check| check.verdict == verdict);
    let told = |Check { what, found, .. }: &Check| format!("{what}: {found}");
    of(Judgement::Bad).chain(of(Judgement::Warning)).map(told).collect()
}

/// With several nodes, the node with the least room.
fn redis(look: &Look) -> Option<String> {
    let nodes = &look.servers.as_ref()?.as_ref().ok()?.nodes;
    let NodeFacts { address, facts, .. } = nodes.iter().flatten().max_by_key(|node| fullness(node))?;
    let (used, limit) = (facts.used_memory_bytes >> 20, facts.maxmemory_bytes >> 20);
    let memory = if limit == 0 { format!("{used} MiB used") } else { format!("{used} of {limit} MiB used") };
    let which = match nodes.len() {
        1 => String::new(),
        nodes => format!("{nodes} nodes, fullest {address}: "),
    };
    Some(format!("{which}version {}, {memory}", facts.version))
}

/// Thousandths of the memory limit that a node uses, zero without a limit; and the used bytes.
fn fullness(NodeFacts { facts, .. }: &NodeFacts) -> (u64, u64) {
    let used = facts.used_memory_bytes;
    (used.saturating_mul(1000).checked_div(facts.maxmemory_bytes).unwrap_or(0), used)
}

fn performance(look: &Look, limits: &Limits) -> Option<String> {
    let shards = look.shards.as_ref().ok()?;
    let topics = look.topics.as_ref()?.as_ref().ok()?;
    let limit = |limit: Option<f64>| limit.map(|limit| limit.to_string()).unwrap_or_default();
    let pair = |(warn, crit): Pair| format!("{};{}", limit(warn), limit(crit));
    let most = |of: fn(&Numbers) -> u64| topics.numbers.values().map(of).max().unwrap_or_default();
    let sum = |of: fn(&Numbers) -> u64| topics.numbers.values().map(of).sum::<u64>();
    let mut data = format!(
        "overdue={:.3}s;{};0 ready_age={:.3}s;{};0 ready={};{};0 dead={};{};0 pending={};;;0 shards={} held={}",
        shards.overdue().as_secs_f64(),
        pair(limits.overdue),
        topics.ready_ages(look.now()).map(|(_, age)| age).max().unwrap_or_default().as_secs_f64(),
        pair(limits.ready_age),
        most(|numbers| numbers.ready),
        pair(limits.ready),
        most(|numbers| numbers.dead),
        pair(limits.dead),
        sum(Numbers::pending),
        shards.seen.len(),
        shards.held(),
    );
    if let Some(Ok(fleet)) = &look.fleet {
        let (members, unplanned) = (fleet.members.len(), fleet.unplanned.len());
        data.push_str(&format!(" timers={members} unplanned={unplanned} drained={}", drained(fleet)));
    }
    Some(data)
}

fn drained(fleet: &Fleet) -> usize {
    fleet.members.iter().filter(|member| member.drained).count()
}

pub(super) fn prometheus(status: Status, look: Option<&Look>, checks: &[Check]) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, help: &str, values: Vec<(String, f64)>| {
        if values.is_empty() {
            return;
        }
        writeln!(text, "# HELP delayq_check_{name} {help}\n# TYPE delayq_check_{name} gauge")
            .expect("writing to a string cannot fail");
        for (labels, value) in values {
            writeln!(text, "delayq_check_{name}{labels} {value}").expect("writing to a string cannot fail");
        }
    };
    let one = |value: f64| vec![(String::new(), value)];
    metric(
        "status",
        "Result of delayq check: 0 ok, 1 warning, 2 critical, 3 unknown",
        one(status.code().into()),
    );
    let mut verdicts = BTreeMap::new();
    for Check { what, verdict, .. } in checks.iter().filter(|_| status != Status::Unknown) {
        let worst: &mut Status = verdicts.entry(format!("{{what=\"{what}\"}}")).or_insert(Status::Ok);
        *worst = (*worst).max(Status::from(*verdict));
    }
    let verdicts = verdicts.into_iter().map(|(what, status)| (what, f64::from(status.code())));
    metric("verdict", "Worst verdict of each check: 0 good, 1 warning, 2 bad", verdicts.collect());
    if let Some(Ok(shards)) = look.map(|look| &look.shards) {
        metric(
            "overdue_seconds",
            "Age of the oldest overdue message, of the worst shard",
            one(shards.overdue().as_secs_f64()),
        );
        metric("shards", "Shards of the deployment that answer", one(shards.seen.len() as f64));
        metric("shards_held", "Shards whose clock is not trusted", one(shards.held() as f64));
        metric("shards_never_owned", "Shards that no timer has ever owned", one(shards.unowned() as f64));
    }
    if let Some(Some(Ok(fleet))) = look.map(|look| &look.fleet) {
        metric("timers", "Timers that are registered in etcd", one(fleet.members.len() as f64));
        metric("timers_drained", "Timers that an operator has drained", one(drained(fleet) as f64));
        metric(
            "shards_unplanned",
            "Shards that the plan in etcd assigns to no timer",
            one(fleet.unplanned.len() as f64),
        );
    }
    let none = Topics::default();
    let topics = match look.map(|look| &look.topics) {
        Some(Some(Ok(topics))) => topics,
        _ => &none,
    };
    let now = look.map_or(UnixMillis::new(0), Look::now);
    let states: [StateCount; 4] = [
        ("delayed", |numbers| numbers.delayed),
        ("ready", |numbers| numbers.ready),
        ("leased", |numbers| numbers.leased),
        ("dead", |numbers| numbers.dead),
    ];
    // A topic's name has no character that a label would have to escape.
    let of_topics = topics.numbers.iter().flat_map(|(topic, numbers)| {
        states.map(|(state, of)| (format!("{{topic=\"{topic}\",state=\"{state}\"}}"), of(numbers) as f64))
    });
    metric("messages", "Messages of a topic by state", of_topics.collect());
    let ages = |of: fn(&Numbers) -> Option<UnixMillis>| {
        let ages = topics.numbers.iter().filter_map(|(topic, numbers)| {
            Some((format!("{{topic=\"{topic}\"}}"), now.since(of(numbers)?).as_secs_f64()))
        });
        ages.collect()
    };
    metric(
        "oldest_ready_seconds",
        "Age of the oldest ready message of a topic",
        ages(|numbers| numbers.oldest_ready),
    );
    metric(
        "oldest_unhandled_seconds",
        "Age of the oldest ready or leased message of a topic",
        ages(|numbers| numbers.oldest_unhandled),
    );
    text.trim_end().to_owned()
}

pub(super) fn human(output: Output, checks: &[Check]) -> String {
    let mut rows = output.rows(&["check", "status", "found", "what to do"]);
    for Check { what, verdict, found, advice, .. } in checks {
        let status = Status::from(*verdict).word();
        rows.judged(*verdict, [*what, status, found.as_str(), advice.as_str()]);
    }
    rows.text()
}
