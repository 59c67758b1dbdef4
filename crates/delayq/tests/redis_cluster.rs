//! A Redis Cluster: each shard at the node that has its slot, also while slots move and masters die.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

use delayq::protocol::{Keys, Notification, Owner, ShardId};
use delayq::{
    Admin, Client, Consumer, ConsumerOptions, Error, Fate, Message, Namespace, Producer, ProducerOptions,
    PutOutcome, Settings, Topic, UnixMillis,
};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::RedisServer;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
    let error = Client::connect(Settings::new(url)).await.unwrap_err().to_string();
    assert!(error.contains("cluster support disabled"), "{error}");
}

#[tokio::test]
async fn one_node_that_answers_is_enough_to_find_the_others() {
    let cluster = RedisCluster::start().await;
    let url = format!("redis+cluster://127.0.0.1:1,{}", cluster.nodes[2].address());
    let (_, admin, _) = created(settings(url, SHARDS)).await;
    assert_eq!(admin.check_nodes().await.unwrap().len(), 3);
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
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let shards = client.shards();
    let in_shard = |shard: u16, name: &str| {
        (0..).map(|n| format!("{name}-{n}")).find(|id| shards.shard_of_name(id).get() == shard).unwrap()
    };
    let to = elsewhere(&cluster, 3).await;
    let from = cluster.begin_move(slot(3), to).await;
    let both = vec![message(&in_shard(3, "a")), message(&in_shard(4, "a"))];
    let answers = producer.put_many(both).await;
    let error = &answers[0].as_ref().unwrap_err().error;
    assert!(matches!(error, Error::Redis { code, .. } if code == "TRYAGAIN"), "{error}");
    assert_eq!(answers[1].as_ref().unwrap().outcome, PutOutcome::Stored(FAR));
    while cluster.carry(slot(3), from, to).await > 0 {}
    let error = producer.put(message(&in_shard(3, "b"))).await.unwrap_err().error;
    assert!(matches!(&error, Error::Redis { code, .. } if code == "ASK"), "{error}");
    assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, true));
    cluster.end_move(slot(3), from, to).await;
    let put = producer.put(message(&in_shard(3, "b"))).await.unwrap();
    assert_eq!(put.outcome, PutOutcome::Stored(FAR), "it follows the redirection");
}

#[tokio::test]
async fn a_listener_follows_a_shard_to_its_new_node() {
    let cluster = RedisCluster::start().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let owner = Owner::new(client.clone());
    let mut listener = owner.listen(client.shards().shards().collect());
    let mut due = FAR.get();
    for moves in 0..3 {
        for shard in client.shards().shards() {
            // Until it is heard: while nobody is subscribed, a wake-up is lost, and a resync follows.
            let heard = async {
                loop {
                    due -= 1;
                    let id = (0..).map(|n| format!("{due}-{n}"));
                    let id = id.into_iter().find(|id| client.shards().shard_of_name(id) == shard).unwrap();
                    producer.put(message(&id).at(UnixMillis::new(due))).await.unwrap();
                    let wake = Notification::Wake(shard, UnixMillis::new(due));
                    let hears = async { while listener.next().await != wake {} };
                    if tokio::time::timeout(Duration::from_millis(500), hears).await.is_ok() {
                        return;
                    }
                }
            };
            within(&format!("a wake-up of shard {shard} after {moves} moves"), LONG, heard).await;
        }
        for shard in [0, 5] {
            cluster.move_slot(slot(shard), elsewhere(&cluster, shard).await).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_stops_its_shards_alone_and_its_replica_takes_over() {
    let mut cluster = RedisCluster::with_replicas().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let shards = client.shards();
    let victim = cluster.master_of(slot(0)).await;
    let mut theirs = Vec::new();
    for shard in 0..SHARDS {
        if cluster.master_of(slot(shard)).await == victim {
            theirs.push(shard);
        }
    }
    let replicas: u64 = cluster.nodes[victim].command(&["WAIT", "1", "60000"]).await;
    assert_eq!(replicas, 1);
    cluster.nodes[victim].kill().await;
    let one = |shard: u16| {
        (0..).map(|n| format!("x-{n}")).find(|id| shards.shard_of_name(id).get() == shard).unwrap()
    };
    for shard in (0..SHARDS).filter(|shard| !theirs.contains(shard)) {
        let put = producer.put(message(&one(shard))).await.unwrap();
        assert_eq!(put.outcome, PutOutcome::Stored(FAR), "shard {shard} has a master");
    }
    for &shard in &theirs {
        let put = async || producer.put(message(&one(shard))).await.is_ok();
        wait_until("a put into a shard whose master died", LONG, put).await;
    }
    let master = cluster.master_after(victim, slot(0)).await;
    assert!(master >= 3, "a replica took over");
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
    for kind in ["", "FORCE", "TAKEOVER"] {
        let former = cluster.master_of(slot(0)).await;
        let replica = if former < 3 { former + 3 } else { former - 3 };
        let words: Vec<&str> =
            ["CLUSTER", "FAILOVER", kind].into_iter().filter(|word| !word.is_empty()).collect();
        wait_until("the replica to follow", LONG, async || {
            cluster.nodes[replica].field("master_link_status").await == "up"
        })
        .await;
        // A manual failover gives up after five seconds, which a busy machine may take.
        loop {
            let _ = cluster.nodes[replica].try_command::<()>(&words).await;
            let after = cluster.master_after(former, slot(0));
            if let Ok(master) = tokio::time::timeout(Duration::from_secs(8), after).await {
                break assert_eq!(master, replica, "{kind}");
            }
        }
        let numbers = admin.count(&topic()).await;
        assert!(numbers.is_ok(), "{kind}: {numbers:?}");
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
