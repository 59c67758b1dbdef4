//! The rows of each page, computed from two looks. Pure.

use super::sample::Sample;
use crate::commands::topics::flow;
use crate::output::Judgement;
use delayq::admin::Numbers;
use delayq::{Topic, UnixMillis};
use delayq_look::{Circuit, Look, ProcessSeen, Shard, Topics};
use serde::Serialize;
use std::time::Duration;

/// A shard overdue for this long is shown in red.
const OVERDUE: Duration = Duration::from_secs(2);

/// The contents of the screen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Frame {
    pub(super) shards: Vec<ShardRow>,
    pub(super) topics: Vec<TopicRow>,
    pub(super) processes: Vec<ProcessRow>,
    pub(super) destinations: Vec<DestinationRow>,
    /// Parts that could not be seen.
    pub(super) unseen: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ShardRow {
    shard: u16,
    owner: String,
    epoch: u64,
    messages: u64,
    /// Growth of the number of messages per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    growth_per_s: Option<f64>,
    leases: u64,
    overdue_ms: u64,
    held: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct TopicRow {
    topic: Topic,
    delayed: u64,
    ready: u64,
    leased: u64,
    dead: u64,
    /// Zero without a ready message.
    ready_for_ms: u64,
    unhandled_for_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_per_s: Option<f64>,
    flow: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ProcessRow {
    name: String,
    pub(super) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u64>,
    /// Messages that a timer made ready, or a forwarder settled, each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moved_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_overdue_ms: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DestinationRow {
    name: String,
    sink: String,
    destination: String,
    circuit: &'static str,
}

/// A row as text: colour and cells.
pub(super) type Line = (Option<Judgement>, Vec<String>);

/// A page: columns, marked as in [`Output::rows`](crate::output::Output::rows), and rows.
pub(super) struct Table {
    pub(super) columns: Vec<&'static str>,
    pub(super) lines: Vec<Line>,
}

/// The pages of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    Shards,
    Topics,
    Processes,
    Destinations,
}

// === impl Page ===

impl Page {
    pub(super) const ALL: [Self; 4] = [Self::Shards, Self::Topics, Self::Processes, Self::Destinations];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Shards => "shards",
            Self::Topics => "topics",
            Self::Processes => "processes",
            Self::Destinations => "destinations",
        }
    }
}

// === impl Frame ===

impl Frame {
    /// The rows, with rates since the earlier look.
    pub(super) fn between(before: Option<&Sample>, now: &Sample) -> Self {
        let seconds = before.map(|before| now.at.saturating_duration_since(before.at).as_secs_f64());
        let Look { shards, topics, .. } = &now.look;
        let since = Since { before, now: now.look.now(), seconds: seconds.filter(|&seconds| seconds > 0.0) };
        let topics = topics.iter().flatten();
        let uncounted = topics.clone().map(Topics::uncounted).filter(|&uncounted| uncounted > 0);
        let uncounted = uncounted.map(|uncounted| format!("{uncounted} topics more than are counted"));
        let counted = topics.flat_map(|topics| &topics.numbers);
        Self {
            shards: shards.iter().flat_map(|shards| &shards.seen).map(|shard| since.shard(shard)).collect(),
            topics: counted.map(|(topic, n)| since.topic(topic, n)).collect(),
            processes: now.processes.iter().map(|process| since.process(process)).collect(),
            destinations: now.processes.iter().flat_map(destinations).collect(),
            unseen: now.missing().into_iter().chain(uncounted).collect(),
        }
    }

