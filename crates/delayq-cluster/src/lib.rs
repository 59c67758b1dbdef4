//! Divides the shards among members: membership, leader and plan on etcd, or a single owner without etcd.
//!
//! A process joins the fleet with [`Cluster::start`], even while etcd is away, and gets a [`Handle`] to query and steer
//! the membership and to follow the plan. The consumer of the shards keeps an [`Owning`], which decides the next step for
//! each shard.
//!
//! ```no_run
//! # async fn serve(config: delayq_cluster::ClusterConfig) -> Result<(), delayq_cluster::ClusterError> {
//! use delayq_cluster::{Cluster, Owning};
//! use std::time::Instant;
//!
//! let handle = Cluster::start(config).await?;
//! let (mut views, mut owning) = (handle.subscribe(), Owning::default());
//! while views.changed().await.is_ok() {
//!     let turn = owning.follow(&views.borrow_and_update(), Instant::now());
//!     for shard in turn.gone { /* stop this shard */ }
//!     for shard in owning.claims(Instant::now()) { /* take its epoch from Redis, say `claimed`, pump until `fenced` */ }
//! }
//! # Ok(()) }
//! ```
//!
//! # What etcd holds under `/<prefix>/<namespace>/timer/`
//!
//! | key | lease | holds |
//! | --- | --- | --- |
//! | `members/<member>` | the member's | name, version, address, draining, the shards out of its reach, number of shards; its create revision is the member's rank |
//! | `plan` | none | one JSON document: which member each shard is planned for |
//! | `deployment` | none | the identity of the deployment in Redis, recorded by the first member: one of another deployment does not join |
//! | `drains` | none | one JSON document: which members, by name, an [`Operator`] keeps without shards |
//!
//! The member of the lowest rank leads. The leader writes the plan in a transaction that compares its own
//! registration's create revision and the plan's last revision, so an overtaken leader writes nothing.
//!
//! # One hand-over
//!
//! 1. A member drains: by its registration (`registrar`), or by an operator's request (`drains`). The leader sees the
//!    change (`leader`), waits for a moment of quiet (`quiet`), computes the plan (`planner`) and writes the plan.
//! 2. Every member sees the plan (`follower`). The heir takes the shard's epoch from Redis, and pumps.
//! 3. The former owner keeps pumping until Redis answers that a newer epoch has fenced the shard (`owning`): the shard
//!    always has a pump, and an heir that cannot reach the shard's Redis takes nothing away.
//!
//! If a member dies, its lease ends, its registration goes, and the next plan gives its shards away.
//!
//! # Bounds
//!
//! Ownership is for efficiency; the pump script, which is safe under two owners, ensures that no message goes out
//! twice.
//! * A member dies: its shards are claimed elsewhere within the granted lease time, plus etcd's own half second of
//!   looking for expired leases, plus the leader's debounce.
//! * A member does not reach a shard: its registration names the shard, and the next plan gives the shard to a member
//!   that does. No leader has to reach the shard.
//! * etcd's own leader changes, or etcd restarts: every lease is renewed to its full time, so a member that died just
//!   before is noticed after up to twice the lease time.
//! * etcd is silent: the member is *degraded* once the trusted time has passed, and hears of no newer plan. The member
//!   pumps until fenced, and claims a shard again only after etcd answered.
//! * etcd takes no writes (its database is full), but answers: the leader leads on, every member knows the reason
//!   ([`Handle::refusal`]), and no plan replaces a member that ends. Its shards are adopted by members that find them
//!   overdue.
//! * Keys are deleted or replaced by hand: a member without its registration gives up its lease and registers again
//!   under a new lease, at once, and keeps pumping meanwhile.

mod advertised;
mod alarms;
mod backoff;
mod cluster;
mod config;
mod drains;
mod election;
mod error;
mod etcd;
mod follower;
mod foreign;
mod handle;
mod keeper;
mod keys;
mod leader;
mod membership;
mod operator;
mod overview;
mod ownership;
mod owning;
mod plan;
mod planner;
mod prefix;
mod quiet;
mod reach;
mod refused;
mod registrar;
mod registration;
mod single;
mod spawner;
mod stats;
mod trust;

pub use advertised::advertised;
pub use cluster::Cluster;
pub use config::{ClusterConfig, Endpoint, EtcdConfig, MemberConfig};
pub use delayq::ShardCount;
pub use delayq::protocol::{ShardId, ShardRanges};
pub use error::ClusterError;
pub use handle::Handle;
pub use keys::MemberId;
pub use operator::{DrainOutcome, Operator, UndrainOutcome};
pub use overview::{DrainInfo, EndpointHealth, MemberInfo, Observer, Overview, PlanInfo};
pub use ownership::OwnershipView;
pub use owning::{Owning, Turn};
pub use plan::{Plan, PlanError, PlannedMember};
pub use planner::{Candidate, compute};
pub use prefix::KeyPrefix;
pub use single::SINGLE_MODE_LIMITS;
pub use stats::ClusterStats;
pub use trust::Trust;
