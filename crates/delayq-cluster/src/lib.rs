//! Who owns which shard: membership, leader and plan on etcd, or a single owner without it.
//!
//! A process joins the fleet with [`Cluster::join`], or with [`Cluster::start`] even while etcd is away, and gets two
//! things: a [`Handle`] to ask and to steer, and an [`Ownership`], the stream of what it gains and loses.
//!
//! ```no_run
//! # async fn serve(config: delayq_cluster::ClusterConfig) -> Result<(), delayq_cluster::ClusterError> {
//! use delayq_cluster::Cluster;
//!
//! let (handle, mut ownership) = Cluster::join(config).await?;
//! while let Some(change) = ownership.next().await {
//!     for lost in &change.lost { /* stop this shard first */ }
//!     ownership.confirm(&change.lost); // only now is the claim given back, and only then may another take it
//!     for shard in &change.gained { /* take the epoch from Redis, then start */ }
//! }
//! # Ok(()) }
//! ```
//!
//! # What etcd holds under `/<prefix>/<namespace>/timer/`
//!
//! | key | lease | holds |
//! | --- | --- | --- |
//! | `members/<member>` | the member's | name, version, address, draining, hindered, shards; its create revision is the member's rank |
//! | `plan` | none | one JSON document: which member each shard is planned for |
//! | `drains` | none | one JSON document: which members, by name, an [`Operator`] keeps without shards |
//! | `claims/<shard>` | the owner's | the owner; created only where no key is under a lease |
//!
//! The member of the lowest rank leads. It writes the plan in a transaction that compares its own registration's create
//! revision and the plan's last revision, so a leader that was overtaken writes nothing.
//!
//! # One hand-over
//!
//! 1. A member drains: its registration says so (`registrar`), or an operator's word (`drains`); the leader sees it
//!    (`leader`), waits for a moment of quiet (`quiet`), computes the plan (`planner`) and writes it.
//! 2. Every member sees the plan (`claims`). The one before has its consumer stop, a few shards at a time; the heir
//!    knows that they are coming and awaits them (`holders`).
//! 3. The consumer stops a shard and confirms; only then is the claim's key deleted (`claim_book`).
//! 4. The heir sees the key go, creates its own, and has its consumer start.
//!
//! If any of them dies in between, its lease ends, every key under it goes, and the next plan gives the shards away.
//!
//! # Bounds
//!
//! Ownership is for efficiency; that no message goes out twice is the pump script's work, which is safe under two owners.
//! * A member that dies: its shards are claimed elsewhere within the granted lease time, plus etcd's own half second of
//!   looking for expired leases, plus the leader's debounce.
//! * A change of etcd's own leader, or its restart, renews every lease to its full time: a member that died just before
//!   is noticed after up to twice the lease time.
//! * etcd silent: the member is *degraded* once the trusted time has passed. It keeps what it owns and claims nothing.
//! * Keys deleted or replaced by hand: a member whose registration is gone gives up its lease and registers again under a
//!   new one, at once.

mod advertised;
mod backoff;
mod claim_book;
mod claims;
mod cluster;
mod config;
mod drains;
mod election;
mod error;
mod etcd;
mod handle;
mod holders;
mod inbox;
mod keeper;
mod keys;
mod leader;
mod membership;
mod operator;
mod overview;
mod ownership;
mod plan;
mod planner;
mod prefix;
mod quiet;
mod registrar;
mod registration;
mod single;
mod spawner;
mod stats;

mod trust;
mod wall_clock;

pub use advertised::advertised;
pub use cluster::Cluster;
pub use config::{ClusterConfig, Endpoint, EtcdConfig, MemberConfig, TlsConfig};
pub use delayq::{ShardCount, protocol::ShardId};
pub use error::{Advice, ClusterError};
pub use handle::{DrainReport, Handle};
pub use keys::MemberId;
pub use operator::{DrainOutcome, Operator, UndrainOutcome};
pub use overview::{ClaimInfo, DrainInfo, EndpointHealth, MemberInfo, Observer, Overview, PlanInfo};
pub use ownership::{ClaimNumber, LossReason, Lost, Ownership, OwnershipChange, OwnershipView};
pub use plan::{Plan, PlanError, PlannedMember};
pub use planner::{Candidate, compute};
pub use prefix::KeyPrefix;
pub use single::SINGLE_MODE_LIMITS;
pub use stats::ClusterStats;
pub use trust::Trust;