    /// A page as text.
    pub(super) fn table(&self, page: Page) -> Table {
        match page {
            Page::Shards => Table {
                columns: vec![
                    ">shard",
                    "owner",
                    ">messages",
                    ">+/s",
                    ">leases",
                    ">overdue",
                    ">epoch",
                    "clock",
                ],
                lines: self.shards.iter().map(ShardRow::line).collect(),
            },
            Page::Topics => Table {
                columns: vec![
                    "topic",
                    ">delayed",
                    ">ready",
                    ">leased",
                    ">dead",
                    "?>ready for",
                    "?>unhandled",
                    ">in/s",
                    ">out/s",
                    "flow",
                ],
                lines: self.topics.iter().map(TopicRow::line).collect(),
            },
            Page::Processes => Table {
                columns: vec![
                    "process",
                    "state",
                    ">shards",
                    ">moved/s",
                    ">late p50",
                    ">late p99",
                    ">overdue",
                ],
                lines: self.processes.iter().map(ProcessRow::line).collect(),
            },
            Page::Destinations => Table {
                columns: vec!["process", "sink", "destination", "circuit"],
                lines: self.destinations.iter().map(DestinationRow::line).collect(),
            },
        }
    }
}

/// The reference for rates and ages.
struct Since<'s> {
    before: Option<&'s Sample>,
    /// Redis's clock.
    now: UnixMillis,
    seconds: Option<f64>,
}

// === impl Since ===

impl Since<'_> {
    fn rate(&self, before: Option<f64>, now: f64) -> Option<f64> {
        Some((now - before?) / self.seconds?)
    }

    fn age_ms(&self, since: Option<UnixMillis>) -> u64 {
        since.map_or(0, |since| self.now.since(since).as_millis() as u64)
    }

    fn shard(&self, shard: &Shard) -> ShardRow {
        let earlier = self.before.and_then(|before| before.look.shards.as_ref().ok());
        let earlier = earlier.and_then(|shards| shards.seen.iter().find(|other| other.id == shard.id));
        let overview = &shard.overview;
        ShardRow {
            shard: shard.id.get(),
            owner: overview.owner.clone(),
            epoch: overview.epoch,
            messages: shard.messages(),
            growth_per_s: self.rate(earlier.map(|shard| shard.messages() as f64), shard.messages() as f64),
            leases: overview.leases,
            overdue_ms: shard.overdue().as_millis() as u64,
            held: overview.held,
        }
    }

    fn topic(&self, topic: &Topic, numbers: &Numbers) -> TopicRow {
        let earlier = self.before.and_then(|before| before.look.topics.as_ref()?.as_ref().ok());
        let earlier = earlier.and_then(|topics| topics.numbers.get(topic));
        let rate = |of: fn(&Numbers) -> u64| {
            // A topic that is new since the earlier look had nothing.
            let zero = self.before.map(|_| 0.0);
            self.rate(earlier.map(|numbers| of(numbers) as f64).or(zero), of(numbers) as f64)
        };
        TopicRow {
            topic: topic.clone(),
            delayed: numbers.delayed,
            ready: numbers.ready,
            leased: numbers.leased,
            dead: numbers.dead,
            ready_for_ms: self.age_ms(numbers.oldest_ready),
            unhandled_for_ms: self.age_ms(numbers.oldest_unhandled),
            accepted_per_s: rate(|numbers| numbers.accepted),
            delivered_per_s: rate(|numbers| numbers.delivered),
            flow: flow(numbers),
        }
    }

    fn process(&self, process: &ProcessSeen) -> ProcessRow {
        let exported = match &process.exported {
            Ok(exported) => exported,
            Err(why) => return ProcessRow::silent(&process.name, why),
        };
        let earlier = self.before.and_then(|before| before.processes.iter().find(|p| p.name == process.name));
        let late = |part| process.lateness(earlier, part);
        let earlier = earlier.and_then(|process| process.exported.as_ref().ok());
        let ms = |seconds: f64| seconds * 1000.0;
        let moved = ["delayq_timer_moved_total", "delayq_forwarder_settled_total"]
            .into_iter()
            .find_map(|name| self.rate(earlier.and_then(|e| e.sum(name)), exported.sum(name)?));
        let state = match process.state() {
            "not_ready" => "NOT READY",
            state => state,
        };
        ProcessRow {
            name: process.name.clone(),
            state: state.to_owned(),
            shards: process.shards(),
            moved_per_s: moved,
            lateness_p50_ms: late(0.5).map(ms),
            lateness_p99_ms: late(0.99).map(ms),
            oldest_overdue_ms: process.overdue().map(ms),
        }
    }
}

