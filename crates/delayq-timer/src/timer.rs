//! Builds a timer, which may fail, and runs the timer until shutdown is requested.

use crate::calls::SHARDS_A_CALL;
use crate::codes::{ETCD, LOCKED};
use crate::config::TimerConfig;
use crate::metrics::TimerMetrics;
use crate::pumping::{Parts, Pumping};
use crate::sweep_config::SweepConfig;
use crate::sweep_metrics::SweepMetrics;
use crate::sweeping::Sweeping;
use crate::{apart, events};
use delayq::protocol::scheduling::Alarm;
use delayq::protocol::{Claimed, Owner, ShardId};
use delayq::{Admin, Client, Error};
use delayq_cluster::{Cluster, ClusterConfig};
use delayq_service::codes::SYSTEM;
use delayq_service::{Fault, Metrics, Readiness, Shutdown};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a start waits before asking for a lock again.
const LOCK_RETRY: Duration = Duration::from_millis(200);

/// How long the pump's thread may show no sign of life; the loop turns at least once a second.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The dependencies of a timer.
pub struct Deps {
    /// The deployment.
    pub client: Client,
    /// The registry for the timer's metrics.
    pub metrics: Metrics,
    /// Receives the condition `timer` (the timer can pump) and the heartbeat `pump` (the pump's thread is alive).
    pub readiness: Readiness,
    /// The membership that divides the shards.
    pub membership: Membership,
    /// Settings of the sweeps.
    pub sweep: SweepConfig,
}

/// The way in which shards are divided among the timers.
pub enum Membership {
    /// This timer owns every shard, by a lock in Redis.
    Single {
        /// The owner that the lock names, different for each process; [`Membership::single`] makes an owner. After a
        /// crash, a process with the same owner (kept in a locked folder, say) takes over at once; any other process
        /// waits until the lock ends.
        owner: String,
    },
    /// This timer joins the fleet of timers in etcd.
    Etcd(Box<ClusterConfig>),
}

/// A timer that is ready to run.
pub struct Timer {
    parts: Parts,
    readiness: Readiness,
    sweeping: Sweeping,
    turn: watch::Receiver<bool>,
}

/// Builds a timer: checks Redis, takes the lock or joins the fleet. Pumping begins with [`Timer::run`]; but a member of
/// the fleet keeps its lease from here on, and gives the lease up when the timer is dropped.
///
/// # Errors
/// Redis cannot be used, etcd refuses this timer, the deployment does not exist, another single timer is running. A
/// silent etcd is no error: until etcd answers the timer owns nothing, and pumps long overdue shards.
pub async fn build(config: TimerConfig, deps: Deps) -> Result<Timer, Fault> {
    let Deps { client, metrics, readiness, membership, sweep } = deps;
    let condition = readiness.condition("timer");
    let admin = Admin::new(client.clone());
    admin.check_server().await.map_err(|error| unusable(&client, error))?;
    // The first shard proves that a deployment exists; each other shard is checked by its claim.
    admin.layout().await.map_err(|error| unusable(&client, error))?;
    identify(&admin).await.map_err(|error| unusable(&client, error))?;
    let (owner, lock, handle) = match membership {
        Membership::Single { owner } => {
            take_lock(&client, &owner, *config.lock).await?;
            (owner, *config.lock, Cluster::single(client.shards()))
        }
        Membership::Etcd(mut cluster) => {
            // Redis knows better than the configuration, which may predate a growth.
            cluster.shards = client.shards();
            cluster.deployment = client.identity();
            let owner = cluster.member.name.clone();
            // Without etcd the timer starts all the same, and pumps shards that nobody else pumps.
            let joined = Cluster::start(*cluster).await;
            let refused = |error| Fault::new(&ETCD, "join the timers").because(error);
            (owner, Duration::ZERO, joined.map_err(refused)?)
        }
    };
    let sweeping = Sweeping {
        config: sweep,
        // On a connection of its own, so that no due message waits behind the sweep's answers.
        admin: Admin::new(client.apart()),
        metrics: SweepMetrics::register(&metrics),
    };
    let metrics = TimerMetrics::register(&metrics, &config.horizons);
    let (sweeps, turn) = watch::channel(false);
    Ok(Timer {
        parts: Parts { config, client, metrics, condition, owner, lock, handle, sweeps },
        readiness,
        sweeping,
        turn,
    })
}

