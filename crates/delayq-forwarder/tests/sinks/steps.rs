//! A forwarder that shares by plan and dies at each step of its life, before the request of that step or right after it:
//! another one takes over its shards, and delivers what it had.

use crate::sharing::{LEASE, member, seen, settings, takes_from};
use crate::stage::{Running, Stage, route};
use delayq::Client;
use delayq::protocol::{Scripts, Verb};
use delayq_forwarder::{RedisStreamConfig, Settings, SinkConfig};
use delayq_service::config::RedisConfig;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use delayq_tests::tripwire::{End, Step, Tripwire, begins_to_lead, gives_up_a_claim, has, revokes_its_lease};
use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

const BOTH: [End; 2] = [End::Before, End::After];
/// The lease time of one that has to keep its shards until another joins: over a stall of the machine that ends a shorter
/// one, the two would change places, and the other one would be the one that gives.
const LONG_LEASE: Duration = Duration::from_secs(8);
/// What is put at once, and how often, while something else goes on.
const LOAD: usize = 20;
const LOAD_EVERY: Duration = Duration::from_millis(50);

/// A deployment with servers of its own, and the way of the forwarder that will die.
struct Scene {
    stage: Stage,
    folder: tempfile::TempDir,
    etcd: EtcdCluster,
    /// Runs as long as the scene.
    _redis: SharedRedis,
    wire: Tripwire,
    way: Vec<String>,
    client: Client,
    put: Cell<usize>,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let (redis, etcd, mut wire) = (
            SharedRedis::from(RedisServer::private().await),
            EtcdCluster::start_one().await,
            Tripwire::default(),
        );
        let stage = Stage::at(&redis.url()).await;
        let way = vec![format!("http://{}", wire.way_to(etcd.members()[0].address()).await)];
        let client = stage.client_at(&redis.url_through(&wire.way_to(redis.address()).await));
        let folder = tempfile::tempdir().unwrap();
        Self { stage, folder, etcd, _redis: redis, wire, way, client, put: Cell::new(0) }
    }

    fn settings(&self, name: &str) -> Settings {
        settings(&self.stage, self.folder.path(), name)
    }

    async fn well(&self) -> Running {
        let group = member(&self.stage, &self.etcd.endpoints(), "well");
        self.stage.forward_by_plan(self.settings("well"), group).await.unwrap()
    }

    async fn doomed(&self) -> Running {
        self.doomed_with(self.settings("doomed")).await
    }

    async fn doomed_with(&self, settings: Settings) -> Running {
        self.doomed_of(settings, LEASE).await
    }

    async fn doomed_of(&self, settings: Settings, lease_ttl: Duration) -> Running {
        let mut group = member(&self.stage, &self.way, "doomed");
        group.etcd.lease_ttl = lease_ttl.into();
        self.stage.forward_by_plan_through(self.client.clone(), settings, group).await.unwrap()
    }

    /// Waits until so many shards are claimed. (Who has no plan yet takes from every shard, and claims none.)
    async fn claims(&self, count: usize) {
        let claims = format!("/delayq/{}/forwarder/claims/", self.stage.namespace);
        wait_until("the claims", LONG, async || self.etcd.keys(&claims).await.len() == count).await;
    }

    async fn put(&self, count: usize) {
        self.stage.put("t", self.put.replace(self.put.get() + count), count, 100).await;
    }

    /// Puts messages for as long as this takes.
    async fn under_load<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut work, mut every) = (pin!(work), tokio::time::interval(LOAD_EVERY));
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = every.tick() => self.put(LOAD).await,
            }
        }
    }

    /// Everything goes through the one that is left, and the invariants hold.
    async fn goes_on(self, well: Running) {
        takes_from(&well, 4.0).await;
        self.put(200).await;
        self.stage.drained("t").await;
        well.stop().await;
        // What had been delivered and was not acked yet.
        let permit = Permit { duplicates: 100, ..Permit::default() };
        self.stage.check("t", seen(self.folder.path()), &permit).await;
    }
}

/// A forwarder that joins another one and dies at this step of joining.
async fn dies_joining(step: Step) {
    for end in BOTH {
        let scene = Scene::new().await;
        let well = scene.well().await;
        takes_from(&well, 4.0).await;
        scene.wire.arm(step, end);
        let joining = async {
            let mut joining = pin!(scene.doomed());
            tokio::select! {
                () = scene.wire.tripped() => {}
                doomed = &mut joining => {
                    scene.wire.tripped().await;
                    doomed.kill().await;
                }
            }
        };
        scene.under_load(joining).await;
        scene.goes_on(well).await;
    }
}

