//! Log events: one function per event writes the log line and the metric, so that both stay in step.

use crate::codes::{CLOCK, FOREIGN_FLEET};
use crate::metrics::{ExportedEpoch, TimerMetrics};
use crate::progress::Stall;
use crate::sweep_metrics::{OfKind, SweepMetrics};
use delayq::admin::{SweptFault, SweptMending};
use delayq::protocol::ShardId;
use delayq::{Error, Topic, UnixMillis};
use delayq_cluster::{SINGLE_MODE_LIMITS, Trust};
use delayq_service::codes::redis::cause_of;
use delayq_service::when::time;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) fn started(name: &str, redis: &str, shards: u16, single: bool) {
    tracing::info!(name, redis, shards, "the timer begins");
    if single {
        tracing::warn!("{SINGLE_MODE_LIMITS}");
    }
}

pub(crate) fn owned(exported: &ExportedEpoch, shard: ShardId, epoch: u64) {
    exported.set(epoch);
    tracing::debug!(%shard, epoch, "owned");
}

/// The plan took away a shard that was not claimed yet, or gave the shard to nobody.
pub(crate) fn parted(shard: ShardId) {
    tracing::debug!(%shard, "no longer planned for this timer");
}

/// The new owner has the epoch `known`.
pub(crate) fn handed_over(metrics: &TimerMetrics, shard: ShardId, known: u64) {
    metrics.handed_over.inc();
    tracing::debug!(%shard, known, "handed over");
}

pub(crate) fn locked_out(shard: ShardId, owner: &str) {
    tracing::error!(%shard, owner, "not pumping: another timer has the lock");
}

/// A newer owner has the epoch `known`.
pub(crate) fn fenced(metrics: &TimerMetrics, shard: ShardId, epoch: u64, known: u64) {
    metrics.fenced.inc();
    tracing::warn!(%shard, epoch, known, "a newer owner pumps this shard: no message was moved");
}

pub(crate) fn trust_changed(metrics: &TimerMetrics, trust: Trust) {
    let degraded = matches!(trust, Trust::Degraded { .. });
    metrics.degraded.set(i64::from(degraded));
    let name = trust.name();
    match trust {
        Trust::Degraded { .. } => {
            tracing::error!(
                trust = name,
                "no reply from etcd: pumping the owned shards until another timer fences them"
            );
        }
        Trust::Lost { .. } => {
            tracing::warn!(
                trust = name,
                "the lease in etcd is gone: pumping the owned shards until another timer fences them"
            );
        }
        _ => tracing::info!(trust = name, "membership"),
    }
}

pub(crate) fn kept_out(why: &str) {
    tracing::error!(code = FOREIGN_FLEET.id, why, "not joining the fleet: pumping only long overdue shards");
}

pub(crate) fn drain_changed(metrics: &TimerMetrics, drained: bool) {
    metrics.drained.set(i64::from(drained));
    if drained {
        tracing::info!("drained: other timers get this timer's shards, until `delayq timers undrain`");
    } else {
        tracing::info!("undrained: this timer takes shards again");
    }
}

pub(crate) fn clock_jumped(metrics: &TimerMetrics, by_us: i64, shards: usize, redis: &str) {
    metrics.clock_jumps.inc();
    let by_ms = by_us / 1000;
    tracing::error!(code = CLOCK.id, by_ms, shards, redis, "Redis's clock jumped: holding its shards");
}

pub(crate) fn clock_steady(redis: &str) {
    tracing::warn!(code = CLOCK.id, redis, "Redis's clock is steady again: resuming its shards");
}

pub(crate) fn moved(shard: ShardId, from: &str, to: &str) {
    tracing::info!(%shard, from, to, "a shard moved to another node");
}

pub(crate) fn redis_lost(redis: &str, error: &Error) {
    tracing::error!(redis, %error, "Redis cannot be used: no message of its shards becomes ready");
}

pub(crate) fn redis_back(redis: &str, after: Duration) {
    tracing::warn!(redis, ?after, "Redis can be used again");
}

/// The set of unreachable shards changed: the shards of these Redises, and a number of other missing shards.
pub(crate) fn hindrance_changed(metrics: &TimerMetrics, unreached: &[&str], missing: usize) {
    let is_hindered = !unreached.is_empty() || missing > 0;
    metrics.hindered.set(i64::from(is_hindered));
    metrics.hindrance_changes.inc();
    if is_hindered {
        let redis = unreached.join(", ");
        tracing::warn!(
            redis,
            missing,
            "some shards are out of reach: leaving them to timers that can reach them"
        );
    } else {
        tracing::info!("every shard is within reach again");
    }
}