// === impl Membership ===

impl Membership {
    /// A single timer of this name, with an owner unlike any other process's.
    #[must_use]
    pub fn single(name: &str) -> Self {
        Self::Single { owner: format!("{name}-{:08x}", fastrand::u32(..)) }
    }
}

// === impl Timer ===

impl Timer {
    /// Pumps until shutdown is requested, then hands its shards over: on a thread of its own, until this future is
    /// dropped. Sweeps when this timer's turn comes.
    ///
    /// # Errors
    /// A part of the membership ended by itself, which is a bug.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fault> {
        let Self { mut parts, readiness, sweeping, turn } = self;
        let (redis, shards) = (parts.client.address(), parts.client.shards().get());
        events::started(&parts.owner, &redis, shards, !parts.lock.is_zero());
        // On a connection of its own, so that no pump waits behind other answers.
        parts.client = parts.client.apart();
        let heartbeat = readiness.heartbeat("pump", STUCK_AFTER);
        let pumping = async move || {
            let alarm =
                Alarm::start().map_err(|error| Fault::new(&SYSTEM, "cannot set an alarm").because(error))?;
            Pumping::new(parts, heartbeat, alarm).run(shutdown).await
        };
        let (pumped, ()) = tokio::join!(apart::run("delayq-pump", pumping), sweeping.run(turn));
        pumped?
    }
}

/// Gives an old deployment without an identity a new identity. A node that is away may report its deployment later.
async fn identify(admin: &Admin) -> Result<(), Error> {
    match admin.identify().await {
        Err(error @ Error::Foreign { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "some shards record no deployment");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Waits as long as the lock of a dead timer may last.
async fn take_lock(client: &Client, owner: &str, lock: Duration) -> Result<(), Fault> {
    let shards: Vec<ShardId> = client.shards().shards().collect();
    let started = Instant::now();
    loop {
        let Some(other) = other_owner(client, &shards, owner, lock).await? else { return Ok(()) };
        if started.elapsed() > lock + LOCK_RETRY {
            return Err(Fault::new(&LOCKED, format!("{other} holds the lock and renews it")));
        }
        tracing::info!(owner = other, "waiting for the lock of another timer to expire");
        tokio::time::sleep(LOCK_RETRY.max(lock / 20)).await;
    }
}

async fn other_owner(
    client: &Client,
    shards: &[ShardId],
    owner: &str,
    lock: Duration,
) -> Result<Option<String>, Fault> {
    let (mut is_mine, mut unclaimed) = (false, None);
    for some in shards.chunks(SHARDS_A_CALL) {
        let claims = Owner::new(client.clone()).claim(some, owner, lock).await;
        for (&shard, claimed) in some.iter().zip(claims) {
            match claimed {
                Ok(Claimed::Mine { .. }) => is_mine = true,
                Ok(Claimed::Owned { owner, .. }) => return Ok(Some(owner)),
                Err(error) if is_of_its_node(client, shard, &error) => unclaimed = unclaimed.or(Some(error)),
                Err(error) => return Err(unusable(client, error)),
            }
        }
    }
    // Shards of an unusable node are claimed once the node is usable.
    unclaimed.filter(|_| !is_mine).map_or(Ok(None), |error| Err(unusable(client, error)))
}

/// Returns true if an error leaves the shards of other nodes to this timer: the shard's node is away, came back empty,
/// or is not in the map.
fn is_of_its_node(client: &Client, shard: ShardId, error: &Error) -> bool {
    match error {
        Error::Uninitialised(_) => Admin::new(client.clone()).nodes().are_several(),
        Error::Deployment(_) => client.nodes().is_some_and(|map| map.node(shard).is_none()),
        error => error.is_outage(),
    }
}

fn unusable(client: &Client, error: Error) -> Fault {
    Fault::of_redis(&format!("pump at {}", client.address()), error)
}