/// The destinations of a forwarder, with the circuit state of each.
fn destinations(process: &ProcessSeen) -> Vec<DestinationRow> {
    let row = |end: delayq_look::RouteEnd| DestinationRow {
        name: process.name.clone(),
        sink: end.sink,
        destination: end.destination,
        circuit: match end.circuit {
            Circuit::Closed => "closed",
            Circuit::HalfOpen => "half open",
            Circuit::Open => "OPEN",
            Circuit::Rests => "rests: it rejects",
        },
    };
    process.destinations().into_iter().map(row).collect()
}

// === impl rows ===

impl ShardRow {
    fn line(&self) -> Line {
        let overdue = Duration::from_millis(self.overdue_ms);
        let bad = self.held || self.owner.is_empty() || overdue >= OVERDUE;
        let cells = [
            self.shard.to_string(),
            if self.owner.is_empty() { "nobody yet".to_owned() } else { self.owner.clone() },
            self.messages.to_string(),
            number(self.growth_per_s),
            self.leases.to_string(),
            age(self.overdue_ms),
            self.epoch.to_string(),
            if self.held { "HELD" } else { "trusted" }.to_owned(),
        ];
        (bad.then_some(Judgement::Bad), cells.into())
    }
}

impl TopicRow {
    fn line(&self) -> Line {
        let counts = [self.delayed, self.ready, self.leased, self.dead].map(|count| count.to_string());
        let rates = [self.accepted_per_s, self.delivered_per_s].map(number);
        let ages = [self.ready_for_ms, self.unhandled_for_ms].map(age);
        let cells = std::iter::once(self.topic.to_string()).chain(counts).chain(ages).chain(rates);
        let judgement = (self.dead > 0 || self.flow == "paused").then_some(Judgement::Warning);
        (judgement, cells.chain([self.flow.clone()]).collect())
    }
}

impl ProcessRow {
    pub(super) fn silent(name: &str, why: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: format!("SILENT: {why}"),
            shards: None,
            moved_per_s: None,
            lateness_p50_ms: None,
            lateness_p99_ms: None,
            oldest_overdue_ms: None,
        }
    }

    fn line(&self) -> Line {
        let ms = |ms: Option<f64>| ms.map_or(String::new(), |ms| format!("{ms} ms"));
        let overdue = self.oldest_overdue_ms.map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1000.0));
        let cells = [
            self.name.clone(),
            self.state.clone(),
            self.shards.map_or(String::new(), |shards| shards.to_string()),
            number(self.moved_per_s),
            ms(self.lateness_p50_ms),
            ms(self.lateness_p99_ms),
            overdue.filter(|overdue| !overdue.is_zero()).map_or(String::new(), seconds),
        ];
        let judgement = match self.state.as_str() {
            "ready" => None,
            "drained" => Some(Judgement::Warning),
            _ => Some(Judgement::Bad),
        };
        (judgement, cells.into())
    }
}

impl DestinationRow {
    fn line(&self) -> Line {
        let judgement = match self.circuit {
            "closed" => None,
            "half open" => Some(Judgement::Warning),
            _ => Some(Judgement::Bad),
        };
        let Self { name, sink, destination, circuit } = self;
        (judgement, vec![name.clone(), sink.clone(), destination.clone(), (*circuit).to_owned()])
    }
}

/// A duration in a fixed unit, so that rows can be sorted by duration.
fn seconds(length: Duration) -> String {
    format!("{:.1} s", length.as_secs_f64())
}

/// A waiting time; empty for zero.
fn age(ms: u64) -> String {
    if ms == 0 { String::new() } else { seconds(Duration::from_millis(ms)) }
}

/// A rate; empty without an earlier look.
fn number(rate: Option<f64>) -> String {
    rate.map_or(String::new(), |rate| format!("{rate:.0}"))
}
