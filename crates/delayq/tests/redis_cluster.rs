//! A Redis Cluster: each shard at the node that has its slot, also while slots move and masters die.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

use delayq::protocol::{Keys, Listener, Notification, Owner, ShardId};
use delayq::{
    Admin, Client, Consumer, ConsumerOptions, Error, Fate, LinkSettings, Message, Namespace, Producer,
    ProducerOptions, PutOutcome, Settings, ShardCount, State, Topic, UnixMillis,
};
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::{RedisServer, replicated};
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Far enough away that no message becomes due.
const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);
const SHARDS: u16 = 12;

fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn message(id: &str) -> Message {
    Message::new(topic(), "x").at(FAR).id(id).unwrap()
}

/// The slot of a shard.
fn slot(shard: u16) -> u16 {
    Keys::new(Namespace::default()).slot(ShardId::new(shard))
}

/// An own id of this shard.
fn id_in(shard: u16, name: &str) -> String {
    let shards = ShardCount::new(SHARDS).unwrap();
    let mut ids = (0..).map(|n| format!("{name}-{n}"));
    ids.find(|id| shards.shard_of_name(id).get() == shard).unwrap()
}

/// Two shards of which each is at another node, the first one that of the first shard.
async fn apart(cluster: &RedisCluster) -> [u16; 2] {
    let first = cluster.master_of(slot(0)).await;
    for shard in 1..SHARDS {
        if cluster.master_of(slot(shard)).await != first {
            return [0, shard];
        }
    }
    panic!("all shards are at one node");
}

/// The address of a server that takes connections and never answers.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// A node that does not have this shard.
async fn elsewhere(cluster: &RedisCluster, shard: u16) -> usize {
    (cluster.master_of(slot(shard)).await + 1) % 3
}

/// How often each id is stored.
async fn stored(cluster: &RedisCluster) -> BTreeMap<String, usize> {
    let mut ids = BTreeMap::new();
    for key in cluster.keys("*:m:1:*").await {
        // An own id is marked by a byte before it.
        let id =
            String::from_utf8_lossy(&key).rsplit(':').next().unwrap().trim_start_matches('\u{1}').to_owned();
        *ids.entry(id).or_default() += 1;
    }
    ids
}

#[tokio::test]
async fn each_shard_lives_at_its_node_from_put_to_ack() {
    let cluster = RedisCluster::start().await;
    assert_eq!(cluster.slot("{dq:7}:meta").await, slot(7));
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    admin.check_server().await.unwrap();
    let nodes = admin.check_nodes().await.unwrap();
    assert_eq!(nodes.iter().map(|node| node.shards.len()).sum::<usize>(), usize::from(SHARDS));
    assert_eq!(nodes.len(), 3);
    for (node, server) in nodes.iter().zip(0..) {
        for shard in &node.shards {
            let master = cluster.master_of(slot(shard.get())).await;
            assert_eq!(cluster.nodes[master].address(), node.address, "{server}");
        }
    }
    let generated = (0..100).map(|_| Message::new(topic(), "x").after(Duration::ZERO));
    let own =
        (0..100).map(|n| Message::new(topic(), "x").after(Duration::ZERO).id(format!("own-{n}")).unwrap());
    for put in producer.put_many(generated.chain(own).collect()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
    assert_eq!(admin.count(&topic()).await.unwrap().accepted, 200);
    let mut consumer = Consumer::start(client, ConsumerOptions::new([topic()]).concurrency(50));
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let delivery = within("a delivery", LONG, consumer.next()).await.unwrap();
        assert!(seen.insert(delivery.id.to_string()), "a message came twice");
        delivery.ack().await.unwrap();
    }
    consumer.stop().await;
    let numbers = admin.count(&topic()).await.unwrap();
    assert_eq!((numbers.delivered, numbers.leased + numbers.ready + numbers.delayed), (200, 0));
    let audit = admin.audit(|_| {}).await.unwrap();
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");
    assert_eq!(admin.namespaces().await.unwrap(), [Namespace::default()]);
    let refused = admin.walk(None).await.unwrap_err().to_string();
    assert!(refused.contains("does not walk over a Redis Cluster"), "{refused}");
}

