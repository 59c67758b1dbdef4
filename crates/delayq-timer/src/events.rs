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
    tracing::debug!(%shard, "not planned for this timer any more");
}

/// The new owner has the epoch `known`.
pub(crate) fn handed_over(metrics: &TimerMetrics, shard: ShardId, known: u64) {
    metrics.handed_over.inc();
    tracing::debug!(%shard, known, "handed over");
}

pub(crate) fn locked_out(shard: ShardId, owner: &str) {
    tracing::error!(%shard, owner, "another timer has the lock: not pumped here");
}

/// A newer owner has the epoch `known`.
pub(crate) fn fenced(metrics: &TimerMetrics, shard: ShardId, epoch: u64, known: u64) {
    metrics.fenced.inc();
    tracing::warn!(%shard, epoch, known, "a newer owner pumps this shard: nothing was moved");
}

pub(crate) fn trust_changed(metrics: &TimerMetrics, trust: Trust) {
    let degraded = matches!(trust, Trust::Degraded { .. });
    metrics.degraded.set(i64::from(degraded));
    let name = trust.name();
    match trust {
        Trust::Degraded { .. } => {
            tracing::error!(
                trust = name,
                "etcd does not answer: what is owned is pumped on until another timer fences it"
            );
        }
        Trust::Lost { .. } => {
            tracing::warn!(
                trust = name,
                "etcd says that the lease is gone: what is owned is pumped on until another timer fences it"
            );
        }
        _ => tracing::info!(trust = name, "membership"),
    }
}

pub(crate) fn kept_out(why: &str) {
    tracing::error!(
        code = FOREIGN_FLEET.id,
        why,
        "this timer does not join: it pumps what is long overdue alone"
    );
}

pub(crate) fn drain_changed(metrics: &TimerMetrics, drained: bool) {
    metrics.drained.set(i64::from(drained));
    if drained {
        tracing::info!("drained: other timers get this one's shards, until `delayq timers undrain`");
    } else {
        tracing::info!("undrained: this timer takes shards again");
    }
}

pub(crate) fn clock_jumped(metrics: &TimerMetrics, by_us: i64, shards: usize, redis: &str) {
    metrics.clock_jumps.inc();
    let by_ms = by_us / 1000;
    tracing::error!(code = CLOCK.id, by_ms, shards, redis, "Redis's clock jumped: its shards are held");
}

pub(crate) fn clock_steady(redis: &str) {
    tracing::warn!(code = CLOCK.id, redis, "Redis's clock is steady again: its shards go on");
}

pub(crate) fn moved(shard: ShardId, from: &str, to: &str) {
    tracing::info!(%shard, from, to, "a shard moved to another node");
}

pub(crate) fn redis_lost(redis: &str, error: &Error) {
    tracing::error!(redis, %error, "Redis cannot be used: nothing of its shards becomes ready until it can");
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
        tracing::warn!(redis, missing, "shards are out of reach: timers that reach them are given them");
    } else {
        tracing::info!("every shard is within reach: this timer takes all shards again");
    }
}

/// This timer adopted a shard that nobody pumped, until the timer named in the plan claims the shard.
pub(crate) fn adopted(metrics: &TimerMetrics, shard: ShardId, epoch: u64) {
    metrics.adopted.inc();
    tracing::warn!(%shard, epoch, "nobody pumped this shard: pumped here until the timer that the plan names claims it");
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
        Stall::Still => tracing::error!("something is overdue, and nothing has moved for 2 s: not ready"),
        Stall::Blocked(shard) => {
            tracing::error!(%shard, "its due messages cannot be moved, and nothing else has for 2 s: not ready");
        }
        Stall::Failing(shard) => tracing::error!(%shard, "its pumps have failed for 2 s: not ready"),
    }
}

pub(crate) fn moving(metrics: &TimerMetrics) {
    metrics.stalled.set(0);
    tracing::info!("what is due moves again");
}

pub(crate) fn rescued(metrics: &TimerMetrics, shard: ShardId, moved: u64) {
    metrics.rescued.inc_by(moved);
    tracing::warn!(%shard, moved, "nobody pumped this shard for 10 s: pumped here");
}

pub(crate) fn blocked(shard: ShardId, blocked: u64) {
    tracing::error!(%shard, blocked, "a key of the wrong type, or a denied command, keeps messages from being moved");
}

/// `is_news`: this timer has not reported the topic yet.
pub(crate) fn topic_forgotten(metrics: &TimerMetrics, topic: &Topic, shard: ShardId, is_news: bool) {
    metrics.topics_forgotten.inc();
    if is_news {
        tracing::info!(%topic, %shard, "an empty topic was not used for long and is forgotten");
    } else {
        tracing::debug!(%topic, %shard, "another shard forgot it");
    }
}

pub(crate) fn books_off(shard: ShardId, topic: &Topic) {
    tracing::error!(%topic, %shard, "the topic's books do not balance: `delayq audit` says by what");
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
    tracing::warn!(%error, "a sweep was cut off: it begins again later");
}

pub(crate) fn stopped(took: Duration, left_over: usize) {
    match left_over {
        0 => tracing::info!(?took, "every shard is handed over"),
        left_over => tracing::warn!(?took, left_over, "stopped with shards that were not handed over"),
    }
}
