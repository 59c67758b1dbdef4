//! What is worth a log line: each event writes its line and counts itself, so that the two cannot drift apart.

use crate::codes::{CLOCK, UNINITIALISED};
use crate::metrics::TimerMetrics;
use delayq::protocol::ShardId;
use delayq::{Error, Topic};
use delayq_cluster::{LossReason, SINGLE_MODE_LIMITS, Trust};
use std::time::Duration;

/// The timer begins.
pub(crate) struct Started<'a> {
    pub(crate) name: &'a str,
    pub(crate) redis: &'a str,
    pub(crate) shards: u16,
    pub(crate) single: bool,
}

/// Shards are pumped here from now on.
pub(crate) struct Owned {
    pub(crate) shard: ShardId,
    pub(crate) epoch: u64,
}

/// A shard is not this timer's any more.
pub(crate) struct Parted<'a> {
    pub(crate) shard: ShardId,
    pub(crate) reason: &'a LossReason,
}

/// Another timer's lock keeps this one from a shard.
pub(crate) struct LockedOut<'a> {
    pub(crate) shard: ShardId,
    pub(crate) owner: &'a str,
}

/// A pump was refused: a newer owner has a higher epoch.
pub(crate) struct Fenced {
    pub(crate) shard: ShardId,
    pub(crate) epoch: u64,
    pub(crate) known: u64,
}

/// How the timer stands with etcd changed.
pub(crate) struct TrustChanged {
    pub(crate) trust: Trust,
    pub(crate) strict: bool,
}

/// Redis's clock jumped.
pub(crate) struct ClockJumped {
    pub(crate) by_us: i64,
    pub(crate) shards: usize,
}

/// Redis's clock was steady for long enough.
pub(crate) struct ClockSteady;

/// Redis could not be used, for the first time since it could.
pub(crate) struct RedisLost<'a> {
    pub(crate) error: &'a Error,
}

/// Redis can be used again.
pub(crate) struct RedisBack {
    pub(crate) after: Duration,
}

/// Whether this timer can own shards, as far as Redis is concerned, changed.
pub(crate) struct HindranceChanged {
    pub(crate) hindered: bool,
}

/// Redis answers, and does not have the shard, or has it otherwise than this process knows.
pub(crate) struct ShardMissing<'a> {
    pub(crate) shard: ShardId,
    pub(crate) error: &'a Error,
    pub(crate) redis: &'a str,
}

/// A shard of another timer was long overdue and pumped here.
pub(crate) struct Rescued {
    pub(crate) shard: ShardId,
    pub(crate) moved: u64,
}

/// Something could not be moved for the type of a key.
pub(crate) struct Blocked {
    pub(crate) shard: ShardId,
    pub(crate) blocked: u64,
}

/// A shard forgot a topic that nobody uses.
pub(crate) struct TopicForgotten<'a> {
    pub(crate) topic: &'a Topic,
    pub(crate) shard: ShardId,
    /// Whether it is the first shard of which this timer learns that it did.
    pub(crate) is_news: bool,
}

/// Everything is handed over.
pub(crate) struct Stopped {
    pub(crate) took: Duration,
    pub(crate) left_over: usize,
}

// === impl each ===

impl Started<'_> {
    pub(crate) fn emit(&self) {
        tracing::info!(name = self.name, redis = self.redis, shards = self.shards, "the timer begins");
        if self.single {
            tracing::warn!("{SINGLE_MODE_LIMITS}");
        }
    }
}

impl Owned {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        metrics.epoch(self.shard, Some(self.epoch));
        tracing::debug!(shard = %self.shard, epoch = self.epoch, "owned");
    }
}

impl Parted<'_> {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        metrics.epoch(self.shard, None);
        let shard = self.shard;
        match self.reason {
            LossReason::HandOver { to } => {
                tracing::debug!(%shard, to = to.as_deref().unwrap_or("nobody"), "handed over");
            }
            LossReason::Left => tracing::debug!(%shard, "left"),
            reason => tracing::warn!(%shard, ?reason, "lost"),
        }
    }
}

