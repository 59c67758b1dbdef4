//! The quotas of tenants: puts a second, messages that wait, and as bulkheads in each gateway, bytes of bodies, waiting
//! reserves, connections, and turns: how much is done for a tenant at a time.
//!
//! ```text
//!  put ─► bucket, filled by this gateway's share ─► pending: as counted, and put since ─► Redis
//!               ▲                                      ▲
//!   once a second: demand of every gateway           counts, at most a tenth of the time
//! ```
//! No put asks Redis for a permit, so a quota is exceeded for a while where the load moves: `share` says how far.

mod beats;
mod bucket;
mod share;
mod usage;

use crate::config::GatewayConfig;
use crate::metrics::GatewayMetrics;
use crate::problem::{Over, Problem, Quota};
use crate::tenant::{Names, Tenant};
use crate::tenants::Tenants;
use beats::Beats;
use delayq::{Admin, Error};
use delayq_service::Shutdown;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use usage::Usage;

const BEAT_EVERY: Duration = Duration::from_secs(1);
/// Pause after a count of messages, and in units of its own duration.
const COUNT_EVERY: Duration = Duration::from_secs(2);
const COUNT_REST: u32 = 10;
/// A tenant takes at most this part of a gateway's bytes of bodies, of its connections and of its waiting reserves.
const PART: usize = 4;
/// Messages under way for a tenant: Redis takes less than a millisecond for so many.
pub(crate) const UNDER_WAY: u32 = 64;
/// Longest wait for a turn.
const TURN_WAIT: Duration = Duration::from_secs(1);
/// The room that a request with lines takes.
const MIN_BYTES: usize = 4 * 1024 * 1024;

/// Clones share the state.
#[derive(Clone)]
pub(crate) struct TenantQuotas(Arc<Parts>);

struct Parts {
    tenants: Tenants,
    metrics: GatewayMetrics,
    usages: Mutex<HashMap<Tenant, Usage>>,
    max_bytes: usize,
    max_polls: usize,
    max_connections: usize,
}

// === impl TenantQuotas ===

impl TenantQuotas {
    pub(crate) fn new(tenants: Tenants, metrics: GatewayMetrics, config: &GatewayConfig) -> Self {
        let part = |all: u32| (all as usize).div_ceil(PART);
        Self(Arc::new(Parts {
            tenants,
            metrics,
            usages: Mutex::default(),
            max_bytes: (config.max_bytes.as_usize() / PART).max(MIN_BYTES),
            max_polls: part(config.max_polls),
            max_connections: part(config.max_connections),
        }))
    }

    /// Counts as many of these puts as the quotas admit; `Err` says why the others are refused.
    pub(crate) fn admit(&self, tenant: &Tenant, puts: usize) -> (usize, Result<(), Problem>) {
        let quotas = match self.0.tenants.quotas(tenant) {
            Ok(quotas) => quotas,
            Err(problem) => return (0, Err(problem)),
        };
        let (admitted, over) = self.usage(tenant, |usage| usage.admit(&quotas, puts, Instant::now()));
        (admitted, over.map_or(Ok(()), |over| Err(self.refusal(tenant, over))))
    }

    /// Room for the bytes of a body.
    pub(crate) fn room(&self, tenant: &Tenant, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let quota = self.0.tenants.quotas(tenant)?.bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let most = quota.map_or(self.0.max_bytes, |quota| quota.min(self.0.max_bytes));
        let room = self.usage(tenant, |usage| usage.room(most));
        let permits = u32::try_from(bytes).expect("a body is bounded");
        let over = Over::new(Quota::Bytes, most as u64);
        room.try_acquire_many_owned(permits).map_err(|_| self.refusal(tenant, over))
    }

    /// A place for a reserve that waits.
    pub(crate) fn place(&self, tenant: &Tenant) -> Result<OwnedSemaphorePermit, Problem> {
        let places: Arc<Semaphore> = self.usage(tenant, |usage| usage.places(self.0.max_polls));
        let over = Over::new(Quota::Polls, self.0.max_polls as u64);
        places.try_acquire_owned().map_err(|_| self.refusal(tenant, over))
    }

