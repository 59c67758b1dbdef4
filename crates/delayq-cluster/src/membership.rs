//! Being a member: one lease and one registration under it, and how the member stands with etcd.

use crate::config::ClusterConfig;
use crate::etcd::{Entry, EtcdError, Fence, Grant, Link};
use crate::keys::{Keys, MemberId};
use crate::refused::Refused;
use crate::registration::Registration;
use crate::stats::Counters;
use crate::trust::{Signal, Trust};
use crate::wall_clock;
use delayq::ShardCount;
use delayq::protocol::ShardRanges;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// One life of the member in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) member: MemberId,
    pub(crate) lease: i64,
    /// The registration's create revision: the lowest of the fleet leads.
    pub(crate) rank: i64,
    pub(crate) ttl: Duration,
    pub(crate) sent: Instant,
    /// What the registration says.
    pub(crate) registered: Desired,
    /// When it registered, which a later change of what it says leaves as it is.
    pub(crate) since_ms: u64,
}

/// How the member stands, for every task to follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// None while etcd knows nothing of us.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) trust: Trust,
}

/// What the member wants to say of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Desired {
    pub(crate) draining: bool,
    /// The shards out of the member's reach.
    pub(crate) hindered: ShardRanges,
    pub(crate) shards: ShardCount,
}

/// The longest pause between two tries: what a recovered etcd waits for us.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The same for what a shard on the move waits for: its lease's next renewal, and the next reading of the plan.
pub(crate) const SHORT_PAUSE: Duration = Duration::from_millis(500);

/// How the member's tasks learn that they must end: a change means to leave in order, a dropped sender to just end.
pub(crate) type Leaving = watch::Receiver<bool>;

/// What every task of a member knows.
#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) link: Link,
    pub(crate) keys: Keys,
    pub(crate) config: Arc<ClusterConfig>,
    pub(crate) counters: Arc<Counters>,
    /// Why the fleet does not let this member in.
    pub(crate) refused: Refused,
    /// Whether this member leads.
    pub(crate) leads: Arc<AtomicBool>,
}

// === impl Base ===

impl Base {
    /// Asks for a lease and registers under it, in the fleet of this member's deployment alone.
    pub(crate) async fn enroll(&self, desired: &Desired) -> Result<Session, EtcdError> {
        let ours = self.belong().await?;
        let grant = self.link.grant(*self.config.etcd.lease_ttl).await?;
        let enrolled = self.register(grant, desired, ours).await;
        if enrolled.is_err() {
            // A registration that may have arrived would be given shards; the lease's end bounds that, this shortens it.
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
        let since_ms = wall_clock::unix_ms();
        let document = self.registration(desired, since_ms).to_json();
        let new: Vec<Fence> = [Fence::Created(key.clone(), 0)].into_iter().chain(ours).collect();
        let rank = self.link.write(&new, &key, document, grant.lease).await?;
        let rank = rank.ok_or_else(|| {
            EtcdError::Silent(format!(
                "{key} is already registered, or the fleet is another deployment's now"
            ))
        })?;
        self.counters.leases_granted.add(1);
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
    /// Whether this life wrote a registration.
    pub(crate) fn wrote(&self, registration: &Entry) -> bool {
        registration.lease == self.lease && registration.create_revision == self.rank
    }
}

// === impl Desired ===

impl Desired {
    /// What a member says at first: it takes whatever it is given.
    pub(crate) fn serving(shards: ShardCount) -> Self {
        Self { draining: false, hindered: ShardRanges::default(), shards }
    }
}

// === impl Standing ===

impl Standing {
    /// How a member stands that has just enrolled, for the first time or again.
    pub(crate) fn enrolled(session: Session) -> Self {
        let granted = Signal::Granted { sent: session.sent, ttl: session.ttl };
        let trust = Trust::Joining.after(granted, session.sent);
        Self { session: Some(Arc::new(session)), trust }
    }
}

/// Sleeps until then; none: for ever.
pub(crate) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
