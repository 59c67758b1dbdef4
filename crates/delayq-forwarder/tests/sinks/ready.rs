//! Readiness means that ready messages move, not only that Redis answers.

use crate::stage::{Running, Stage, route};
use delayq_forwarder::{FileConfig, SinkConfig, WebhookConfig};
use delayq_service::config::HumanDuration;
use delayq_tests::deadline::{LONG, wait_for, wait_until};
use delayq_tests::redis_server::RedisServer;
use std::path::Path;

/// Several polls of every shard.
const SCRIPTS: u64 = 30;

struct Scene {
    server: RedisServer,
    stage: Stage,
    running: Running,
    _folder: tempfile::TempDir,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let server = RedisServer::private().await;
        let (stage, folder) = (Stage::at(&server.url()).await, tempfile::tempdir().unwrap());
        let mut settings = stage.settings([("f", file(folder.path()))], vec![route("t", "f", "all")]);
        settings.forwarder.lease = HumanDuration::from_secs(1);
        let running = stage.forward(settings).await.unwrap();
        let scene = Self { server, stage, running, _folder: folder };
        scene.is_ready().await;
        scene
    }

    async fn acl(&self, rule: &str) {
        let () = self.server.command(&["ACL", "SETUSER", "default", rule]).await;
    }

    async fn needs_replicas(&self, count: &str) {
        let () = self.server.command(&["CONFIG", "SET", "min-replicas-to-write", count]).await;
    }

    async fn is_ready(&self) {
        wait_until("the forwarder to be ready", LONG, || async {
            self.running.readiness.unready().is_empty()
        })
        .await;
    }

    async fn unready(&self, condition: &str) -> String {
        wait_for(&format!("{condition} not to hold"), LONG, || async {
            let unready = self.running.readiness.unready();
            unready.into_iter().find(|unready| unready.condition == condition).map(|unready| unready.reason)
        })
        .await
    }

    /// Fails if the condition holds before several more polls were answered.
    async fn stays_unready(&self, condition: &str) {
        let polled = self.server.scripts_run().await + SCRIPTS;
        wait_until("some polls more", LONG, || async {
            let unready = self.running.readiness.unready();
            let still = unready.iter().any(|unready| unready.condition == condition);
            assert!(still, "{condition} holds again; not: {unready:?}");
            self.server.scripts_run().await >= polled
        })
        .await;
    }
}

fn file(dir: &Path) -> SinkConfig {
    SinkConfig { file: Some(FileConfig { dir: dir.to_owned(), rotate_at: None }), ..SinkConfig::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_may_not_lease_what_is_ready_is_not_ready_until_it_may() {
    let scene = Scene::new().await;
    scene.acl("-zadd").await;
    scene.stage.put("t", 0, 5, 10).await;
    scene.unready("progress").await;
    assert!(scene.running.metric("delayq_forwarder_stalled") > 0.5);
    scene.stays_unready("progress").await;
    scene.acl("+zadd").await;
    scene.stage.drained("t").await;
    scene.is_ready().await;
    assert!(scene.running.metric("delayq_forwarder_stalled") < 0.5);
    scene.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_whose_acks_are_refused_is_not_ready_until_one_is_taken() {
    let scene = Scene::new().await;
    scene.acl("-mset").await;
    scene.stage.put("t", 0, 5, 10).await;
    let why = scene.unready("progress").await;
    assert!(why.contains("does not accept settlements"), "{why}");
    scene.acl("+mset").await;
    scene.is_ready().await;
    scene.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_is_not_ready_while_redis_refuses_writes_though_nothing_is_ready() {
    let scene = Scene::new().await;
    scene.needs_replicas("1").await;
    let why = scene.unready("forwarder").await;
    assert!(why.contains("NOREPLICAS"), "{why}");
    // Topic pages remain readable.
    scene.stays_unready("forwarder").await;
    scene.needs_replicas("0").await;
    scene.is_ready().await;
    scene.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_is_not_ready_while_redis_is_frozen() {
    let scene = Scene::new().await;
    scene.server.freeze();
    scene.unready("forwarder").await;
    scene.server.thaw();
    scene.is_ready().await;
    scene.stage.put("t", 0, 5, 10).await;
    scene.stage.drained("t").await;
    assert!(scene.running.readiness.unready().is_empty());
    scene.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_destination_or_a_paused_topic_leaves_a_forwarder_ready() {
    let stage = Stage::new().await;
    let webhook = WebhookConfig { url: "http://127.0.0.1:1/".to_owned(), ..WebhookConfig::default() };
    let sink = SinkConfig { webhook: Some(webhook), required: false, ..SinkConfig::default() };
    let mut settings = stage.settings([("w", sink)], vec![route("t", "w", "in"), route("paused", "w", "in")]);
    settings.forwarder.circuit_failures = 1;
    let admin = delayq::Admin::new(stage.client.clone());
    admin.topic(&crate::stage::topic("paused")).pause().await.unwrap();
    stage.put("t", 0, 5, 10).await;
    stage.put("paused", 5, 5, 10).await;
    let running = stage.forward(settings).await.unwrap();
    let settled = |word: &str| running.metric(&format!("delayq_forwarder_settled_total{{word=\"{word}\"}}"));
    let given_back = || settled("delayed") + settled("ready");
    wait_until("the forwarder to be ready", LONG, || async { running.readiness.unready().is_empty() }).await;
    wait_until("a few probes", LONG, || async {
        assert_eq!(running.readiness.unready(), [], "its circuit is open");
        given_back() >= 3.0
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_under_load_is_always_ready() {
    const COUNT: usize = 20_000;
    let scene = Scene::new().await;
    for first in (0..COUNT).step_by(500) {
        scene.stage.put("t", first, 500, 100).await;
        assert_eq!(scene.running.readiness.unready(), []);
    }
    wait_until("all delivered", LONG, || async {
        assert_eq!(scene.running.readiness.unready(), []);
        scene.stage.numbers("t").await.pending() == 0
    })
    .await;
    scene.running.stop().await;
}
