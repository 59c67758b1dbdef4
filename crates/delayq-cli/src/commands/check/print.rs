//! A check as Nagios, Prometheus and people read it.

use super::judge::{Judged, Limits, Pair, Status, worst};
use super::look::{Fleet, Look};
use crate::output::Output;
use delayq::UnixMillis;
use delayq::admin::Numbers;
use std::fmt::Write as _;

/// The name of a state, and how many messages are in it.
type State = (&'static str, fn(&Numbers) -> u64);

/// One line: the status, what is wrong or else everything, and the performance data behind a bar.
pub(super) fn nagios(look: &Look, judged: &[Judged], limits: &Limits) -> String {
    let status = worst(judged);
    let is_told = |one: &&Judged| status == Status::Ok || one.status != Status::Ok;
    let told: Vec<String> = judged.iter().filter(is_told).map(|one| one.found.replace('|', "/")).collect();
    let line = format!("{} - {}", status.word(), told.join(", "));
    match performance(look, limits) {
        data if data.is_empty() => line,
        data => format!("{line} | {data}"),
    }
}

fn performance(look: &Look, limits: &Limits) -> String {
    let Some(shards) = &look.shards else { return String::new() };
    let limit = |limit: Option<f64>| limit.map(|limit| limit.to_string()).unwrap_or_default();
    let pair = |(warn, crit): Pair| format!("{};{}", limit(warn), limit(crit));
    let most = |of: fn(&Numbers) -> u64| look.topics.values().map(of).max().unwrap_or_default();
    let sum = |of: fn(&Numbers) -> u64| look.topics.values().map(of).sum::<u64>();
    let mut data = format!(
        "overdue={:.3}s;{};0 ready_age={:.3}s;{};0 ready={};{};0 dead={};{};0 pending={};;;0 shards={} held={}",
        shards.overdue.as_secs_f64(),
        pair(limits.overdue),
        look.ready_ages().map(|(_, age)| age).max().unwrap_or_default().as_secs_f64(),
        pair(limits.ready_age),
        most(|numbers| numbers.ready),
        pair(limits.ready),
        most(|numbers| numbers.dead),
        pair(limits.dead),
        sum(Numbers::pending),
        shards.count,
        shards.held,
    );
    if let Some(Ok(fleet)) = &look.fleet {
        let Fleet { members, unplanned, drained } = fleet;
        data.push_str(&format!(" timers={members} unplanned={unplanned} drained={drained}"));
    }
    data
}

/// The text format of Prometheus.
pub(super) fn prometheus(look: &Look, status: Status) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, help: &str, values: Vec<(String, f64)>| {
        if values.is_empty() {
            return;
        }
        writeln!(text, "# HELP delayq_check_{name} {help}\n# TYPE delayq_check_{name} gauge")
            .expect("a string takes whatever is written");
        for (labels, value) in values {
            writeln!(text, "delayq_check_{name}{labels} {value}")
                .expect("a string takes whatever is written");
        }
    };
    let one = |value: f64| vec![(String::new(), value)];
    metric(
        "status",
        "What delayq check found: 0 ok, 1 warning, 2 critical, 3 unknown",
        one(status.code().into()),
    );
    if let Some(shards) = &look.shards {
        metric(
            "overdue_seconds",
            "How long the longest overdue shard has been due",
            one(shards.overdue.as_secs_f64()),
        );
        metric("shards", "Shards of the deployment", one(shards.count as f64));
        metric("shards_held", "Shards whose clock is not trusted", one(shards.held as f64));
        metric("shards_never_owned", "Shards that no timer has ever owned", one(shards.unowned as f64));
    }
    if let Some(Ok(fleet)) = &look.fleet {
        metric("timers", "Timers that are registered in etcd", one(fleet.members as f64));
        metric("timers_drained", "Timers that an operator keeps without shards", one(fleet.drained as f64));
        metric(
            "shards_unplanned",
            "Shards that the plan in etcd gives to no timer",
            one(fleet.unplanned as f64),
        );
    }
    let states: [State; 4] = [
        ("delayed", |numbers| numbers.delayed),
        ("ready", |numbers| numbers.ready),
        ("leased", |numbers| numbers.leased),
        ("dead", |numbers| numbers.dead),
    ];
    // A topic's name has no character that a label would have to escape.
    let of_topics = look.topics.iter().flat_map(|(topic, numbers)| {
        states.map(|(state, of)| (format!("{{topic=\"{topic}\",state=\"{state}\"}}"), of(numbers) as f64))
    });
    metric("messages", "Messages of a topic by state", of_topics.collect());
    let ages = |of: fn(&Numbers) -> Option<UnixMillis>| {
        let ages = look.topics.iter().filter_map(|(topic, numbers)| {
            Some((format!("{{topic=\"{topic}\"}}"), look.age(of(numbers))?.as_secs_f64()))
        });
        ages.collect()
    };
    metric(
        "oldest_ready_seconds",
        "How long the oldest ready message of a topic has waited for a consumer",
        ages(|numbers| numbers.oldest_ready),
    );
    metric(
        "oldest_unhandled_seconds",
        "How long the oldest message of a topic that is ready or leased has waited",
        ages(|numbers| numbers.oldest_unhandled),
    );
    text.trim_end().to_owned()
}

/// A table.
pub(super) fn human(output: Output, judged: &[Judged]) -> String {
    let mut rows = output.rows(&["check", "status", "found"]);
    for one in judged {
        rows.judged(one.status, [one.what.to_owned(), one.status.word().to_owned(), one.found.clone()]);
    }
    rows.text()
}
