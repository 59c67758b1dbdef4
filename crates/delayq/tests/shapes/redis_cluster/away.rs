//! Dead or silent nodes: the other nodes serve, and calls to the silent nodes are errors.

use crate::redis_cluster::scene::{SHARDS, apart, id_in, message, silent, slot, topic};
use delayq::protocol::{Holder, Notification, Owner, ShardId};
use delayq::{Admin, Client, Consumer, ConsumerOptions, Error, Fate};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::proxy::Proxy;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::time::{Duration, Instant};

/// The deadline of calls through a proxy: long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(1);

async fn questions(node: &RedisServer) -> u64 {
    let stats: String = node.command(&["INFO", "commandstats"]).await;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_cluster|slots:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn the_other_nodes_are_asked_less_and_less_often_while_a_master_stays_dead() {
    let mut cluster = RedisCluster::start().await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let victim = cluster.master_of(slot(0)).await;
    cluster.nodes[victim].kill().await;
    let other = &cluster.nodes[(victim + 1) % 3];
    let (began, before) = (Instant::now(), questions(other).await);
    let mut failed = 0;
    while failed < 50 || began.elapsed() < Duration::from_secs(5) {
        producer.put(message(&id_in(0, "x"))).await.unwrap_err();
        failed += 1;
    }
    // A back-off is never shorter than intended: 50 ms, doubled each time up to a second.
    let most = 6 + began.elapsed().as_secs();
    let asked = questions(other).await - before;
    assert!(asked <= most, "asked {asked} times in {:?}, {failed} puts failed", began.elapsed());
}

#[tokio::test]
async fn one_node_that_answers_is_enough_to_find_the_others() {
    let cluster = RedisCluster::start().await;
    let url = format!("redis+cluster://127.0.0.1:1,{}", cluster.nodes[2].address());
    let (_, admin, _) = created(settings(url, SHARDS)).await;
    assert_eq!(admin.nodes().check().await.unwrap().len(), 3);
}

#[tokio::test]
async fn calls_of_many_shards_wait_once_for_a_cluster_that_never_answers() {
    let (_silent, address) = silent();
    let client = Client::new(settings(format!("redis+cluster://{address}"), 256));
    let shards: Vec<ShardId> = client.shards().shards().collect();
    let owner = Owner::new(client);
    let claims = within("all of one call", LONG, owner.claim(&shards, "timer", Duration::ZERO)).await;
    for claim in claims {
        let error = claim.unwrap_err();
        assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, true), "{error}");
    }
}

#[tokio::test]
async fn a_client_connects_while_a_master_is_down_and_only_a_check_of_each_node_fails() {
    let mut cluster = RedisCluster::start().await;
    drop(created(settings(cluster.url(), SHARDS)).await);
    let victim = cluster.master_of(slot(0)).await;
    cluster.nodes[victim].kill().await;
    let admin = Admin::new(Client::connect(settings(cluster.url(), SHARDS)).await.unwrap());
    admin.check_server().await.unwrap();
    let error = admin.nodes().check().await.unwrap_err();
    assert!(error.is_outage() && error.to_string().contains(&cluster.nodes[victim].address()), "{error}");
    for node in (0..3).filter(|node| *node != victim) {
        cluster.nodes[node].command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
        let error = admin.check_server().await.unwrap_err();
        assert!(matches!(&error, Error::Unfit(why) if why.contains("allkeys-lru")), "{error}");
        cluster.nodes[node].command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    }
    for node in (0..3).filter(|node| *node != victim) {
        cluster.nodes[node].kill().await;
    }
    assert!(admin.check_server().await.unwrap_err().is_outage());
}

#[tokio::test]
async fn a_consumer_gets_what_the_other_nodes_have_while_one_is_silent() {
    let cluster = RedisCluster::start().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let [silent, other] = apart(&cluster).await;
    // Tries at the silent node must not use up the only place.
    let mut consumer = Consumer::start(client, ConsumerOptions::new([topic()]).concurrency(1)).unwrap();
    let mut delivered = async |shard: u16, name: &str| {
        let id = id_in(shard, name);
        producer.put(message(&id).after(Duration::ZERO)).await.unwrap();
        let delivery = within("a delivery", LONG, consumer.next()).await.unwrap();
        assert_eq!(delivery.id.to_string(), id);
        delivery.ack().await.unwrap();
    };
    delivered(silent, "before").await;
    delivered(other, "before").await;
    let frozen = &cluster.nodes[cluster.master_of(slot(silent)).await];
    frozen.freeze();
    // If each delivery waited for the silent node, the loop would take longer.
    within("what the others have", LONG, async {
        for n in 0..100 {
            delivered(other, &format!("{n}x")).await;
        }
    })
    .await;
    frozen.thaw();
    delivered(silent, "after").await;
    consumer.stop().await;
}

#[tokio::test]
async fn what_no_node_says_is_an_error_with_each_reason_and_passes() {
    let mut cluster = RedisCluster::start().await;
    let url = cluster.url();
    let (_, _, producer) = created(settings(url.clone(), SHARDS)).await;
    for node in &mut cluster.nodes {
        node.kill().await;
    }
    let stranger = Admin::new(Client::new(settings(url, SHARDS)));
    let error = stranger.shards().overview().await.unwrap_err();
    let text = error.to_string();
    assert!(cluster.nodes.iter().all(|node| text.contains(&node.address())), "{text}");
    assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, true));
    producer.put(message("x")).await.unwrap_err();
    for node in &mut cluster.nodes {
        node.resume().await;
    }
    cluster.settled().await;
    // Without a file the nodes came back empty.
    let error = stranger.shards().overview().await.unwrap_err();
    assert!(matches!(error, Error::Uninitialised(_)), "{error}");
    stranger.init().await.unwrap();
    wait_until("a put", LONG, async || producer.put(message("x")).await.is_ok()).await;
}

struct Strandable {
    _node: RedisServer,
    proxy: Proxy,
    client: Client,
}

// === impl Strandable ===

impl Strandable {
    async fn start() -> Self {
        let node = RedisServer::start_with(RedisOptions::default().cluster_node()).await;
        node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
        let is_well =
            async || node.command::<String>(&["CLUSTER", "INFO"]).await.contains("cluster_state:ok");
        wait_until("the node to have the slots", LONG, is_well).await;
        let proxy = Proxy::start_for_redis(&node.address());
        let mut settings = settings(format!("redis+cluster://{}", proxy.address()), 1);
        (settings.link.deadline, settings.link.connect_timeout) = (DEADLINE, DEADLINE);
        let (client, _, _) = created(settings).await;
        asked(&client).await.unwrap();
        Self { _node: node, proxy, client }
    }
}

async fn asked(client: &Client) -> Result<(), Error> {
    let admin = Admin::new(client.clone());
    within("a call", LONG, admin.shards().overview_of(&[ShardId::new(0)])).await.remove(0).map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_to_a_node_are_replaced_with_the_one_that_is_silent() {
    let Strandable { proxy, client, _node } = Strandable::start().await;
    let idle = client.apart();
    asked(&idle).await.unwrap();
    proxy.strand_open();
    asked(&client).await.unwrap_err();
    asked(&idle).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_at_a_node_notices_that_its_idle_neighbour_is_silent() {
    let Strandable { proxy, client, _node } = Strandable::start().await;
    let mut listener = Holder::new(client.apart()).listen(vec![ShardId::new(0)]);
    within("it to listen", LONG, listener.next()).await;
    asked(&client).await.unwrap();
    proxy.strand_open();
    assert_eq!(within("it to listen again", LONG, listener.next()).await, Notification::Resync);
    asked(&client).await.unwrap();
}
