//! Two deployments of one name: on one etcd, and behind one name of a Redis.

use crate::fleet::{Fleet, Route, TIMES};
use crate::stand::{Running, Stand, polling, start};
use delayq::{Admin, Client};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::proxy::Proxy;
use delayq_tests::redis_nodes::{RedisNodes, settings as settings_of};
use delayq_tests::redis_server::RedisServer;
use delayq_timer::{Membership, TimerConfig};

const SHARDS: u16 = 4;

struct Scene {
    fleet: Fleet,
    other: Stand,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        Self { fleet: Fleet::with(SHARDS).await, other: Stand::new(SHARDS).await }
    }

    async fn stray(&self) -> Running {
        let route = Route { etcd: self.fleet.etcd.endpoints(), client: self.other.client.clone() };
        self.fleet.timer_by("stray", route).await
    }
}

async fn short(client: &Client) -> String {
    Admin::new(client.clone()).identify().await.unwrap().short()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_deployments_of_one_name_on_one_etcd_stay_two_and_the_second_is_told_why() {
    let scene = Scene::new().await;
    let one = scene.fleet.timer("one").await;
    one.owns(SHARDS).await;
    let stray = scene.stray().await;
    let why = stray.unready_for("deployment").await;
    let other = scene.fleet.timer("other").await;
    for part in [
        short(&scene.fleet.stand.client).await,
        short(&scene.other.client).await,
        "/delayq/dq/timer".to_owned(),
        "etcd.prefix".to_owned(),
        scene.other.client.address(),
    ] {
        assert!(why.contains(&part), "{part} in {why}");
    }
    scene.fleet.share(&[&one, &other]).await;
    let soon = scene.fleet.stand.now_ms().await + 200;
    let count = scene.fleet.stand.put((0..40).map(|n| soon + n)).await;
    scene.fleet.stand.all_ready(count).await;
    // The stray timer still pumps long overdue messages of its own deployment.
    let soon = scene.other.now_ms().await + 100;
    scene.other.put([soon]).await;
    wait_until("what is overdue to be pumped", LONG, async || scene.other.ready().await == 1).await;
    assert!((stray.metric("delayq_timer_shards"), one.unready_now()) == (0.0, None));
    for timer in [one, other, stray] {
        timer.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_replaces_a_lost_one_is_served_once_an_operator_says_so() {
    let scene = Scene::new().await;
    let lost = scene.fleet.timer("lost").await;
    lost.owns(SHARDS).await;
    lost.stop().await;
    let stray = scene.stray().await;
    stray.unready_for("delayq init --replace").await;
    let new = Admin::new(scene.other.client.clone()).identify().await.unwrap();
    let before = scene.fleet.operator().replace_deployment(new).await.unwrap().unwrap();
    assert_eq!(before.short(), short(&scene.fleet.stand.client).await);
    assert_eq!(scene.fleet.operator().replace_deployment(new).await.unwrap(), None, "a repeat");
    stray.owns(SHARDS).await;
    stray.is_ready().await;
    stray.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_whose_redis_was_emptied_serves_the_deployment_that_is_created_there_again() {
    let fleet = Fleet::with(SHARDS).await;
    let timer = fleet.timer("one").await;
    timer.owns(SHARDS).await;
    let before = short(&fleet.stand.client).await;
    fleet.stand.server.command::<()>(&["FLUSHALL"]).await;
    timer.unready().await;
    let admin = Admin::new(Client::new(settings(fleet.stand.server.url(), SHARDS)));
    admin.init().await.unwrap();
    assert_ne!(admin.identify().await.unwrap().short(), before);
    timer.is_ready().await;
    timer.owns(SHARDS).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_whose_name_of_redis_leads_to_another_deployment_pumps_nothing_there_until_it_leads_back() {
    let scene = Scene::new().await;
    let server = &scene.fleet.stand.server;
    let proxy = Proxy::start_for_redis(&server.address());
    let client = scene.fleet.client_at(&proxy.address());
    let route = Route { etcd: scene.fleet.etcd.endpoints(), client };
    let timer = scene.fleet.timer_by("one", route).await;
    timer.owns(SHARDS).await;
    proxy.lead_to(&scene.other.server.address());
    proxy.reset_open();
    timer.unready_for("keeps deployment").await;
    timer.owns(0).await;
    let soon = scene.other.now_ms().await + 100;
    scene.other.put([soon]).await;
    wait_until("a second after it is due", LONG, async || scene.other.now_ms().await > soon + 1_000).await;
    assert_eq!(scene.other.ready().await, 0, "it was pumped by a timer of another deployment");
    proxy.lead_to(&server.address());
    proxy.reset_open();
    timer.owns(SHARDS).await;
    timer.is_ready().await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_timer_is_refused_by_the_redis_of_another_deployment_behind_its_name() {
    let (stand, other) = (Stand::new(SHARDS).await, Stand::new(SHARDS).await);
    let proxy = Proxy::start_for_redis(&stand.server.address());
    let client = Client::new(settings(stand.server.url_through(&proxy.address()), SHARDS));
    let timer = start(polling(TIMES.poll), client, Membership::single("one")).await.unwrap();
    timer.owns(SHARDS).await;
    proxy.lead_to(&other.server.address());
    proxy.reset_open();
    timer.unready_for("keeps deployment").await;
    proxy.lead_to(&stand.server.address());
    proxy.reset_open();
    timer.owns(SHARDS).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_from_before_there_were_identities_gets_one_by_timers_that_start_at_once() {
    let fleet = Fleet::with(SHARDS).await;
    for shard in 0..SHARDS {
        let meta = format!("{{dq:{shard}}}:meta");
        fleet.stand.server.command::<u64>(&["HDEL", &meta, "identity"]).await;
    }
    let at = || fleet.client_at(&fleet.stand.server.address());
    let route = || Route { etcd: fleet.etcd.endpoints(), client: at() };
    let (one, other) = tokio::join!(fleet.timer_by("one", route()), fleet.timer_by("other", route()));
    fleet.share(&[&one, &other]).await;
    let mut identities = Vec::new();
    for shard in 0..SHARDS {
        let meta = format!("{{dq:{shard}}}:meta");
        identities.push(fleet.stand.server.command::<String>(&["HGET", &meta, "identity"]).await);
    }
    identities.dedup();
    assert_eq!(identities.len(), 1, "{identities:?}");
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_deployment_among_several_redises_is_refused_by_its_name() {
    let (nodes, others) = (RedisNodes::start(2).await, RedisNodes::start(2).await);
    let _ = created(nodes.settings()).await;
    let _ = created(others.settings()).await;
    let mut rows = nodes.rows();
    rows[1][1] = others.rows()[1][1].clone();
    let wrong = settings_of(&rows, nodes.shards());
    let Err(fault) = start(TimerConfig::default(), Client::new(wrong), Membership::single("one")).await
    else {
        panic!("it began at a node of another deployment");
    };
    let fault = fault.to_string();
    for part in ["DQ-R011", "node b", &short(&Client::new(nodes.settings())).await] {
        assert!(fault.contains(part), "{part} in {fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_create_one_deployment_at_once_agree_on_its_identity() {
    let server = RedisServer::private().await;
    let at = || Admin::new(Client::new(settings(server.url(), SHARDS)));
    let admins: Vec<Admin> = (0..8).map(|_| at()).collect();
    let made = futures_util::future::join_all(admins.iter().map(async |admin| {
        admin.init().await.unwrap();
        admin.identify().await.unwrap()
    }))
    .await;
    assert!(made.iter().all(|identity| *identity == made[0]), "{made:?}");
    assert_eq!(at().identify().await.unwrap(), made[0]);
}