impl LockedOut<'_> {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        metrics.epoch(self.shard, None);
        tracing::error!(shard = %self.shard, owner = self.owner, "another timer has the lock: not pumped here");
    }
}

impl Fenced {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        metrics.fenced.inc();
        let (shard, epoch, known) = (self.shard, self.epoch, self.known);
        tracing::warn!(%shard, epoch, known, "a newer owner pumps this shard: nothing was moved");
    }
}

impl TrustChanged {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        let degraded = matches!(self.trust, Trust::Degraded { .. });
        metrics.degraded.set(i64::from(degraded));
        let trust = self.trust.name();
        match self.trust {
            Trust::Degraded { .. } if self.strict => {
                tracing::error!(trust, "etcd does not answer: strict, so every shard is given up");
            }
            Trust::Degraded { .. } => {
                tracing::error!(
                    trust,
                    "etcd does not answer: what is owned is pumped on, nothing is claimed"
                );
            }
            Trust::Lost { .. } => {
                tracing::warn!(trust, "etcd says that the lease is gone: every shard is stopped");
            }
            _ => tracing::info!(trust, "membership"),
        }
    }
}

impl ClockJumped {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        metrics.clock_jumps.inc();
        metrics.clock_held.set(1);
        let by_ms = self.by_us / 1000;
        tracing::error!(
            code = CLOCK.id,
            by_ms,
            shards = self.shards,
            "Redis's clock jumped: its shards are held"
        );
    }
}

impl ClockSteady {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        metrics.clock_held.set(0);
        tracing::warn!(code = CLOCK.id, "Redis's clock is steady again: its shards go on");
    }
}

impl RedisLost<'_> {
    pub(crate) fn emit(&self) {
        tracing::error!(error = %self.error, "Redis cannot be used: nothing becomes ready until it can");
    }
}

impl RedisBack {
    pub(crate) fn emit(&self) {
        tracing::warn!(after = ?self.after, "Redis can be used again");
    }
}

impl HindranceChanged {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        metrics.hindered.set(i64::from(self.hindered));
        metrics.hindrance_changes.inc();
        if self.hindered {
            tracing::warn!(
                "Redis takes nothing from this timer: timers from which it does are given its shards"
            );
        } else {
            tracing::info!("Redis answers this timer steadily: it takes shards again");
        }
    }
}

impl ShardMissing<'_> {
    pub(crate) fn emit(&self) {
        let (code, shard, redis, error) = (UNINITIALISED.id, self.shard, self.redis, self.error);
        tracing::error!(code, %shard, redis, %error, "this shard is not served");
    }
}

impl Rescued {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        metrics.rescued.inc_by(self.moved);
        let (shard, moved) = (self.shard, self.moved);
        tracing::warn!(%shard, moved, "nobody pumped this shard for 10 s: pumped here");
    }
}

impl Blocked {
    pub(crate) fn emit(&self) {
        let (shard, blocked) = (self.shard, self.blocked);
        tracing::error!(%shard, blocked, "a key of the wrong type keeps messages from being moved");
    }
}

impl TopicForgotten<'_> {
    pub(crate) fn emit(&self, metrics: &TimerMetrics) {
        metrics.topics_forgotten.inc();
        let (topic, shard) = (self.topic, self.shard);
        if self.is_news {
            tracing::info!(%topic, %shard, "an empty topic was not used for long and is forgotten");
        } else {
            tracing::debug!(%topic, %shard, "another shard forgot it");
        }
    }
}

impl Stopped {
    pub(crate) fn emit(&self) {
        let took = self.took;
        match self.left_over {
            0 => tracing::info!(?took, "every shard is handed over"),
            left_over => tracing::warn!(?took, left_over, "stopped with shards that were not handed over"),
        }
    }
}
