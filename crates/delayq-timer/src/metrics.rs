//! The timer's metrics.

use crate::survey::Totals;
use delayq::protocol::{PumpReport, ShardId};
use delayq_cluster::ClusterStats;
use delayq_service::config::HumanDuration;
use delayq_service::{Lateness, Metrics};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Upper bounds of the buckets of the pump's time, in seconds.
const PUMP_BUCKETS: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 1.0, 5.0];

/// The timer's metrics; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct TimerMetrics {
    pub(crate) lateness: Lateness,
    pub(crate) moved: Counter,
    pub(crate) returned: Counter,
    pub(crate) buried: Counter,
    pub(crate) expired: Counter,
    pub(crate) forgotten: Counter,
    pub(crate) topics_forgotten: Counter,
    pub(crate) blocked: Counter,
    calls: Family<OfOutcome, Counter>,
    pub(crate) fenced: Counter,
    pub(crate) handed_over: Counter,
    pub(crate) resyncs: Counter,
    pub(crate) turns: Counter,
    pub(crate) clock_jumps: Counter,
    pub(crate) rescued: Counter,
    pub(crate) adopted: Counter,
    pub(crate) older_data: Counter,
    pub(crate) shards: Gauge,
    epochs: Family<OfShard, Gauge>,
    pub(crate) degraded: Gauge,
    pub(crate) etcd_refuses_writes: Gauge,
    pub(crate) drained: Gauge,
    pub(crate) leader: Gauge,
    pub(crate) hindered: Gauge,
    pub(crate) hindrance_changes: Counter,
    pub(crate) clock_held: Gauge,
    pub(crate) stalled: Gauge,
    next_due: Gauge<f64, AtomicU64>,
    oldest_overdue: Gauge<f64, AtomicU64>,
    lease_margin: Gauge<f64, AtomicU64>,
    to_take: ToTake,
    pub(crate) books_counted: Counter,
    books_off: Gauge,
    pub(crate) round_trip: Gauge<f64, AtomicU64>,
    pub(crate) pump_time: Histogram,
    pub(crate) membership: Family<OfEvent, Counter>,
}

/// The epoch under which a shard is pumped here: exported until this value is dropped.
#[derive(Debug)]
pub(crate) struct ExportedEpoch {
    epochs: Family<OfShard, Gauge>,
    shard: OfShard,
}

