//! A membership: one lease, one registration under the lease, and the member's standing with etcd.

use crate::config::ClusterConfig;
use crate::etcd::{Entry, EtcdError, EtcdLink, Fence, Grant};
use crate::keys::{FleetKeys, MemberId};
use crate::refused::Refused;
use crate::registration::Registration;
use crate::stats::Counters;
use crate::trust::{Signal, Trust};
use delayq::ShardCount;
use delayq::protocol::ShardRanges;
use delayq_service::host_now;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) member: MemberId,
    pub(crate) lease: i64,
    /// The registration's create revision: the lowest of the fleet leads.
    pub(crate) rank: i64,
    pub(crate) ttl: Duration,
    pub(crate) sent: Instant,
    pub(crate) registered: Desired,
    /// Time of the registration; later changes of the registration keep this time.
    pub(crate) since_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// `None` while the member has no registration in etcd.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) trust: Trust,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Desired {
    pub(crate) draining: bool,
    pub(crate) hindered: ShardRanges,
    pub(crate) shards: ShardCount,
}

/// Maximum pause between two tries: the longest time that a recovered etcd waits for this member.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Maximum pause for renewing the lease and for reading the plan: a shard on the move waits for both.
pub(crate) const SHORT_PAUSE: Duration = Duration::from_millis(500);

/// Tells the member's tasks to end: a change means to leave in order, a dropped sender to end at once.
pub(crate) type Leaving = watch::Receiver<bool>;

#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) link: EtcdLink,
    pub(crate) keys: FleetKeys,
    pub(crate) config: Arc<ClusterConfig>,
    pub(crate) counters: Arc<Counters>,
    /// The reason why the fleet does not admit this member.
    pub(crate) refused: Refused,
    pub(crate) leads: Arc<AtomicBool>,
}

// === impl Base ===

impl Base {
    /// Takes a lease and registers under the lease, only in the fleet of this member's deployment.
    pub(crate) async fn enroll(&self, desired: &Desired) -> Result<Session, EtcdError> {
        let ours = self.belong().await?;
        let grant = self.link.grant(*self.config.etcd.lease_ttl).await?;
        let enrolled = self.register(grant, desired, ours).await;
        if enrolled.is_err() {
            // The plan would give shards to a registration that may have arrived. The end of the lease bounds that
            // time, and the revocation shortens the time.
            let _ = self.link.revoke(grant.lease).await;
        }
        enrolled
    }

    async fn register(
        &self,
        grant: Grant,
        desired: &Desired,
        ours: Option<Fence>,
    ) -> Result<Session, EtcdError> {
        let member = MemberId::new(&self.config.member.name, grant.lease);
        let key = self.keys.member(&member);
        let since_ms = host_now().get();
        let document = self.registration(desired, since_ms).to_json();
        let new: Vec<Fence> = [Fence::Created(key.clone(), 0)].into_iter().chain(ours).collect();
        let rank = self.link.write(&new, &key, document, grant.lease).await?;
        let rank = rank.ok_or_else(|| {
            EtcdError::Silent(format!(
                "{key} is already registered, or the fleet now belongs to another deployment"
            ))
        })?;
        self.counters.count(|stats| stats.leases_granted += 1);
        Ok(Session {
            member,
            lease: grant.lease,
            rank,
            ttl: grant.ttl,
            sent: grant.sent,
            registered: desired.clone(),
            since_ms,
        })
    }

    pub(crate) fn registration(&self, desired: &Desired, since_ms: u64) -> Registration {
        Registration {
            draining: desired.draining,
            hindered: desired.hindered.clone(),
            shards: desired.shards,
            ..Registration::of(&self.config, since_ms)
        }
    }
}

// === impl Session ===

impl Session {
    pub(crate) fn wrote(&self, registration: &Entry) -> bool {
        registration.lease == self.lease && registration.create_revision == self.rank
    }
}

// === impl Desired ===

impl Desired {
    /// Ready for any shards.
    pub(crate) fn serving(shards: ShardCount) -> Self {
        Self { draining: false, hindered: ShardRanges::default(), shards }
    }
}

// === impl Standing ===

impl Standing {
    /// For the first time or again.
    pub(crate) fn enrolled(session: Session) -> Self {
        let granted = Signal::Granted { sent: session.sent, ttl: session.ttl };
        let trust = Trust::Joining.after(granted, session.sent);
        Self { session: Some(Arc::new(session)), trust }
    }
}

/// Forever without a time.
pub(crate) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
