//! The way into a fleet: joins it and starts the member's tasks.

use crate::alarms::watch_alarms;
use crate::config::ClusterConfig;
use crate::election::Campaigner;
use crate::error::ClusterError;
use crate::etcd::{EtcdError, EtcdLink};
use crate::follower::{Follower, ViewSender};
use crate::handle::{Handle, Inner, Mode};
use crate::keeper::Keeper;
use crate::keys::FleetKeys;
use crate::membership::{Base, Desired, Standing};
use crate::ownership::OwnershipView;
use crate::refused::Refused;
use crate::registrar::Registrar;
use crate::single::{self, Single};
use crate::spawner::Spawner;
use crate::stats::Counters;
use delayq::ShardCount;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The way into a fleet.
pub struct Cluster;

// === impl Cluster ===

impl Cluster {
    /// Joins a fleet: connects, takes a lease, registers, and starts to follow the plan, which [`Handle::subscribe`]
    /// returns. If etcd does not answer the first try, no shards are planned for the member, its trust is
    /// [`Trust::Joining`](crate::Trust::Joining), and the member joins by itself as soon as etcd answers. The same holds
    /// for the fleet of another deployment: [`Handle::foreign`] returns the reason.
    ///
    /// # Errors
    /// A configuration that cannot be used; etcd refusing this user. Everything that this member left in etcd disappears
    /// within a lease time.
    pub async fn start(config: ClusterConfig) -> Result<Handle, ClusterError> {
        let (base, desired) = prepare(config)?;
        let standing = match base.enroll(&desired).await {
            Ok(session) => Standing::enrolled(session),
            Err(error @ EtcdError::Refused(_)) => {
                return Err(error.to_error(base.link.config(), Duration::ZERO));
            }
            Err(error) => {
                tracing::warn!(%error, "not in the fleet yet: joins when etcd answers");
                Standing::default()
            }
        };
        Ok(start(base, desired, standing))
    }

    /// Owns every shard without etcd. [`SINGLE_MODE_LIMITS`](crate::SINGLE_MODE_LIMITS) lists the limits; the lock that
    /// keeps a second owner out is the caller's.
    ///
    /// Must be called within a tokio runtime.
    pub fn single(shards: ShardCount) -> Handle {
        let (desired, wanted) = watch::channel(Desired::serving(shards));
        let (standing, stands) = watch::channel(single::standing());
        let (view, shown) = watch::channel(Arc::new(OwnershipView::default()));
        let (leaving, left) = watch::channel(false);
        let (spawner, failed) = Spawner::new(left.clone(), wanted.clone());
        let mut single = Single { desired: wanted, standing, view, leaving: left };
        single.settle();
        spawner.spawn("single owner", single.run());
        let inner = Inner {
            views: shown,
            standing: stands,
            desired,
            leaving,
            failed,
            counters: Arc::new(Counters::default()),
            leads: Arc::new(AtomicBool::new(true)),
            tasks: spawner.tasks,
            mode: Mode::Single,
        };
        Handle { inner: Arc::new(inner) }
    }
}

fn prepare(config: ClusterConfig) -> Result<(Base, Desired), ClusterError> {
    config.check()?;
    let counters = Arc::new(Counters::default());
    let link = EtcdLink::new(config.etcd.clone(), counters.clone())?;
    let desired = Desired::serving(config.shards);
    let keys = FleetKeys::of(&config);
    let refused = Refused::default();
    Ok((Base { link, keys, config: Arc::new(config), counters, refused, leads: Arc::default() }, desired))
}

fn start(base: Base, desired: Desired, standing: Standing) -> Handle {
    let (desired, wanted) = watch::channel(desired);
    let (standing, stands) = watch::channel(standing);
    let (view, shown) = watch::channel(Arc::new(OwnershipView::default()));
    let (recheck, rechecks) = mpsc::unbounded_channel();
    let (missed, missing) = mpsc::unbounded_channel();
    let (leaving, left) = watch::channel(false);
    let (spawner, failed) = Spawner::new(left.clone(), wanted.clone());
    let views = ViewSender { view, standing: stands.clone(), leaving: left.clone() };
    let keeper = Keeper::new(base.clone(), wanted.clone(), standing, missing, left.clone());
    let registrar = Registrar::new(base.clone(), wanted, stands.clone(), left.clone());
    let campaigner = Campaigner::new(base.clone(), stands.clone(), left.clone());
    spawner.spawn("lease keeper", keeper.run());
    spawner.spawn("registrar", registrar.run());
    spawner.spawn("campaigner", campaigner.run());
    spawner.spawn("alarm watcher", watch_alarms(base.link.clone(), left));
    spawner.spawn("follower", Follower::new(base.clone(), views, rechecks, missed).run());
    let inner = Inner {
        views: shown,
        standing: stands,
        desired,
        leaving,
        failed,
        counters: base.counters.clone(),
        leads: base.leads.clone(),
        tasks: spawner.tasks,
        mode: Mode::Etcd { base, recheck },
    };
    Handle { inner: Arc::new(inner) }
}
