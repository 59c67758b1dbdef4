//! How Redis is doing, and the end.

use super::{Done, Pumping};
use crate::events::{HindranceChanged, RedisBack, RedisLost, ShardMissing, Stopped};
use crate::owning::CLAIMS_A_CALL;
use delayq_cluster::DrainReport;
use delayq_core::{Error, ShardId};
use delayq_service::Fault;
use futures_util::StreamExt;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long handing everything over may take; then the leases and the epochs do it.
const HAND_OVER: Duration = Duration::from_secs(3);
/// How long the last calls and the farewell may take.
const FAREWELL: Duration = Duration::from_millis(500);
/// How often a shard that cannot be claimed is tried again.
const CLAIM_RETRY: Duration = Duration::from_millis(500);

/// How Redis is doing, so that a change is told once.
pub(super) enum Health {
    Starting,
    Well,
    Silent { since: Instant },
    Missing,
}

// === impl Pumping ===

impl Pumping {
    pub(super) fn failed(&mut self, shard: ShardId, error: &Error, now: Instant) {
        self.parts.metrics.failed_calls.inc();
        match error {
            Error::Uninitialised(_) | Error::Layout { .. } | Error::Deployment(_) => {
                self.schedule.drop(shard);
                self.owning.retry(shard, now + *self.parts.config.look);
                if !matches!(self.health, Health::Missing) {
                    ShardMissing { shard, error, redis: &self.parts.client.address() }.emit();
                    self.parts.condition.unready(error.to_string());
                    self.health = Health::Missing;
                }
            }
            _ => {
                if self.schedule.epoch(shard).is_some() {
                    self.schedule.failed(shard, now);
                } else {
                    self.owning.retry(shard, now + CLAIM_RETRY);
                }
                self.hindrance.failed(now);
                if matches!(self.health, Health::Well | Health::Starting) {
                    RedisLost { error }.emit();
                    self.parts.condition.unready("Redis cannot be used");
                    self.health = Health::Silent { since: now };
                }
            }
        }
        self.count_shards();
    }

    pub(super) fn well(&mut self, now: Instant) {
        self.hindrance.answered(now);
        match self.health {
            Health::Well => return,
            // One missing shard is enough not to be ready, whatever the others answer.
            Health::Missing if self.owning.is_behind() => return,
            Health::Missing | Health::Starting => {}
            Health::Silent { since } => {
                RedisBack { after: now.saturating_duration_since(since) }.emit();
                self.schedule.look_at_all();
            }
        }
        self.health = Health::Well;
        if !self.guard.is_jumped() {
            self.parts.condition.ready();
        }
    }

    /// Lets others have the shards while this timer does not reach Redis and they do, and takes shards again after it.
    pub(super) fn tell_hindrance(&mut self, now: Instant) {
        // Who owns everything by a lock has nobody to tell, and who leaves gives everything away as it is.
        if !self.parts.lock.is_zero() || self.stopping.is_some() {
            return;
        }
        if self.hindrance.turn(now, self.owning.is_given_any()) {
            let hindered = self.hindrance.is_hindered();
            HindranceChanged { hindered }.emit(&self.parts.metrics);
            self.parts.handle.set_hindered(hindered);
            self.next_look = now;
        }
    }

    pub(super) fn drain(&mut self) {
        self.stopping = Some(Instant::now());
        self.parts.condition.unready("handing over");
        let handle = self.parts.handle.clone();
        self.work.push(Box::pin(async move { Done::Drained(handle.drain(HAND_OVER).await) }));
    }

    /// Waits for the calls that are out, gives locks back, and leaves.
    pub(super) async fn farewell(mut self, report: DrainReport) -> Result<(), Fault> {
        let rest = async { while self.work.next().await.is_some() {} };
        let _ = timeout(FAREWELL, rest).await;
        if !self.parts.lock.is_zero() {
            // A lock of one millisecond is over when the answer arrives.
            let shards: Vec<ShardId> = self.parts.client.shards().shards().collect();
            for some in shards.chunks(CLAIMS_A_CALL) {
                let claims = self.parts.client.claim(some, &self.parts.owner, Duration::from_millis(1));
                let _ = timeout(FAREWELL, claims).await;
            }
        }
        self.parts.handle.leave(FAREWELL).await;
        let took = self.stopping.map_or(report.took, |since| since.elapsed());
        Stopped { took, left_over: report.left_over.len() }.emit();
        Ok(())
    }
}