/// This timer adopted a shard that nobody pumped, until the timer named in the plan claims the shard.
pub(crate) fn adopted(metrics: &TimerMetrics, shard: ShardId, epoch: u64) {
    metrics.adopted.inc();
    tracing::warn!(%shard, epoch, "no timer pumped this shard: pumping it until its planned timer claims it");
}

/// Redis came back with older data; `since` is the time of the last pump in the data, zero without a pump.
pub(crate) fn older(metrics: &TimerMetrics, shard: ShardId, since: UnixMillis, redis: &str) {
    metrics.older_data.inc();
    let since = time(since);
    tracing::error!(%shard, redis, since, "Redis came back with older data: writes since then may be missing");
}

/// Redis answers but lacks the shard, or keeps another layout or deployment than this process knows.
pub(crate) fn shard_missing(shard: ShardId, error: &Error, redis: &str) {
    tracing::error!(code = cause_of(error).map(|code| code.id), %shard, redis, %error, "this shard is not served");
}

pub(crate) fn stalled(metrics: &TimerMetrics, stall: Stall) {
    metrics.stalled.set(1);
    match stall {
        Stall::Still => tracing::error!("not ready: messages are overdue, and none has moved for 2 s"),
        Stall::Blocked(shard) => {
            tracing::error!(%shard, "not ready: due messages of the shard cannot be moved, and no other \
                                     message has moved for 2 s");
        }
        Stall::Failing(shard) => tracing::error!(%shard, "not ready: pumps of the shard have failed for 2 s"),
    }
}

pub(crate) fn moving(metrics: &TimerMetrics) {
    metrics.stalled.set(0);
    tracing::info!("due messages move again");
}

pub(crate) fn rescued(metrics: &TimerMetrics, shard: ShardId, moved: u64) {
    metrics.rescued.inc_by(moved);
    tracing::warn!(%shard, moved, "no timer pumped this shard for 10 s: claiming it");
}

pub(crate) fn blocked(shard: ShardId, blocked: u64) {
    tracing::error!(%shard, blocked, "messages cannot be moved: a key has the wrong type, or a command is \
                                      denied");
}

/// `is_news`: this timer has not reported the topic yet.
pub(crate) fn topic_forgotten(metrics: &TimerMetrics, topic: &Topic, shard: ShardId, is_news: bool) {
    metrics.topics_forgotten.inc();
    if is_news {
        tracing::info!(%topic, %shard, "forgot an empty topic, unused for long");
    } else {
        tracing::debug!(%topic, %shard, "another shard forgot the topic");
    }
}

pub(crate) fn books_off(shard: ShardId, topic: &Topic) {
    tracing::error!(%topic, %shard, "the topic's counters do not add up: see `delayq audit`");
}

/// The findings of one sweep, by kind: an example, the number found, and the number repaired.
#[derive(Default)]
pub(crate) struct SweptAll(BTreeMap<&'static str, SweptKind>);

#[derive(Default)]
struct SweptKind {
    example: String,
    found: u64,
    mended: u64,
    why_not: Option<String>,
}

// === impl SweptAll ===

impl SweptAll {
    pub(crate) fn add(&mut self, metrics: &SweepMetrics, fault: SweptFault) {
        let label = OfKind { kind: fault.kind };
        metrics.found.get_or_create(&label).inc();
        let kind = self.0.entry(fault.kind).or_default();
        kind.found += 1;
        match fault.mending {
            SweptMending::Mended => {
                kind.mended += 1;
                metrics.mended.get_or_create(&label).inc();
            }
            SweptMending::Failed(why) => kind.why_not = Some(why),
            _ => {}
        }
        if kind.example.is_empty() {
            kind.example = fault.what;
        }
    }

    pub(crate) fn log(&self) {
        for (kind, SweptKind { example, found, mended, why_not }) in &self.0 {
            let why_not = why_not.as_deref().unwrap_or_default();
            tracing::warn!(kind, found, mended, example, why_not, "a sweep found faults");
        }
    }
}

pub(crate) fn swept(metrics: &SweepMetrics, took: Duration) {
    metrics.finished(took);
    tracing::debug!(?took, "swept");
}

pub(crate) fn sweep_failed(metrics: &SweepMetrics, error: &Error) {
    metrics.failed();
    tracing::warn!(%error, "a sweep was cut off: starting over later");
}

pub(crate) fn stopped(took: Duration, left_over: usize) {
    match left_over {
        0 => tracing::info!(?took, "handed over every shard"),
        left_over => tracing::warn!(?took, left_over, "stopped before every shard was handed over"),
    }
}