    /// A place for a connection.
    pub(crate) fn connection(&self, tenant: &Tenant) -> Result<OwnedSemaphorePermit, Problem> {
        let places = self.usage(tenant, |usage| usage.connections(self.0.max_connections));
        let over = Over::new(Quota::Connections, self.0.max_connections as u64);
        places.try_acquire_owned().map_err(|_| self.refusal(tenant, over))
    }

    /// Waits for a turn of this cost, in messages.
    pub(crate) async fn turn(&self, tenant: &Tenant, cost: u32) -> Result<OwnedSemaphorePermit, Problem> {
        let over = Over::new(Quota::Turns, UNDER_WAY.into());
        let turn = tokio::time::timeout(TURN_WAIT, self.long_turn(tenant, cost)).await;
        turn.map_err(|_| self.refusal(tenant, over))
    }

    /// Waits as long as it takes.
    pub(crate) async fn long_turn(&self, tenant: &Tenant, cost: u32) -> OwnedSemaphorePermit {
        let turns = self.usage(tenant, |usage| usage.turns(UNDER_WAY as usize));
        turns.acquire_many_owned(cost).await.expect("the semaphore is never closed")
    }

    /// Deals the shares until shutdown.
    pub(crate) async fn deal(&self, admin: Admin, shutdown: Shutdown) {
        let mut beats = Beats::new();
        while shutdown.or(tokio::time::sleep(BEAT_EVERY)).await.is_some() {
            if let Err(error) = self.beat(&admin, &mut beats).await {
                tracing::debug!(%error, "cannot deal the shares of quotas: they stay as they are");
            }
        }
    }

    /// Counts the messages of tenants with a quota of them, until shutdown.
    pub(crate) async fn count(&self, admin: Admin, shutdown: Shutdown) {
        loop {
            let started = Instant::now();
            for tenant in self.to_count() {
                let before = self.usage(&tenant, |usage| usage.admitted());
                match pending(&admin, &tenant).await {
                    Ok(counted) => self.usage(&tenant, |usage| usage.counted(counted, before)),
                    Err(error) => tracing::debug!(%error, %tenant, "cannot count the messages of a tenant"),
                }
            }
            let rest = COUNT_EVERY.max(started.elapsed() * COUNT_REST);
            if shutdown.or(tokio::time::sleep(rest)).await.is_none() {
                return;
            }
        }
    }

    async fn beat(&self, admin: &Admin, beats: &mut Beats) -> Result<(), Error> {
        let own: HashMap<Tenant, u64> =
            self.usages().iter_mut().map(|(tenant, usage)| (tenant.clone(), usage.end_second())).collect();
        let text = beats.text(&own);
        let all = admin.gateways().beat(beats.name(), &text).await?;
        let others = beats.others(&all, Instant::now());
        for (tenant, usage) in self.usages().iter_mut() {
            let theirs: Vec<u64> =
                others.iter().map(|other| other.get(tenant.name()).copied().unwrap_or(0)).collect();
            usage.deal(theirs);
        }
        admin.gateways().forget_beats(&beats.ended(Instant::now())).await
    }

    /// Tenants that put lately.
    fn to_count(&self) -> Vec<Tenant> {
        let usages = self.usages();
        let counts =
            |tenant: &&Tenant| self.0.tenants.quotas(tenant).is_ok_and(|quotas| quotas.pending.is_some());
        usages.keys().filter(counts).cloned().collect()
    }

    fn usage<T>(&self, tenant: &Tenant, f: impl FnOnce(&mut Usage) -> T) -> T {
        let mut usages = self.usages();
        match usages.get_mut(tenant) {
            Some(usage) => f(usage),
            None => f(usages.entry(tenant.clone()).or_insert_with(Usage::new)),
        }
    }

    fn usages(&self) -> MutexGuard<'_, HashMap<Tenant, Usage>> {
        self.0.usages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal(&self, tenant: &Tenant, over: Over) -> Problem {
        self.0.metrics.over_quota(over.quota.word());
        tracing::debug!(%tenant, %over, "refused");
        Problem::over(over)
    }
}

/// Delayed and ready, over all topics of the tenant.
async fn pending(admin: &Admin, tenant: &Tenant) -> Result<u64, Error> {
    let names = Names::of(Some(tenant.clone()));
    let mut topics = admin.topics().await?;
    topics.retain(|topic| names.shown_topic(topic).is_some());
    Ok(admin.count(&topics).await?.iter().map(|numbers| numbers.delayed + numbers.ready).sum())
}