#[tokio::test]
async fn the_wrong_kind_of_url_is_refused_with_the_right_one() {
    let (cluster, single) = (RedisCluster::start().await, RedisServer::private().await);
    let error = Client::connect(Settings::new(cluster.nodes[0].url())).await.unwrap_err().to_string();
    assert!(error.contains("redis+cluster://host:port"), "{error}");
    let url = format!("redis+cluster://{}", single.address());
    let error = Client::connect(Settings::new(url)).await.unwrap_err();
    let Error::Unfit(why) = &error else { panic!("{error:?}") };
    assert!(why.contains("cluster support disabled") && why.contains("redis://"), "{error}");
}

#[tokio::test]
async fn a_user_that_may_not_ask_who_has_which_slot_is_told_so_and_no_outage_is_seen() {
    let cluster = RedisCluster::start().await;
    for node in &cluster.nodes {
        node.command::<()>(&["ACL", "SETUSER", "poor", "on", ">word", "~*", "&*", "+@all", "-cluster"]).await;
    }
    let link = LinkSettings::new(cluster.url()).username("poor").password("word");
    let producer = Producer::start(Client::new(settings(link, SHARDS)), ProducerOptions::default());
    let error = producer.put(message("x")).await.unwrap_err().error;
    assert!(matches!(&error, Error::Unfit(why) if why.contains("delayq acl print")), "{error}");
    assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, false));
}

/// How often a node was asked who has which slot.
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
    // A rest is never shorter than it is meant to be: 50 ms, then twice that each time up to a second.
    let most = 6 + began.elapsed().as_secs();
    let asked = questions(other).await - before;
    assert!(asked <= most, "asked {asked} times in {:?}, {failed} puts failed", began.elapsed());
}

#[tokio::test]
async fn one_node_that_answers_is_enough_to_find_the_others() {
    let cluster = RedisCluster::start().await;
    let url = format!("redis+cluster://127.0.0.1:1,{}", cluster.nodes[2].address());
    let (_, admin, _) = created(settings(url, SHARDS)).await;
    assert_eq!(admin.check_nodes().await.unwrap().len(), 3);
}