/// Messages for consumers to take, now and soon.
#[derive(Clone, Debug)]
struct ToTake {
    free: Gauge,
    held: Gauge,
    oldest_ready: Gauge<f64, AtomicU64>,
    leased: Gauge,
    due: Vec<Gauge>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfShard {
    shard: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfHorizon {
    within: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
}

/// The outcomes of a call: a pump moved a message; came for a due time and found nothing; found only blocked messages;
/// only polled; or a pump or claim had no usable answer.
const OUTCOMES: [&str; 5] = ["moved", "empty", "blocked", "polled", "failed"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfEvent {
    event: &'static str,
}

type Event = (&'static str, fn(&ClusterStats) -> u64);

const EVENTS: [Event; 10] = [
    ("request", |stats| stats.requests),
    ("keep_alive", |stats| stats.keep_alives),
    ("reconnect", |stats| stats.reconnects),
    ("relist", |stats| stats.relists),
    ("compacted", |stats| stats.compacted),
    ("lease_granted", |stats| stats.leases_granted),
    ("lease_lost", |stats| stats.leases_lost),
    ("plan_published", |stats| stats.plans_published),
    ("plan_overtaken", |stats| stats.plans_overtaken),
    ("degraded", |stats| stats.degraded),
];

// === impl TimerMetrics ===

impl TimerMetrics {
    pub(crate) fn register(metrics: &Metrics, horizons: &[HumanDuration]) -> Self {
        let lateness =
            metrics.lateness("lateness", "From a message's due time until it was ready, by Redis's clock");
        let counter = |name: &str, help: &str| metrics.register(name, help, Counter::default());
        let gauge = |name: &str, help: &str| metrics.register(name, help, Gauge::default());
        let seconds = |name: &str, help: &str| {
            metrics.register_with_unit(name, help, Unit::Seconds, Gauge::<f64, AtomicU64>::default())
        };
        Self {
            to_take: ToTake::register(metrics, horizons),
            books_counted: counter("timer_books_counted", "Topics of a shard whose books were looked at"),
            books_off: gauge(
                "timer_books_off_messages",
                "By how many messages the books of topics do not balance, as each shard that is pumped here answered last",
            ),
            lateness,
            moved: counter("timer_moved", "Messages that became ready"),
            returned: counter("timer_leases_returned", "Leases that ran out"),
            buried: counter("timer_buried", "Messages whose attempts were used up"),
            expired: counter("timer_expired", "Messages that expired"),
            forgotten: counter("timer_forgotten", "Finished ids that were forgotten"),
            topics_forgotten: counter(
                "timer_topics_forgotten",
                "Empty topics that were not used for long and were forgotten, once for each of their shards",
            ),
            blocked: counter(
                "timer_blocked",
                "Times that a key of the wrong type, or a denied command, kept something from being moved",
            ),
            calls: metrics.register(
                "timer_pump_calls",
                "Pumps of one shard that moved something, came for a due time and were empty or blocked, or only polled; and pumps and claims that failed",
                zeroed(OUTCOMES.map(|outcome| OfOutcome { outcome })),
            ),
            fenced: counter(
                "timer_fenced",
                "Pumps of shards that the plan gives to this timer, refused because a newer owner has a higher epoch",
            ),
            handed_over: counter("timer_handed_over", "Shards that were pumped here until their new owner fenced them"),
            turns: counter("timer_turns", "Turns of the loop: one for each thing that happens to it"),
            resyncs: counter(
                "timer_resyncs",
                "Times that wake-ups may have been lost and every shard was polled",
            ),
            clock_jumps: counter("timer_clock_jumps", "Jumps of Redis's clock beyond max_clock_step"),
            rescued: counter(
                "timer_rescued",
                "Messages of other timers' shards that were long overdue and pumped here",
            ),
            adopted: counter(
                "timer_adopted",
                "Shards that nobody pumped and that this timer claimed, whatever the plan said",
            ),
            older_data: counter(
                "timer_older_data",
                "Pumps of a shard that found older data than the pump before: writes in between may be missing",
            ),
            shards: gauge("timer_shards", "Shards that are pumped here"),
            epochs: metrics.register(
                "timer_epoch",
                "The epoch under which a shard is pumped here",
                Family::default(),
            ),
            degraded: gauge(
                "timer_degraded",
                "1 while etcd does not answer and what is owned is still pumped",
            ),
            etcd_refuses_writes: gauge(
                "timer_etcd_refuses_writes",
                "1 while etcd answers and takes no writes: no plan replaces a timer that ends",
            ),
            drained: gauge(
                "timer_drained",
                "1 while an operator keeps this timer without shards: `delayq timers drain`",
            ),
            leader: gauge(
                "timer_leader",
                "1 while this timer leads the fleet, and checks every shard for what is overdue",
            ),
            hindered: gauge(
                "timer_hindered",
                "1 while shards are out of this timer's reach, and timers that reach them are given them",
            ),
            hindrance_changes: counter("timer_hindrance_changes", "Changes of `delayq_timer_hindered`"),
            clock_held: gauge("timer_clock_held", "1 while Redis's clock is not trusted and shards are held"),
            stalled: gauge("timer_stalled", "1 while what is due in a shard that is pumped here does not move"),
            next_due: seconds(
                "timer_next_due_timestamp",
                "Unix time at which something is due next in a shard that is pumped here; 0 for nothing",
            ),
            oldest_overdue: seconds(
                "timer_oldest_overdue",
                "How long the first due message has been waiting, also in a shard that nobody pumps",
            ),
            lease_margin: seconds(
                "timer_lease_margin",
                "How long the lease in etcd is trusted without another answer; 0 without a lease, +Inf without etcd",
            ),
            round_trip: seconds("timer_round_trip", "The last pipeline's time from sending to answer"),
            membership: metrics.register(
                "timer_membership_events",
                "What the membership did with etcd: requests, keep-alives, leases, plans",
                zeroed(EVENTS.map(|(event, _)| OfEvent { event })),
            ),
            pump_time: metrics.register_with_unit(
                "timer_pump",
                "From sending a pipeline of pumps to its answer",
                Unit::Seconds,
                Histogram::new(PUMP_BUCKETS),
            ),
        }
    }

    /// `due` is true for a pump sent for a due time. Returns true if such a pump found nothing to do.
    pub(crate) fn count(&self, report: &PumpReport, due: bool) -> bool {
        for &(due, n) in &report.runs {
            let late = report.now.since(due);
            (0..n).for_each(|_| self.lateness.observe(late));
        }
        self.moved.inc_by(report.moved);
        self.returned.inc_by(report.returned);
        self.buried.inc_by(report.buried);
        self.expired.inc_by(report.expired);
        self.forgotten.inc_by(report.forgotten);
        self.blocked.inc_by(report.blocked);
        let done = report.moved + report.returned + report.buried + report.expired + report.forgotten;
        self.call(match (due, done, report.blocked) {
            (true, 0, 0) => "empty",
            (true, 0, _) => "blocked",
            (true, ..) => "moved",
            (false, ..) => "polled",
        });
        due && done + report.blocked == 0
    }

    pub(crate) fn call_failed(&self) {
        self.call("failed");
    }

    fn call(&self, outcome: &'static str) {
        debug_assert!(OUTCOMES.contains(&outcome), "{outcome} is exported from the start like the others");
        self.calls.get_or_create(&OfOutcome { outcome }).inc();
    }

    /// Exports the next due time in seconds of Unix time, how long the first due message has been waiting, and how long
    /// the lease is trusted.
    pub(crate) fn stands(&self, next_due: Option<f64>, overdue: f64, lease_margin: f64) {
        self.next_due.set(next_due.unwrap_or(0.0));
        self.oldest_overdue.set(overdue);
        self.lease_margin.set(lease_margin);
    }

    pub(crate) fn surveyed(&self, totals: &Totals) {
        self.to_take.set(totals);
    }

    pub(crate) fn books_off(&self, messages: u64) {
        self.books_off.set(i64::try_from(messages).unwrap_or(i64::MAX));
    }

    /// Adds the events between the two.
    pub(crate) fn etcd(&self, before: &ClusterStats, now: &ClusterStats) {
        for (event, count) in EVENTS {
            let more = count(now).saturating_sub(count(before));
            self.membership.get_or_create(&OfEvent { event }).inc_by(more);
        }
    }

    pub(crate) fn pipeline(&self, took: Duration) {
        self.pump_time.observe(took.as_secs_f64());
        self.round_trip.set(took.as_secs_f64());
    }

    /// The exported epoch of a shard that is pumped here.
    pub(crate) fn epoch_of(&self, shard: ShardId) -> ExportedEpoch {
        ExportedEpoch { epochs: self.epochs.clone(), shard: OfShard { shard: shard.get() } }
    }
}

// === impl ExportedEpoch ===

impl ExportedEpoch {
    pub(crate) fn set(&self, epoch: u64) {
        self.epochs.get_or_create(&self.shard).set(i64::try_from(epoch).unwrap_or(i64::MAX));
    }
}

impl Drop for ExportedEpoch {
    fn drop(&mut self) {
        self.epochs.remove(&self.shard);
    }
}

// === impl ToTake ===

impl ToTake {
    fn register(metrics: &Metrics, horizons: &[HumanDuration]) -> Self {
        let gauge = |name: &str, help: &str| metrics.register(name, help, Gauge::default());
        let due: Family<OfHorizon, Gauge> = metrics.register(
            "timer_due_messages",
            "Delayed messages that are due within this time, as each shard that is pumped here answered last",
            Family::default(),
        );
        let of_horizon =
            |horizon: &HumanDuration| due.get_or_create_owned(&OfHorizon { within: horizon.to_string() });
        let ready: Family<OfState, Gauge> = metrics.register(
            "timer_ready_messages",
            "Ready messages, free or held (by their groups, or because their topic is paused), as each shard that is \
             pumped here answered last",
            Family::default(),
        );
        let of_state = |state| ready.get_or_create_owned(&OfState { state });
        Self {
            free: of_state("free"),
            held: of_state("held"),
            oldest_ready: metrics.register_with_unit(
                "timer_oldest_ready",
                "For how long the oldest ready message has waited for a consumer, as each shard that is pumped here answered last",
                Unit::Seconds,
                Gauge::default(),
            ),
            leased: gauge(
                "timer_leased_messages",
                "Leased messages, as each shard that is pumped here answered last",
            ),
            due: horizons.iter().map(of_horizon).collect(),
        }
    }

    fn set(&self, totals: &Totals) {
        let set = |gauge: &Gauge, messages: u64| _ = gauge.set(i64::try_from(messages).unwrap_or(i64::MAX));
        set(&self.free, totals.ready.saturating_sub(totals.held));
        set(&self.held, totals.held);
        self.oldest_ready.set(totals.oldest_ready.as_secs_f64());
        set(&self.leased, totals.leased);
        self.due.iter().zip(&totals.due).for_each(|(gauge, &messages)| set(gauge, messages));
    }
}

/// A family in which these labels have a series from the start, so that a rate sees their first count.
pub(crate) fn zeroed<L, const N: usize>(labels: [L; N]) -> Family<L, Counter>
where
    L: Clone + std::hash::Hash + Eq,
{
    let family = Family::default();
    for labels in labels {
        let _: Counter = family.get_or_create_owned(&labels);
    }
    family
}
