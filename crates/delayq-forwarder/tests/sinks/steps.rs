//! A forwarder dies before or right after the request of each step: another delivers the messages.

use crate::sharing::{seen, settings, takes_from};
use crate::stage::{Running, Stage, route};
use delayq::Client;
use delayq::protocol::{Scripts, Verb};
use delayq_forwarder::{RedisSinkConfig, Settings, SinkConfig};
use delayq_service::config::RedisConfig;
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use delayq_tests::tripwire::{End, Step, Tripwire, has};
use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

const BOTH: [End; 2] = [End::Before, End::After];
const LOAD: usize = 20;
const LOAD_EVERY: Duration = Duration::from_millis(50);

/// `proxy` belongs to the forwarder that will die.
struct Scene {
    stage: Stage,
    folder: tempfile::TempDir,
    _redis: SharedRedis,
    wire: Tripwire,
    client: Client,
    put: Cell<usize>,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let (redis, mut wire) = (SharedRedis::from(RedisServer::private().await), Tripwire::default());
        let stage = Stage::at(&redis.url()).await;
        let client = stage.client_at(&redis.url_through(&wire.way_to(redis.address()).await));
        let folder = tempfile::tempdir().unwrap();
        Self { stage, folder, _redis: redis, wire, client, put: Cell::new(0) }
    }

    fn settings(&self, name: &str) -> Settings {
        settings(&self.stage, self.folder.path(), name)
    }

    async fn well(&self) -> Running {
        self.stage.forward(self.settings("well")).await.unwrap()
    }

    async fn doomed(&self) -> Running {
        self.doomed_with(self.settings("doomed")).await
    }

    async fn doomed_with(&self, settings: Settings) -> Running {
        self.stage.forward_through(self.client.clone(), settings).await.unwrap()
    }

    async fn put(&self, count: usize) {
        self.stage.put("t", self.put.replace(self.put.get() + count), count, 100).await;
    }

    async fn under_load<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut work, mut every) = (pin!(work), tokio::time::interval(LOAD_EVERY));
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = every.tick() => self.put(LOAD).await,
            }
        }
    }

    async fn goes_on(self, well: Running) {
        takes_from(&well, 4.0).await;
        self.put(200).await;
        self.stage.drained("t").await;
        well.stop().await;
        let permit = Permit { duplicates: 100, ..Permit::default() };
        self.stage.check("t", seen(self.folder.path()), &permit).await;
    }
}

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

fn calls(sent: &[u8], verb: Verb) -> bool {
    has(sent, &Scripts::published().get(verb).sha)
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

/// The destination is silent, so that messages remain to be released.
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

fn into_stream(scene: &Scene, address: &str) -> Settings {
    let redis = RedisConfig { url: format!("redis://{address}").parse().unwrap(), ..RedisConfig::default() };
    let config = RedisSinkConfig { server: Some(redis), ..RedisSinkConfig::default() };
    let sink = SinkConfig { redis: Some(config), ..SinkConfig::default() };
    let settings = scene.stage.settings([("s", sink)], vec![route("t", "s", "out")]);
    Settings { forwarder: scene.settings("doomed").forwarder, ..settings }
}