#[tokio::test]
async fn calls_of_many_shards_wait_once_for_a_cluster_that_never_answers() {
    let (_silent, address) = silent();
    let client = Client::new(settings(format!("redis+cluster://{address}"), 256));
    let shards: Vec<ShardId> = client.shards().shards().collect();
    let owner = Owner::new(client);
    // One after another, they would take several times as long.
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
    let error = admin.check_nodes().await.unwrap_err();
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
async fn a_master_that_became_a_replica_is_looked_for_and_not_called_unfit() {
    let cluster = RedisCluster::with_replicas().await;
    let (_, admin, _) = created(settings(cluster.url(), SHARDS)).await;
    admin.check_nodes().await.unwrap();
    let master = cluster.fail_over(slot(0), Some("FORCE")).await;
    wait_until("each master to be found", LONG, async || match admin.check_nodes().await {
        Ok(nodes) => nodes.iter().any(|node| node.address == cluster.nodes[master].address()),
        Err(error) => {
            assert!(error.is_outage(), "{error}");
            false
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeat_is_dated_by_the_clock_of_its_own_node() {
    let clocks = [(); 3].map(|()| ClockShim::new());
    clocks[0].set_offset_ms(-3_600_000);
    let cluster = RedisCluster::with_clocks(&clocks).await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let mut masters = Vec::new();
    for shard in 0..SHARDS {
        masters.push(cluster.master_of(slot(shard)).await);
    }
    let [behind, other] = [true, false].map(|behind| {
        (0..SHARDS).zip(&masters).find(|(_, master)| (**master == 0) == behind).expect("a shard there").0
    });
    let was_put = message(&id_in(behind, "x")).replace();
    producer.put(was_put.clone()).await.unwrap();
    producer.cancel(&topic(), &was_put.id.clone().unwrap().into()).await.unwrap();
    let tried = UnixMillis::new(cluster.nodes[1].now_ms().await - 10_000);
    let repeats = vec![message(&id_in(other, "y")).first_tried(tried), was_put.first_tried(tried)];
    let answers = producer.put_many(repeats).await;
    let outcomes: Vec<PutOutcome> = answers.into_iter().map(|put| put.unwrap().outcome).collect();
    assert!(
        matches!(outcomes[..], [PutOutcome::Stored(FAR), PutOutcome::Exists(State::Cancelled, _)]),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn a_node_that_does_not_say_its_time_fails_its_own_repeats_alone() {
    let cluster = RedisCluster::start().await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let [silent, other] = apart(&cluster).await;
    let (frozen, tried) = (cluster.master_of(slot(silent)).await, UnixMillis::new(1));
    cluster.nodes[frozen].freeze();
    let repeats = [silent, other].map(|shard| message(&id_in(shard, "x")).first_tried(tried));
    let answers = producer.put_many(repeats.into()).await;
    cluster.nodes[frozen].thaw();
    let error = &answers[0].as_ref().unwrap_err().error;
    assert!(error.is_outage(), "{error}");
    assert_eq!(answers[1].as_ref().unwrap().outcome, PutOutcome::Stored(FAR));
}

/// Puts one id after another until it is stopped, each until it is accepted: what was accepted, and how.
async fn put_on(producer: Producer, stop: Arc<AtomicBool>) -> (BTreeMap<String, PutOutcome>, Vec<Error>) {
    let (mut accepted, mut refused) = (BTreeMap::new(), Vec::new());
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("load-{n}");
        loop {
            match producer.put(message(&id)).await {
                Ok(put) => {
                    accepted.insert(id, put.outcome);
                    break;
                }
                Err(error) => refused.push(error.error),
            }
        }
    }
    (accepted, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_there_and_back_under_load_lose_nothing_and_double_nothing() {
    let cluster = RedisCluster::start().await;
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = (0..4)
        .map(|n| {
            let producer = if n == 0 {
                producer.clone()
            } else {
                Producer::start(client.apart(), ProducerOptions::default())
            };
            tokio::spawn(put_on(producer, Arc::clone(&stop)))
        })
        .collect();
    // All four put the same ids: three of the four answers are that it is there already, or it is doubled.
    for _ in 0..2 {
        for shard in 0..SHARDS {
            cluster.move_slot(slot(shard), elsewhere(&cluster, shard).await).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (mut put, mut stored_first) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for load in loads {
        let (accepted, refused) = within("the load to end", LONG, load).await.unwrap();
        for (id, outcome) in accepted {
            *stored_first.entry(id.clone()).or_default() += usize::from(outcome == PutOutcome::Stored(FAR));
            put.insert(id);
        }
        for error in refused {
            assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, true), "{error}");
        }
    }
    assert!(put.len() > 100, "only {} puts while slots moved", put.len());
    assert!(stored_first.values().all(|&count| count == 1), "one call of each id stores it");
    let found = stored(&cluster).await;
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), put);
    assert!(found.values().all(|&count| count == 1));
    let audit = admin.audit(|_| {}).await.unwrap();
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");
}

#[tokio::test]
async fn a_shard_on_the_move_is_refused_and_the_others_go_on() {
    let cluster = RedisCluster::start().await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let to = elsewhere(&cluster, 3).await;
    let from = cluster.begin_move(slot(3), to).await;
    let both = vec![message(&id_in(3, "a")), message(&id_in(4, "a"))];
    let answers = producer.put_many(both).await;
    let error = &answers[0].as_ref().unwrap_err().error;
    assert!(matches!(error, Error::Redis { code, .. } if code == "TRYAGAIN"), "{error}");
    assert_eq!(answers[1].as_ref().unwrap().outcome, PutOutcome::Stored(FAR));
    while cluster.carry(slot(3), from, to).await > 0 {}
    let error = producer.put(message(&id_in(3, "b"))).await.unwrap_err().error;
    assert!(matches!(&error, Error::Redis { code, .. } if code == "ASK"), "{error}");
    assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, true));
    cluster.end_move(slot(3), from, to).await;
    let put = producer.put(message(&id_in(3, "b"))).await.unwrap();
    assert_eq!(put.outcome, PutOutcome::Stored(FAR), "it follows the redirection");
}

/// A listener to wake-ups of all shards, and who causes them.
struct Hearing {
    producer: Producer,
    listener: Listener,
    due: u64,
}

impl Hearing {
    fn start(client: &Client, producer: &Producer) -> Self {
        let listener = Owner::new(client.clone()).listen(client.shards().shards().collect());
        Self { producer: producer.clone(), listener, due: FAR.get() }
    }

    /// Waits until a wake-up of this shard is heard: while nobody is subscribed, one is lost, and a resync follows.
    async fn hears(&mut self, shard: u16) {
        let heard = async {
            loop {
                self.due -= 1;
                let due = UnixMillis::new(self.due);
                self.producer.put(message(&id_in(shard, &self.due.to_string())).at(due)).await.unwrap();
                let wake = Notification::Wake(ShardId::new(shard), due);
                let hears = async { while self.listener.next().await != wake {} };
                if tokio::time::timeout(Duration::from_millis(500), hears).await.is_ok() {
                    return;
                }
            }
        };
        within(&format!("a wake-up of shard {shard}"), LONG, heard).await;
    }
}

#[tokio::test]
async fn a_listener_follows_a_shard_to_its_new_node() {
    let cluster = RedisCluster::start().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let mut hearing = Hearing::start(&client, &producer);
    for _ in 0..3 {
        for shard in 0..SHARDS {
            hearing.hears(shard).await;
        }
        for shard in [0, 5] {
            cluster.move_slot(slot(shard), elsewhere(&cluster, shard).await).await;
        }
    }
}

/// The connections of a node that are subscribed to channels of shards.
async fn subscribed(node: &RedisServer) -> BTreeSet<String> {
    let clients: String = node.command(&["CLIENT", "LIST"]).await;
    let is_subscribed = |line: &&str| line.contains(" ssub=") && !line.contains(" ssub=0 ");
    clients.lines().filter(is_subscribed).map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_shard_that_leaves_a_node_does_not_interrupt_the_listening_to_the_others_there() {
    let cluster = RedisCluster::start().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let mut hearing = Hearing::start(&client, &producer);
    let (from, to) = (cluster.master_of(slot(0)).await, elsewhere(&cluster, 0).await);
    let mut stays = 1;
    while cluster.master_of(slot(stays)).await != from {
        stays += 1;
    }
    hearing.hears(0).await;
    hearing.hears(stays).await;
    let before = subscribed(&cluster.nodes[from]).await;
    assert_eq!(before.len(), 1);
    cluster.move_slot(slot(0), to).await;
    hearing.hears(0).await;
    hearing.hears(stays).await;
    assert_eq!(subscribed(&cluster.nodes[from]).await, before);
}

#[tokio::test]
async fn a_slot_that_no_node_has_keeps_no_other_shard_from_being_heard() {
    let cluster = RedisCluster::start().await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let (lost, master) = (slot(3).to_string(), cluster.master_of(slot(3)).await);
    for node in &cluster.nodes {
        node.command::<()>(&["CLUSTER", "DELSLOTS", &lost]).await;
    }
    let mut hearing = Hearing::start(&Client::new(settings(cluster.url(), SHARDS)), &producer);
    for shard in (0..SHARDS).filter(|shard| *shard != 3) {
        hearing.hears(shard).await;
    }
    cluster.nodes[master].command::<()>(&["CLUSTER", "ADDSLOTS", &lost]).await;
    cluster.settled().await;
    wait_until("a put into it", LONG, async || producer.put(message(&id_in(3, "x"))).await.is_ok()).await;
    hearing.hears(3).await;
}

#[tokio::test]
async fn a_consumer_gets_what_the_other_nodes_have_while_one_is_silent() {
    let cluster = RedisCluster::start().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let [silent, other] = apart(&cluster).await;
    // What tries the silent node takes no place from the others: there is one.
    let mut consumer = Consumer::start(client, ConsumerOptions::new([topic()]).concurrency(1));
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
    // If each waited for the silent node, they would take longer.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_stops_its_shards_alone_and_its_replica_takes_over() {
    let mut cluster = RedisCluster::with_replicas().await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let victim = cluster.master_of(slot(0)).await;
    let mut theirs = Vec::new();
    for shard in 0..SHARDS {
        if cluster.master_of(slot(shard)).await == victim {
            theirs.push(shard);
        }
    }
    replicated(&cluster.nodes, victim).await;
    cluster.nodes[victim].kill().await;
    let one = |shard| id_in(shard, "x");
    for shard in (0..SHARDS).filter(|shard| !theirs.contains(shard)) {
        let put = producer.put(message(&one(shard))).await.unwrap();
        assert_eq!(put.outcome, PutOutcome::Stored(FAR), "shard {shard} has a master");
    }
    let master = cluster.take_over(victim, slot(0)).await;
    assert!(master >= 3, "a replica took over");
    for &shard in &theirs {
        let put = async || producer.put(message(&one(shard))).await.is_ok();
        wait_until("a put into a shard whose master died", LONG, put).await;
    }
    // The former master comes back as a replica: nothing is written there.
    cluster.nodes[victim].resume().await;
    wait_until("the former master to be a replica", LONG, async || {
        cluster.nodes[victim].field("role").await == "slave"
    })
    .await;
    for &shard in &theirs {
        let put = producer.put(message(&one(shard))).await.unwrap();
        assert!(matches!(put.outcome, PutOutcome::Exists(..)), "{:?}", put.outcome);
    }
    assert_eq!(stored(&cluster).await.len(), usize::from(SHARDS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_ordered_failover_is_followed_and_doubles_nothing() {
    let cluster = RedisCluster::with_replicas().await;
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(put_on(producer, Arc::clone(&stop)));
    // FORCE and TAKEOVER do not wait for the replica to have everything: what they lose is not this test's.
    for kind in [None, Some("FORCE"), Some("TAKEOVER")] {
        cluster.fail_over(slot(0), kind).await;
        let numbers = admin.count(&topic()).await;
        assert!(numbers.is_ok(), "{kind:?}: {numbers:?}");
    }
    drop(client);
    stop.store(true, Ordering::Relaxed);
    let (accepted, refused) = within("the load to end", LONG, load).await.unwrap();
    let found = stored(&cluster).await;
    let lost: Vec<&String> = accepted.keys().filter(|id| !found.contains_key(*id)).collect();
    println!("{} accepted, {} lost, {} refused", accepted.len(), lost.len(), refused.len());
    assert!(accepted.len() > lost.len());
    assert!(found.values().all(|&count| count == 1));
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
    let error = stranger.overview().await.unwrap_err();
    let text = error.to_string();
    assert!(cluster.nodes.iter().all(|node| text.contains(&node.address())), "{text}");
    assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, true));
    producer.put(message("x")).await.unwrap_err();
    for node in &mut cluster.nodes {
        node.resume().await;
    }
    cluster.settled().await;
    // Without a file they came back empty.
    let error = stranger.overview().await.unwrap_err();
    assert!(matches!(error, Error::Uninitialised(_)), "{error}");
    stranger.init().await.unwrap();
    wait_until("a put", LONG, async || producer.put(message("x")).await.is_ok()).await;
}
