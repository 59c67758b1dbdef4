//! Several independent Redises: each shard is at its recorded node, and an outage stops only its shards.

use delayq::admin::{Durability, Policy};
use delayq::protocol::{NodeMap, NodeSettings, ShardId};
use delayq::{
    Admin, CancelOutcome, Client, Consumer, ConsumerOptions, Error, Fate, Group, Message, MessageId,
    Producer, ProducerOptions, PutOutcome, Settings, ShardCount, Target, Topic, UnixMillis,
};
use delayq_tests::deadline::{LONG, wait_for, wait_until, within};
use delayq_tests::deployment::{created, lives, settings as one_redis};
use delayq_tests::redis_nodes::{NAMES, RedisNodes, settings};
use delayq_tests::redis_server::{RedisOptions, RedisServer, old_and_new};
use delayq_tests::sentinel_group::SentinelGroup;
use std::collections::BTreeSet;
use std::time::Duration;

const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);

fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn far() -> Message {
    Message::new(topic(), "x").at(FAR)
}

fn id_in(shards: std::ops::Range<u16>, all: u16) -> String {
    let count = ShardCount::new(all).unwrap();
    (0..).map(|n| format!("own-{n}")).find(|id| shards.contains(&count.shard_of_name(id).get())).unwrap()
}

