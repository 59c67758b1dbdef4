//! Building a timer, which may fail, and running it, which only ends when asked to.

use crate::alarm::Alarm;
use crate::calls::SHARDS_A_CALL;
use crate::codes::{ETCD, LOCKED};
use crate::config::TimerConfig;
use crate::metrics::TimerMetrics;
use crate::pumping::{Parts, Pumping};
use crate::sweep_config::SweepConfig;
use crate::sweep_metrics::SweepMetrics;
use crate::sweeping::Sweeping;
use crate::{apart, events};
use delayq::protocol::{Claimed, Owner, ShardId};
use delayq::{Admin, Client, Error};
use delayq_cluster::{Cluster, ClusterConfig};
use delayq_service::codes::SYSTEM;
use delayq_service::{Fault, Metrics, Readiness, Shutdown};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a start rests before it asks for a lock again.
const LOCK_RETRY: Duration = Duration::from_millis(200);

/// How long the pump's thread may show no sign of life; it turns at least once a second.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// What a timer works with.
pub struct Deps {
    /// The deployment.
    pub client: Client,
    /// Where it registers its numbers.
    pub metrics: Metrics,
    /// Where it says whether it can pump, as the condition `timer`, and that its thread is alive, as the heartbeat `pump`.
    pub readiness: Readiness,
    /// Who divides the shards.
    pub membership: Membership,
    /// How the deployment is swept.
    pub sweep: SweepConfig,
}

/// Who divides the shards among the timers.
pub enum Membership {
    /// Nobody: this timer owns every shard, by a lock in Redis.
    Single {
        /// What the lock holds, different for each process; [`Membership::single`] makes one. An owner that outlives a
        /// crash (of a folder that is itself locked, say) takes over at once after it; any other waits for the lock's end.
        owner: String,
    },
    /// etcd: this timer joins the fleet of timers.
    Etcd(Box<ClusterConfig>),
}

/// A timer that is ready to run.
pub struct Timer {
    parts: Parts,
    readiness: Readiness,
    sweeping: Sweeping,
    turn: watch::Receiver<bool>,
}

/// Makes a timer: checks Redis, takes the lock or joins the fleet. Nothing is pumped before [`Timer::run`]; but a
/// member of the fleet keeps its lease from here on, and gives it up when the timer is dropped.
///
/// # Errors
/// Redis cannot be used, etcd refuses this timer, the deployment does not exist, another single timer is running. An etcd
/// that does not answer is no error: until it does the timer owns nothing, and pumps what is long overdue.
pub async fn build(config: TimerConfig, deps: Deps) -> Result<Timer, Fault> {
    let Deps { client, metrics, readiness, membership, sweep } = deps;
    let condition = readiness.condition("timer");
    let admin = Admin::new(client.clone());
    admin.check_server().await.map_err(|error| unusable(&client, error))?;
    // One shard says whether there is a deployment; each of the others is seen when it is claimed.
    admin.layout().await.map_err(|error| unusable(&client, error))?;
    identify(&admin).await.map_err(|error| unusable(&client, error))?;
    let (owner, lock, handle) = match membership {
        Membership::Single { owner } => {
            take_lock(&client, &owner, *config.lock).await?;
            (owner, *config.lock, Cluster::single(config.effective_name(), client.shards()))
        }
        Membership::Etcd(mut cluster) => {
            // Redis knows better than the configuration, which may be from before a growth.
            cluster.shards = client.shards();
            cluster.deployment = client.identity();
            let owner = cluster.member.name.clone();
            // Without etcd it begins all the same, and pumps what nobody else does.
            let joined = Cluster::start(*cluster).await;
            let refused = |error| Fault::new(&ETCD, "cannot become one of the timers").because(error);
            (owner, Duration::ZERO, joined.map_err(refused)?)
        }
    };
    let sweeping = Sweeping {
        config: sweep,
        // Nothing that is due waits behind its answers.
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
    /// A single timer of this name, unlike any other process.
    #[must_use]
    pub fn single(name: &str) -> Self {
        Self::Single { owner: format!("{name}-{:08x}", fastrand::u32(..)) }
    }
}

// === impl Timer ===

impl Timer {
    /// Pumps until shutdown is asked for, and then hands its shards over: on a thread of its own, for as long as this
    /// future is not dropped. Sweeps when it is this timer's turn.
    ///
    /// # Errors
    /// A part of the membership ended by itself, which is a bug.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fault> {
        let Self { mut parts, readiness, sweeping, turn } = self;
        let (redis, shards) = (parts.client.address(), parts.client.shards().get());
        events::started(&parts.owner, &redis, shards, !parts.lock.is_zero());
        // On a connection of its own, so that no pump waits behind another's answers.
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

/// Gives a deployment from before there were identities its own. A node that is away may say later to which one it belongs.
async fn identify(admin: &Admin) -> Result<(), Error> {
    match admin.identify().await {
        Err(error @ Error::Foreign { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "not every shard says to which deployment it belongs");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Takes the lock on every shard; waits as long as the lock of a timer that died may last.
async fn take_lock(client: &Client, owner: &str, lock: Duration) -> Result<(), Fault> {
    let shards: Vec<ShardId> = client.shards().shards().collect();
    let started = Instant::now();
    loop {
        let Some(other) = other_owner(client, &shards, owner, lock).await? else { return Ok(()) };
        if started.elapsed() > lock + LOCK_RETRY {
            return Err(Fault::new(&LOCKED, format!("{other} has the lock and renews it")));
        }
        tracing::info!(owner = other, "waiting for the lock of another timer to end");
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
                Ok(Claimed::Owned { owner }) => return Ok(Some(owner)),
                Err(error) if is_of_its_node(client, shard, &error) => unclaimed = unclaimed.or(Some(error)),
                Err(error) => return Err(unusable(client, error)),
            }
        }
    }
    // Shards of a node that cannot be used now are claimed once it can.
    unclaimed.filter(|_| !is_mine).map_or(Ok(None), |error| Err(unusable(client, error)))
}

/// Whether an error leaves the shards of other nodes to this timer: the shard's node is away, came back empty, or is not in
/// the map.
fn is_of_its_node(client: &Client, shard: ShardId, error: &Error) -> bool {
    match error {
        Error::Uninitialised(_) => Admin::new(client.clone()).has_nodes(),
        Error::Deployment(_) => client.nodes().is_some_and(|map| map.node(shard).is_none()),
        error => error.is_outage(),
    }
}

fn unusable(client: &Client, error: Error) -> Fault {
    Fault::of_redis(&format!("pump at {}", client.address()), error)
}
