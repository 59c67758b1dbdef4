//! How Redis is doing, and the end.

use super::{Done, Pumping, look::CLOSE_LOOK};
use crate::events::{HindranceChanged, RedisBack, RedisLost, ShardMissing, Stopped};
use crate::hindrance::Hindrance;
use crate::owning::CLAIMS_A_CALL;
use delayq_cluster::DrainReport;
use delayq_core::{Error, ShardId};
use delayq_service::Fault;
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long handing everything over may take; then the leases and the epochs do it.
const HAND_OVER: Duration = Duration::from_secs(3);
/// How long the last calls, giving the locks back, and the farewell may take: each of the three.
const FAREWELL: Duration = Duration::from_millis(500);
/// How often a shard that cannot be claimed is tried again.
const CLAIM_RETRY: Duration = Duration::from_millis(500);

/// How Redis is doing, so that a change is told once.
pub(super) enum Health {
    Starting,
    Well,
    Silent { since: Instant },
    Missing(String),
}

// === impl Health ===

impl Health {
    pub(super) const fn is_well(&self) -> bool {
        matches!(self, Self::Well)
    }
}

// === impl Pumping ===

impl Pumping {
    /// A call for a shard that is given to this timer failed.
    pub(super) fn failed(&mut self, shard: ShardId, error: &Error, now: Instant) {
        self.parts.metrics.failed_calls.inc();
        if is_missing(error) {
            self.schedule.drop(shard);
            self.locked_out.remove(&shard);
            self.owning.retry(shard, now + *self.parts.config.look);
        } else if self.schedule.epoch(shard).is_some() {
            self.schedule.failed(shard, now);
        } else {
            self.owning.retry(shard, now + CLAIM_RETRY);
        }
        self.lost(shard, error, now);
        self.count_shards();
    }

    /// A call failed, which says how Redis is doing.
    pub(super) fn lost(&mut self, shard: ShardId, error: &Error, now: Instant) {
        if !is_missing(error) {
            self.unanswered(error, now);
        } else if !matches!(self.health, Health::Missing(_)) {
            ShardMissing { shard, error, redis: &self.parts.client.address() }.emit();
            self.health = Health::Missing(error.to_string());
        }
    }

    /// A call was not answered, or refused.
    pub(super) fn unanswered(&mut self, error: &Error, now: Instant) {
        if is_missing(error) {
            return;
        }
        self.hindrance.failed(now);
        if matches!(self.health, Health::Well | Health::Starting) {
            RedisLost { error }.emit();
            self.health = Health::Silent { since: now };
            self.next_look = self.next_look.min(now + CLOSE_LOOK);
        }
    }

    /// A script that may write was answered.
    pub(super) fn well(&mut self, now: Instant) {
        self.hindrance.answered(now);
        match self.health {
            Health::Well => return,
            // One missing shard is enough not to be ready, whatever the others answer.
            Health::Missing(_) if self.owning.is_behind() => return,
            Health::Missing(_) | Health::Starting => {}
            Health::Silent { since } => {
                RedisBack { after: now.saturating_duration_since(since) }.emit();
                self.schedule.look_at_all();
            }
        }
        self.health = Health::Well;
    }

    /// Lets others have the shards while this timer does not reach Redis and they do, and takes shards again after it.
    pub(super) fn tell_hindrance(&mut self, now: Instant) {
        if self.hindrance.turn(now, self.owning.is_given_any()) {
            let hindered = self.hindrance.is_hindered();
            HindranceChanged { hindered }.emit(&self.parts.metrics);
            self.parts.handle.set_hindered(hindered);
            self.next_look = now;
        }
    }

    pub(super) fn drain(&mut self) {
        self.stopping = Some(Instant::now());
        // Who leaves gives everything away as it is.
        self.hindrance = Hindrance::Alone;
        let handle = self.parts.handle.clone();
        self.send(async move { Done::Drained(handle.drain(HAND_OVER).await) });
    }

    /// Waits for the calls that are out, gives locks back, and leaves.
    pub(super) async fn farewell(mut self, report: DrainReport) -> Result<(), Fault> {
        let rest = async { while self.work.next().await.is_some() {} };
        let _ = timeout(FAREWELL, rest).await;
        if !self.parts.lock.is_zero() {
            self.give_locks_back().await;
        }
        self.parts.handle.leave(FAREWELL).await;
        let took = self.stopping.map_or(report.took, |since| since.elapsed());
        Stopped { took, left_over: report.left_over.len() }.emit();
        Ok(())
    }

    /// A lock of one millisecond is over when the answer arrives.
    async fn give_locks_back(&self) {
        let shards: Vec<ShardId> = self.parts.client.shards().shards().collect();
        let give = |some| self.parts.client.claim(some, &self.parts.owner, Duration::from_millis(1));
        let _ = timeout(FAREWELL, join_all(shards.chunks(CLAIMS_A_CALL).map(give))).await;
    }
}

/// Whether Redis answered, and does not have the shard as this process knows it.
fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Uninitialised(_) | Error::Layout { .. } | Error::Deployment(_))
}
