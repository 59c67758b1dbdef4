//! Several timers that share a deployment through a real etcd.

use crate::bounds::Times;
use crate::stand::{Running, Stand, polling, start};
use delayq::Client;
use delayq::protocol::Owner;
use delayq_cluster::{Cluster, ClusterConfig, EtcdConfig, Operator, Owning};
use delayq_service::config::{DeploymentConfig, HumanDuration, Login, Secret};
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::deployment::settings;
use delayq_tests::etcd_server::{EtcdCluster, EtcdOptions};
use delayq_timer::{Membership, TimerConfig};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;

/// Short times, so that expiries come soon. etcd grants no lease below 2 s.
pub(crate) const TIMES: Times = Times {
    lease: Duration::from_secs(2),
    poll: Duration::from_millis(250),
    call: Duration::from_millis(500),
    steady: Duration::from_millis(1_500),
    lock: Duration::from_secs(1),
};

pub(crate) struct Fleet {
    pub(crate) stand: Stand,
    pub(crate) etcd: EtcdCluster,
    pub(crate) times: Times,
    pub(crate) etcd_call: Duration,
    pub(crate) credentials: Option<(String, Secret)>,
    _turn: Option<MutexGuard<'static, ()>>,
}

pub(crate) struct Route {
    pub(crate) etcd: Vec<String>,
    pub(crate) client: Client,
}

// === impl Fleet ===

impl Fleet {
    pub(crate) async fn with(shards: u16) -> Self {
        Self::on(Stand::new(shards).await, EtcdCluster::start_one().await)
    }

    /// For bounds of milliseconds on hundreds of shards: an etcd with a quick disk, and one fleet at a time,
    /// since two would make each other late.
    pub(crate) async fn with_quick_etcd(shards: u16) -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let etcd = EtcdCluster::start_with(EtcdOptions::default().in_memory()).await;
        Self { _turn: Some(turn), ..Self::on(Stand::new(shards).await, etcd) }
    }

    pub(crate) async fn with_three(shards: u16) -> Self {
        Self::on(Stand::new(shards).await, EtcdCluster::start_three().await)
    }

    pub(crate) fn on(stand: Stand, etcd: EtcdCluster) -> Self {
        let etcd_call = Duration::from_millis(500);
        Self { stand, etcd, times: TIMES, etcd_call, credentials: None, _turn: None }
    }

    pub(crate) fn direct(&self) -> Route {
        Route { etcd: self.etcd.endpoints(), client: self.stand.client.clone() }
    }

    pub(crate) fn client_at(&self, address: &str) -> Client {
        let mut settings = settings(self.stand.server.url_through(address), self.stand.shards);
        let call = self.times.call;
        settings.link = settings.link.deadline(call).connect_timeout(call);
        Client::new(settings)
    }

    pub(crate) async fn timer(&self, name: &str) -> Running {
        self.timer_by(name, self.direct()).await
    }

    pub(crate) fn operator(&self) -> Operator {
        Operator::new(&self.member("operator", &self.direct())).unwrap()
    }

    /// A member that claims its shards and pumps none of them, until aborted.
    pub(crate) async fn idler(&self, name: &str) -> JoinHandle<()> {
        let handle = Cluster::start(self.member(name, &self.direct())).await.unwrap();
        let (owner, name) = (Owner::new(self.stand.client.clone()), name.to_owned());
        tokio::spawn(async move {
            let (mut views, mut owning) = (handle.subscribe(), Owning::default());
            views.mark_changed();
            while views.changed().await.is_ok() {
                owning.follow(&views.borrow_and_update(), Instant::now());
                let wanted = owning.claims(Instant::now());
                for claimed in owner.claim(&wanted, &name, Duration::ZERO).await {
                    claimed.unwrap();
                }
            }
        })
    }

    fn member(&self, name: &str, Route { etcd, client }: &Route) -> ClusterConfig {
        let (username, password) = self.credentials.clone().unzip();
        let etcd = EtcdConfig {
            lease_ttl: self.times.lease.into(),
            call_deadline: self.etcd_call.into(),
            login: Login { username, password },
            ..EtcdConfig::at(etcd.clone()).unwrap()
        };
        let deployment = DeploymentConfig { shards: client.shards(), ..DeploymentConfig::default() };
        ClusterConfig::new(&etcd, &deployment, name)
    }

    pub(crate) async fn timer_by(&self, name: &str, route: Route) -> Running {
        let cluster = self.member(name, &route);
        let steady = HumanDuration::from(self.times.steady);
        let config = TimerConfig { clock_steady: steady, ..polling(self.times.poll) };
        start(config, route.client, Membership::Etcd(Box::new(cluster))).await.unwrap()
    }

    pub(crate) async fn share(&self, timers: &[&Running]) {
        let each = self.stand.shards / timers.len() as u16;
        wait_until("the shards to be shared", SHORT, || async {
            let owned: Vec<u16> =
                timers.iter().map(|timer| timer.metric("delayq_timer_shards") as u16).collect();
            owned.iter().sum::<u16>() == self.stand.shards
                && owned.iter().all(|&n| n == each || n == each + 1)
        })
        .await;
    }
}