/// A forwarder that is alone and dies at this step; another one comes after it.
async fn dies_alone(step: Step) {
    for end in BOTH {
        let scene = Scene::new().await;
        scene.wire.arm(step, end);
        let dying = async {
            let doomed = scene.doomed().await;
            scene.wire.tripped().await;
            doomed.kill().await;
        };
        scene.under_load(dying).await;
        let well = scene.well().await;
        scene.goes_on(well).await;
    }
}

/// A forwarder that has every shard and dies at this step, when another one joins it.
async fn dies_giving_way(step: Step) {
    for end in BOTH {
        let scene = Scene::new().await;
        let doomed = scene.doomed_of(scene.settings("doomed"), LONG_LEASE).await;
        scene.claims(4).await;
        scene.wire.arm(step, end);
        let dying = async {
            let well = scene.well().await;
            scene.wire.tripped().await;
            doomed.kill().await;
            well
        };
        let well = scene.under_load(dying).await;
        scene.goes_on(well).await;
    }
}

/// A forwarder that is told to stop and dies at this step of stopping.
async fn dies_stopping(step: Step) {
    for end in BOTH {
        let scene = Scene::new().await;
        let (doomed, well) = (scene.doomed().await, scene.well().await);
        takes_from(&doomed, 2.0).await;
        takes_from(&well, 2.0).await;
        let dying = async {
            scene.wire.arm(step, end);
            doomed.ask_to_stop();
            scene.wire.tripped().await;
            doomed.kill().await;
        };
        scene.under_load(dying).await;
        scene.goes_on(well).await;
    }
}

fn calls(sent: &[u8], verb: Verb) -> bool {
    has(sent, &Scripts::published().get(verb).sha)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_as_it_registers_takes_nothing_along() {
    dies_joining(|sent| has(sent, r#""name":"doomed","role""#)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_as_it_claims_its_shards_is_replaced() {
    dies_joining(|sent| has(sent, r#""name":"doomed"}"#)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_as_it_begins_to_listen_is_replaced() {
    dies_joining(|sent| has(sent, "SUBSCRIBE")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_as_it_looks_its_topics_up_is_replaced() {
    dies_joining(|sent| calls(sent, Verb::Overview)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_at_its_first_reserve_takes_nothing_along() {
    dies_joining(|sent| calls(sent, Verb::Reserve)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_at_its_first_ack_repeats_no_more_than_it_had_on_its_way() {
    dies_joining(|sent| calls(sent, Verb::Ack)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_as_it_begins_to_lead_leaves_the_lead_to_the_next() {
    dies_alone(begins_to_lead).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_as_it_writes_the_plan_leaves_the_lead_to_the_next() {
    dies_alone(|sent| has(sent, r#""owners":["#)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_as_it_gives_shards_to_another_is_replaced() {
    dies_giving_way(gives_up_a_claim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_as_it_leaves_keeps_nobody_from_its_shards() {
    dies_stopping(revokes_its_lease).await;
}

/// Its destination does not answer any more, so that it has something to give back.
#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_dies_as_it_gives_messages_back_loses_none() {
    for end in BOTH {
        let (scene, destination) = (Scene::new().await, RedisServer::start().await);
        let silent = Proxy::start(&destination.address());
        let doomed = scene.doomed_with(into_stream(&scene, &silent.address())).await;
        takes_from(&doomed, 4.0).await;
        silent.set_both(Flow::Hold);
        scene.put(50).await;
        scene.wire.arm(|sent| calls(sent, Verb::Release), end);
        doomed.has_in_flight("s").await;
        doomed.ask_to_stop();
        scene.wire.tripped().await;
        doomed.kill().await;
        let well = scene.well().await;
        scene.goes_on(well).await;
    }
}

/// Settings of a forwarder that writes to a stream behind this address.
fn into_stream(scene: &Scene, address: &str) -> Settings {
    let redis = RedisConfig { url: format!("redis://{address}").parse().unwrap(), ..RedisConfig::default() };
    let config = RedisStreamConfig { redis: Some(redis), ..RedisStreamConfig::default() };
    let sink = SinkConfig { redis_stream: Some(config), ..SinkConfig::default() };
    let settings = scene.stage.settings([("s", sink)], vec![route("t", "s", "out")]);
    Settings { forwarder: scene.settings("doomed").forwarder, ..settings }
}