async fn keys(server: &RedisServer, pattern: &str) -> Vec<String> {
    let mut keys: Vec<String> = server.command(&["KEYS", pattern]).await;
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn each_shard_lives_at_its_node_which_it_records() {
    let nodes = RedisNodes::start(3).await;
    let (client, admin, producer) = created(nodes.settings()).await;
    let checked = admin.nodes().check().await.unwrap();
    let names: Vec<&str> = checked.iter().map(|node| node.name.as_ref().unwrap().as_str()).collect();
    assert_eq!(names, NAMES);
    for (node, server) in nodes.servers.iter().enumerate() {
        let shards: Vec<u16> = checked[node].shards.iter().map(|shard| shard.get()).collect();
        assert_eq!(shards, nodes.shards_of(node).collect::<Vec<_>>());
        let wanted: Vec<String> = shards.iter().map(|shard| format!("{{dq:{shard}}}:meta")).collect();
        assert_eq!(keys(server, "*:meta").await, wanted);
        for shard in shards {
            let key = format!("{{dq:{shard}}}:meta");
            let layout: String = server.command(&["HGET", &key, "layout"]).await;
            assert_eq!(layout, format!("1@{}", NAMES[node]));
        }
    }
    lives(&client, &admin, &producer, &topic()).await;
    assert_eq!(admin.init().await.unwrap(), 0, "a repeat creates nothing");
}

async fn refusal(rows: &[[String; 3]], shards: u16) -> String {
    let client = Client::new(settings(rows, shards));
    let admin = Admin::new(client.clone());
    let init = admin.init().await.unwrap_err();
    assert!(matches!(init, Error::Deployment(_)), "{init}");
    assert_eq!(init.fate(), Fate::NotApplied);
    let connected = Client::connect(settings(rows, shards)).await.unwrap_err();
    assert_eq!(connected.to_string(), init.to_string());
    init.to_string()
}

#[tokio::test]
async fn a_wrong_map_is_refused_by_name_and_creates_nothing() {
    let nodes = RedisNodes::start(2).await;
    let _ = created(nodes.settings()).await;
    let right = nodes.rows();

    let mut exchanged = right.clone();
    (exchanged[0][1], exchanged[1][1]) = (right[1][1].clone(), right[0][1].clone());
    let why = refusal(&exchanged, 6).await;
    assert!(why.contains("shard 0 is on node b, not on node a"), "{why}");

    let mut renamed = right.clone();
    renamed[0][0] = "x".to_owned();
    let why = refusal(&renamed, 6).await;
    assert!(why.contains("recorded on node a of several") && why.contains("has it on node x"), "{why}");

    let mut moved = right.clone();
    (moved[0][2], moved[1][2]) = ("0".to_owned(), "1-3".to_owned());
    let client = Client::new(settings(&moved, 6));
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    let id = id_in(1..2, 6);
    let error = producer.put(far().id(&*id).unwrap()).await.unwrap_err().error;
    assert!(error.to_string().contains("shard 1 is on node a, not on node b"), "{error}");
    assert!(matches!(Admin::new(client).init().await, Err(Error::Deployment(_))));

    // A client configured for one Redis, and a client for one Redis that created a deployment of fewer shards.
    let error = Client::connect(one_redis(nodes.servers[0].url(), 6)).await.unwrap_err().to_string();
    assert!(error.contains("recorded on node a of several"), "{error}");
    for server in &nodes.servers {
        assert_eq!(keys(server, "*:meta").await.len(), 2, "nothing is created by any of them");
        server.command::<()>(&["FLUSHALL"]).await;
    }
    let _ = created(one_redis(nodes.servers[0].url(), 2)).await;
    let why = refusal(&right, 6).await;
    assert!(why.contains("configured for 6 shards, but the deployment has 2"), "{why}");
}

#[tokio::test]
async fn two_nodes_that_are_one_redis_are_refused() {
    let nodes = RedisNodes::start(2).await;
    let mut rows = nodes.rows();
    rows[1][1] = nodes.servers[0].url().replace("127.0.0.1", "localhost");
    let error = Client::connect(settings(&rows, 6)).await.unwrap_err().to_string();
    assert!(error.contains("the nodes a ") && error.contains("are the same Redis"), "{error}");
}

#[tokio::test]
async fn a_new_deployment_has_as_many_shards_as_its_nodes() {
    let nodes = RedisNodes::start(2).await;
    let error = Admin::new(Client::new(settings(&nodes.rows(), 4))).init().await.unwrap_err().to_string();
    assert!(error.contains("nodes have 6 shards") && error.contains("[deployment] shards is 4"), "{error}");
    assert!(keys(&nodes.servers[0], "*").await.is_empty());
}

#[tokio::test]
async fn a_node_that_is_away_stops_its_own_shards_alone_and_generated_ids_avoid_it_at_once() {
    let mut nodes = RedisNodes::start(2).await;
    let (_, admin, producer) = created(nodes.settings()).await;
    let well = id_in(nodes.shards_of(0), 6);
    let ill = id_in(nodes.shards_of(1), 6);
    nodes.servers[1].kill().await;

    // The first put may have been sent before the connection broke.
    for is_known in [false, true] {
        let error = producer.put(far().id(&*ill).unwrap()).await.unwrap_err().error;
        assert!(error.is_outage() && error.to_string().contains("b (redis://"), "{error}");
        assert!(!is_known || error.fate() == Fate::NotApplied, "{error}");
    }
    assert!(producer.put(far().id(&*well).unwrap()).await.unwrap().outcome.is_accepted());
    for _ in 0..200 {
        let put = producer.put(far()).await.unwrap();
        assert!(!nodes.shards_of(1).contains(&put.reference.shard.get()), "{put:?}");
    }
    let named = admin.nodes().check().await.unwrap_err();
    assert!(named.is_outage() && named.to_string().contains("b (redis://"), "{named}");
    admin.check_server().await.unwrap();
    // A client without knowledge learns the layout from another node than that of the first shard.
    nodes.servers[0].kill().await;
    let shards = Admin::new(Client::new(nodes.settings())).layout().await.unwrap().shards();
    assert_eq!(shards.get(), 6);

    nodes.servers[0].resume().await;
    nodes.servers[1].resume().await;
    wait_until("the shards of the node to be served again", LONG, async || {
        producer.put(far().id(&*ill).unwrap()).await.is_ok()
    })
    .await;
    wait_until("generated ids to go there again", LONG, async || {
        // The first call to another killed node may find its connection broken.
        let put = producer.put(far()).await;
        put.is_ok_and(|put| nodes.shards_of(1).contains(&put.reference.shard.get()))
    })
    .await;
    // The connection to the other node may be found broken now.
    wait_until("each node to answer", LONG, async || admin.nodes().check().await.is_ok()).await;
}

#[tokio::test]
async fn the_first_put_of_a_process_with_a_generated_id_goes_to_another_node_while_its_own_is_away() {
    let mut nodes = RedisNodes::start(1).await;
    drop(created(nodes.settings()).await);
    nodes.servers[1].kill().await;
    for _ in 0..24 {
        // Each as in a process of its own.
        let producer = Producer::start(Client::new(nodes.settings()), ProducerOptions::default());
        let put = producer.put(far()).await.unwrap();
        assert!(!nodes.shards_of(1).contains(&put.reference.shard.get()), "{put:?}");
        let bound = producer.put(far().id(id_in(nodes.shards_of(1), 3)).unwrap()).await;
        assert!(bound.unwrap_err().error.is_outage(), "an own id has one place");
    }
}

async fn refusals(server: &RedisServer) -> u64 {
    let stats: String = server.command(&["INFO", "errorstats"]).await;
    let count = stats.lines().find_map(|line| line.strip_prefix("errorstat_DQUNINITIALISED:count="));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

#[tokio::test]
async fn generated_ids_avoid_at_once_a_node_that_came_back_empty_and_own_ids_of_it_are_refused_by_name() {
    let nodes = RedisNodes::start(2).await;
    let (client, admin, producer) = created(nodes.settings()).await;
    let (lost, ill) = (nodes.shards_of(1), id_in(nodes.shards_of(1), 6));
    nodes.servers[1].command::<()>(&["FLUSHALL"]).await;

    // No producer knows of the loss yet: puts whose turn falls on the lost node go elsewhere.
    for producer in [&producer, &Producer::start(client, ProducerOptions::default())] {
        for _ in 0..30 {
            let put = producer.put(far()).await.unwrap();
            assert!(!lost.contains(&put.reference.shard.get()), "{put:?}");
            let target = Target::from(put.reference);
            assert_eq!(producer.cancel(&topic(), &target).await.unwrap(), CancelOutcome::Cancelled);
        }
    }
    for put in producer.put_many((0..2000).map(|_| far()).collect()).await {
        assert!(!lost.contains(&put.unwrap().reference.shard.get()));
    }
    let refused = refusals(&nodes.servers[1]).await;
    assert!((1..5).contains(&refused), "each producer has to meet it once: {refused} calls were refused");
    for message in [far().id(&*ill).unwrap(), far().group(&*ill).unwrap()] {
        let error = producer.put(message).await.unwrap_err().error;
        assert!(matches!(error, Error::Uninitialised(shard) if lost.contains(&shard.get())), "{error}");
        assert_eq!(error.fate(), Fate::NotApplied);
    }

    assert_eq!(admin.init().await.unwrap(), 2);
    producer.put(far().id(&*ill).unwrap()).await.unwrap();
    wait_until("generated ids to go there again", LONG, async || {
        lost.contains(&producer.put(far()).await.unwrap().reference.shard.get())
    })
    .await;
}

#[tokio::test]
async fn where_every_node_came_back_empty_a_generated_id_is_refused_by_name() {
    let nodes = RedisNodes::start(2).await;
    let (_, admin, producer) = created(nodes.settings()).await;
    for server in &nodes.servers {
        server.command::<()>(&["FLUSHALL"]).await;
    }
    for _ in 0..20 {
        let error = producer.put(far()).await.unwrap_err().error;
        assert!(matches!(error, Error::Uninitialised(_)), "{error}");
    }
    assert_eq!(admin.init().await.unwrap(), 6);
    assert!(producer.put(far()).await.unwrap().outcome.is_accepted());
}

#[tokio::test]
async fn a_silent_node_of_an_earlier_place_is_not_taken_for_that_of_the_home() {
    let mut nodes = RedisNodes::start(2).await;
    let _ = created(settings(&nodes.rows()[..2], 4)).await;
    let client = Client::new(settings(&nodes.rows(), 4));
    Admin::new(client.clone()).shards().grow(ShardCount::new(6).unwrap(), |_| ()).await.unwrap();
    let at = |id: &str, all: u16| ShardCount::new(all).unwrap().shard_of_name(id).get();
    let moved = |from: usize| {
        let mut ids = (0..).map(|n| format!("own-{n}"));
        ids.find(|id| nodes.shards_of(from).contains(&at(id, 4)) && at(id, 6) >= 4).unwrap()
    };
    let (well, ill) = (moved(0), moved(1));
    nodes.servers[1].kill().await;
    for what in ["put", "cancel", "cancel group"] {
        let producer = Producer::start(client.clone(), ProducerOptions::default());
        let write = async || match what {
            "put" => producer.put(far().id(&*ill).unwrap()).await.map(drop).map_err(|refused| refused.error),
            "cancel" => {
                let target = Target::from(MessageId::own(&*ill).unwrap());
                producer.cancel(&topic(), &target).await.map(drop)
            }
            _ => producer.cancel_group(&Group::new(&*ill).unwrap()).await.map(drop),
        };
        let error = write().await.unwrap_err();
        assert!(error.is_outage() && error.to_string().contains("b (redis://"), "{what}: {error}");
        producer.put(far().id(&*well).unwrap()).await.unwrap();
        let error = write().await.unwrap_err().to_string();
        assert!(
            error.starts_with("cannot reach Redis at b: nothing was sent, because Redis is silent"),
            "{what}: {error}"
        );
    }
}

#[tokio::test]
async fn a_frozen_node_does_not_hold_up_what_others_deliver() {
    let nodes = RedisNodes::start(2).await;
    let (client, _, producer) = created(nodes.settings()).await;
    let mut consumer = Consumer::start(client, ConsumerOptions::new([topic()]).concurrency(8)).unwrap();
    let now = |id: &str| Message::new(topic(), "x").after(Duration::ZERO).id(id).unwrap();
    nodes.servers[2].freeze();
    // The first puts may wait for calls sent before the outage was noticed.
    let ill = id_in(nodes.shards_of(2), 6);
    let error = producer.put(now(&ill)).await.unwrap_err().error;
    assert!(error.is_outage(), "{error}");
    // Each put waits for the previous put: if all waited for the frozen node, the loop would take minutes.
    within("what the other nodes keep", LONG, async {
        for n in 0..300 {
            let put = producer.put(Message::new(topic(), n.to_string()).after(Duration::ZERO)).await.unwrap();
            let delivery = consumer.next().await.unwrap();
            assert_eq!(delivery.id, put.reference.id);
            delivery.ack().await.unwrap();
        }
    })
    .await;
    nodes.servers[2].thaw();
    consumer.stop().await;
}

#[tokio::test]
async fn a_shard_without_a_node_is_refused_by_name_and_a_growth_waits_for_its_node() {
    let nodes = RedisNodes::start(2).await;
    let two = &nodes.rows()[..2];
    let (client, admin, producer) = created(settings(two, 4)).await;
    let refused = admin.shards().grow(ShardCount::new(6).unwrap(), |_| ()).await.unwrap_err().to_string();
    assert!(refused.contains("shard 4 has no node") && refused.contains("[[redis.nodes]]"), "{refused}");
    assert!(keys(&nodes.servers[2], "*").await.is_empty());

    let prepared = Admin::new(Client::new(settings(&nodes.rows(), 4)));
    let grown = prepared.shards().grow(ShardCount::new(6).unwrap(), |_| ()).await.unwrap();
    assert_eq!((grown.added, grown.raised), (2, 4));
    let layout: String = nodes.servers[2].command(&["HGET", "{dq:5}:meta", "layout"]).await;
    assert_eq!(layout, "2@c");
    let layout: String = nodes.servers[0].command(&["HGET", "{dq:0}:meta", "layout"]).await;
    assert_eq!(layout, "2@a");
    // A client that does not know the new node continues with the other nodes.
    let own = id_in(0..4, 6);
    assert!(producer.put(far().id(&*own).unwrap()).await.unwrap().outcome.is_accepted());
    for _ in 0..50 {
        assert!(producer.put(far()).await.unwrap().reference.shard.get() < 4);
    }
    assert_eq!(client.shards().get(), 6);
    let error = producer.put(far().id(id_in(4..6, 6)).unwrap()).await.unwrap_err().error.to_string();
    assert!(error.contains("has no node"), "{error}");
    let found = prepared.shards().layouts(&[ShardId::new(5)]).await.pop().unwrap().unwrap().unwrap();
    assert_eq!(found.node.unwrap().as_str(), "c");
}

/// Deadlines that leave a busy machine time to confirm.
fn patient(settings: Settings) -> Settings {
    let patient = |node: &NodeSettings| NodeSettings {
        link: node.link.clone().deadline(LONG).confirm_timeout(Duration::from_secs(3)),
        ..node.clone()
    };
    let map = NodeMap::new(settings.nodes.unwrap().nodes().iter().map(patient).collect()).unwrap();
    Settings::of_nodes(map).shards(settings.shards)
}

async fn ask(admin: &Admin, topic: &Topic, durability: Durability) {
    let policy = Policy { durability: Some(durability), ..Policy::default() };
    admin.topic(topic).change_policy(&policy, &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_topic_on_disk_is_put_each_node_confirms_for_its_shards_if_it_can() {
    for options in old_and_new() {
        let nodes = RedisNodes::start_with(2, options).await;
        let (_, admin, producer) = created(patient(nodes.settings())).await;
        ask(&admin, &topic(), Durability::Disk).await;
        let can = admin.nodes().check().await.unwrap()[0].facts.confirms(Durability::Disk).is_ok();
        for node in 0..3 {
            let id = id_in(nodes.shards_of(node), 6);
            for repeated in [false, true] {
                let put = producer.put(far().id(&*id).unwrap()).await;
                match put.map(|put| put.outcome).map_err(|refused| refused.error) {
                    Ok(PutOutcome::Stored(FAR)) if can && !repeated => {}
                    Ok(PutOutcome::Exists(_, FAR)) if can && repeated => {}
                    Err(Error::Unconfirmed { why, .. }) if !can => assert!(why.contains("WAITAOF"), "{why}"),
                    other => panic!("{can}: {other:?}"),
                }
            }
        }
        assert_eq!(admin.topic(&topic()).count().await.unwrap().delayed, 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_replica_leaves_its_own_shards_alone_unconfirmed() {
    let options = RedisOptions::default().set("repl-diskless-sync-delay", "0");
    let nodes = RedisNodes::start_with(2, options.clone()).await;
    let _replica = RedisServer::start_with(options.replica_of(&nodes.servers[0])).await;
    wait_until("the replica to follow", LONG, async || nodes.servers[0].followers().await == 1).await;
    let (_, admin, producer) = created(patient(nodes.settings())).await;
    ask(&admin, &topic(), Durability::Replicas(1)).await;
    let [well, ill] = [0, 1].map(|node| far().id(id_in(nodes.shards_of(node), 6)).unwrap());
    let mut answers = producer.put_many(vec![well, ill]).await.into_iter();
    assert_eq!(answers.next().unwrap().unwrap().outcome, PutOutcome::Stored(FAR));
    let error = answers.next().unwrap().unwrap_err().error;
    assert!(matches!(error, Error::Unconfirmed { .. }) && error.fate() == Fate::Unknown, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_a_node_by_sentinel_is_followed_and_the_other_node_is_served_meanwhile() {
    let (plain, mut group) = (RedisServer::start().await, SentinelGroup::start().await);
    let row = |name: &str, url: String, shards: &str| [name.to_owned(), url, shards.to_owned()];
    let rows = [row("a", plain.url(), "0-1"), row("b", group.url(), "2-3")];
    let (_, admin, producer) = created(settings(&rows, 4)).await;
    let put = async |shards: std::ops::Range<u16>| producer.put(far().id(id_in(shards, 4)).unwrap()).await;
    put(2..4).await.unwrap();
    let offset = async |redis: &RedisServer, name| redis.field(name).await.parse::<u64>().unwrap_or(0);
    let written = offset(&group.redises[0], "master_repl_offset").await;
    for replica in &group.redises[1..] {
        let has_it = async || offset(replica, "slave_repl_offset").await >= written;
        wait_until("the replica to have what was written", LONG, has_it).await;
    }

    group.redises[0].kill().await;
    put(0..2).await.unwrap();
    let master = group.master_after(0).await;
    wait_until("the shards of the node to be served again", LONG, async || put(2..4).await.is_ok()).await;
    let layout: String = group.redises[master].command(&["HGET", "{dq:2}:meta", "layout"]).await;
    assert_eq!(layout, "1@b");
    assert_eq!(admin.nodes().check().await.unwrap().len(), 2);
    assert_eq!(admin.topic(&topic()).count().await.unwrap().accepted, 2, "each of the two ids once");
}

#[tokio::test]
async fn a_walk_stops_at_a_node_that_is_away_and_continues_once_it_is_back() {
    let mut nodes = RedisNodes::start(2).await;
    let (_, admin, producer) = created(nodes.settings()).await;
    let expected: BTreeSet<String> = (0..2000).map(|n| format!("own-{n}")).collect();
    let messages = expected.iter().map(|id| far().id(&**id).unwrap());
    for put in producer.put_many(messages.collect()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
    let mut shown = BTreeSet::new();
    let mut walk = admin.walk(None).await.unwrap();
    while !walk.node().is_some_and(|node| node.starts_with("b (")) {
        shown.extend(walk.step().await.unwrap().unwrap().into_iter().map(|message| message.id.to_string()));
    }
    nodes.servers[1].kill().await;
    let away = walk.step().await.unwrap_err();
    assert!(away.is_outage() && away.to_string().contains("b (redis://"), "{away}");
    let cursor = walk.cursor();
    // By a process that has the nodes in another order.
    let mut rows = nodes.rows();
    rows.reverse();
    let other = Admin::new(Client::new(settings(&rows, nodes.shards())));
    let away = other.walk(Some(&cursor)).await.unwrap_err();
    assert!(away.is_outage() && away.to_string().contains("b (redis://"), "{away}");

    // Another process on the node orders its keys otherwise.
    nodes.servers[1].resume().await;
    let mut walk = wait_for("the node", LONG, async || other.walk(Some(&cursor)).await.ok()).await;
    let mut again = Vec::new();
    while let Some(messages) = walk.step().await.unwrap() {
        again.extend(messages.into_iter().map(|message| (message.shard, message.id.to_string())));
    }
    let through: Vec<u16> = nodes.shards_of(0).collect();
    assert!(again.iter().all(|(shard, _)| !through.contains(&shard.get())), "node a was through");
    shown.extend(again.into_iter().map(|(_, id)| id));
    assert_eq!(shown, expected);
}
