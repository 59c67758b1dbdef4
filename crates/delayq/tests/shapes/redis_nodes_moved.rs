//! Shards that move from one of several Redises to a new one, and one Redis that becomes several.

use delayq::admin::MoveStep;
use delayq::protocol::{NodeName, ShardId};
use delayq::{
    Admin, Client, Error, Fate, Message, Producer, ProducerOptions, Settings, ShardCount, Topic, UnixMillis,
};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings as one_redis};
use delayq_tests::redis_nodes::settings;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::collections::BTreeSet;

const SHARDS: u16 = 8;

fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn far(id: &str) -> Message {
    Message::new(topic(), "x").at(UnixMillis::new(4_102_444_800_000)).id(id).unwrap()
}

fn id_in(shards: std::ops::Range<u16>, what: &str) -> String {
    let count = ShardCount::new(SHARDS).unwrap();
    (0..).map(|n| format!("{what}-{n}")).find(|id| shards.contains(&count.shard_of_name(id).get())).unwrap()
}

fn last_four() -> BTreeSet<ShardId> {
    (4..SHARDS).map(ShardId::new).collect()
}

fn b() -> NodeName {
    "b".parse().unwrap()
}

async fn redis() -> RedisServer {
    RedisServer::start_with(RedisOptions::default().append_only("always")).await
}

struct Pair {
    a: RedisServer,
    b: RedisServer,
    admin: Admin,
    producer: Producer,
}

impl Pair {
    async fn start() -> Self {
        let (a, b) = (redis().await, redis().await);
        let (_, admin, producer) = created(of(&a, &b, "")).await;
        Self { a, b, admin, producer }
    }

    fn settings(&self) -> Settings {
        of(&self.a, &self.b, "")
    }

    async fn replicate(&self) {
        self.a.command::<()>(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).await;
        let [host, port] = address(&self.a);
        self.b.command::<()>(&["REPLICAOF", &host, &port]).await;
        wait_until("the copy", LONG, async || self.b.field("master_link_status").await == "up").await;
    }

    async fn layout(server: &RedisServer, shard: u16) -> Option<String> {
        server.command(&["HGET", &format!("{{dq:{shard}}}:meta"), "layout"]).await
    }

    async fn count(&self) -> u64 {
        self.admin.topic(&topic()).count().await.unwrap().delayed
    }
}

/// `b` has `shards_of_b`, and `a` the rest.
fn of(a: &RedisServer, b: &RedisServer, shards_of_b: &str) -> Settings {
    let shards_of_a = if shards_of_b.is_empty() { "0-7" } else { "0-3" };
    let row = |name: &str, url: String, shards: &str| [name.to_owned(), url, shards.to_owned()];
    settings(&[row("a", a.url(), shards_of_a), row("b", b.url(), shards_of_b)], SHARDS)
}

fn address(server: &RedisServer) -> [String; 2] {
    let url = server.url();
    let address = url.strip_prefix("redis://").unwrap().trim_end_matches('/');
    let (host, port) = address.split_once(':').unwrap();
    [host.to_owned(), port.split('/').next().unwrap().to_owned()]
}

#[tokio::test]
async fn one_redis_gets_a_name_while_processes_with_and_without_nodes_work() {
    let (a, b) = (redis().await, redis().await);
    let (plain, _, by_url) = created(one_redis(a.url(), SHARDS)).await;
    by_url.put(far("before")).await.unwrap();
    let client = Client::connect(of(&a, &b, "")).await.unwrap();
    let (admin, by_name) = (Admin::new(client.clone()), Producer::start(client, ProducerOptions::default()));
    by_name.put(far("by-name")).await.unwrap();
    by_url.put(far("by-url")).await.unwrap();
    assert_eq!(admin.init().await.unwrap(), 0);

    assert_eq!(admin.shards().name_all().await.unwrap(), usize::from(SHARDS));
    by_name.put(far("named")).await.unwrap();
    let refused = by_url.put(far("late")).await.unwrap_err().error;
    assert!(refused.to_string().contains("recorded on node a of several"), "{refused}");
    assert_eq!(refused.fate(), Fate::NotApplied);
    assert_eq!(admin.shards().name_all().await.unwrap(), 0, "a repeat changes nothing");
    assert_eq!(admin.topic(&topic()).count().await.unwrap().delayed, 4);
    assert!(matches!(Admin::new(plain).shards().name_all().await, Err(Error::Move(_))));
}

#[tokio::test]
async fn shards_move_with_all_they_have_and_every_process_follows() {
    let pair = Pair::start().await;
    for n in 0..200 {
        pair.producer.put(far(&format!("own-{n}"))).await.unwrap();
    }
    pair.replicate().await;
    let report = pair.admin.shards().move_to(&last_four(), &b(), |_| {}).await.unwrap();
    assert_eq!((report.from.unwrap().as_str(), report.moved), ("a", 4));
    for shard in 0..SHARDS {
        let [of_a, of_b] =
            [Pair::layout(&pair.a, shard).await.unwrap(), Pair::layout(&pair.b, shard).await.unwrap()];
        match shard {
            0..4 => assert_eq!([&*of_a, &*of_b], ["1@a", "1>a"], "{shard}"),
            _ => assert!(of_a.starts_with("1>b:") && of_b == "1@b", "{shard}: {of_a} {of_b}"),
        }
    }
    // A client of the old map and a client of the new map; the producer ran all along.
    for settings in [pair.settings(), of(&pair.a, &pair.b, "4-7")] {
        let admin = Admin::new(Client::connect(settings).await.unwrap());
        assert_eq!(admin.topic(&topic()).count().await.unwrap().delayed, 200);
        let by_node = admin.shards().by_node().await.unwrap();
        assert_eq!(by_node["b"], last_four().into_iter().collect::<Vec<_>>());
    }
    let id = id_in(4..8, "after");
    pair.producer.put(far(&id)).await.unwrap();
    assert_eq!(pair.count().await, 201);
    let audit = pair.admin.audit().run(|_| {}).await.unwrap();
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");

    // Exchanged URLs lead to copies that take nothing.
    let client = Client::new(of(&pair.b, &pair.a, ""));
    let wrong = Producer::start(client, ProducerOptions::default());
    for shards in [0..4, 4..8] {
        let refused = wrong.put(far(&id_in(shards, "wrong"))).await.unwrap_err().error;
        assert_eq!(refused.fate(), Fate::NotApplied, "{refused}");
    }

    let deleted = pair.admin.shards().discard_moved(|_| {}).await.unwrap();
    assert!(deleted.len() == 2 && deleted.values().all(|&keys| keys > 4), "{deleted:?}");
    assert!(pair.admin.shards().discard_moved(|_| {}).await.unwrap().is_empty(), "a repeat deletes nothing");
    for (server, left) in [(&pair.a, 4..8), (&pair.b, 0..4)] {
        for shard in left {
            let keys: Vec<String> = server.command(&["KEYS", &format!("{{dq:{shard}}}:*")]).await;
            assert_eq!(keys, [format!("{{dq:{shard}}}:meta")]);
        }
    }
    let admin = Admin::new(Client::connect(pair.settings()).await.unwrap());
    assert_eq!(
        admin.topic(&topic()).count().await.unwrap().delayed,
        201,
        "the way to the new node is still there"
    );
    assert_eq!(admin.init().await.unwrap(), 0);
    let grown = admin.shards().grow(ShardCount::new(SHARDS).unwrap(), |_| {}).await.unwrap();
    assert_eq!((grown.added, grown.raised), (0, 0));
}

#[tokio::test]
async fn a_move_that_is_killed_at_any_step_is_finished_by_a_repeat() {
    for killed_at in [MoveStep::Fenced, MoveStep::Copied, MoveStep::Promoted, MoveStep::Opened] {
        let pair = Pair::start().await;
        for n in 0..50 {
            pair.producer.put(far(&format!("own-{n}"))).await.unwrap();
        }
        pair.replicate().await;
        let admin = pair.admin.clone();
        let killed = tokio::spawn(async move {
            let die = |step| assert!(step != killed_at, "killed at {step:?}");
            admin.shards().move_to(&last_four(), &b(), die).await
        });
        assert!(within("the end", LONG, killed).await.unwrap_err().is_panic(), "{killed_at:?}");
        let put = pair.producer.put(far(&id_in(4..8, "meanwhile"))).await;
        let stays = pair.producer.put(far(&id_in(0..4, "meanwhile"))).await;
        assert!(stays.is_ok(), "{killed_at:?}: {stays:?}");
        match killed_at {
            MoveStep::Opened => assert!(put.is_ok(), "{put:?}"),
            _ => {
                let refused = put.unwrap_err().error;
                assert!(
                    refused.is_outage() && refused.fate() == Fate::NotApplied,
                    "{killed_at:?}: {refused}"
                );
            }
        }
        let repeated = pair.admin.shards().move_to(&last_four(), &b(), |_| {}).await.unwrap();
        assert_eq!(repeated.moved, if killed_at == MoveStep::Opened { 0 } else { 4 }, "{killed_at:?}");
        pair.producer.put(far(&id_in(4..8, "meanwhile"))).await.unwrap();
        assert_eq!(pair.count().await, 52, "{killed_at:?}");
        assert!(
            pair.admin
                .shards()
                .take_back(&last_four(), &b())
                .await
                .unwrap_err()
                .to_string()
                .contains("already")
        );
    }
}

#[tokio::test]
async fn a_move_is_taken_back_where_the_new_node_does_not_follow_and_its_old_copy_is_never_opened() {
    let pair = Pair::start().await;
    pair.replicate().await;
    let admin = pair.admin.clone();
    let killed = tokio::spawn(async move {
        admin.shards().move_to(&last_four(), &b(), |step| assert!(step != MoveStep::Copied)).await
    });
    assert!(killed.await.unwrap_err().is_panic());
    let id = id_in(4..8, "back");
    assert!(pair.producer.put(far(&id)).await.is_err());
    assert_eq!(pair.admin.shards().take_back(&last_four(), &b()).await.unwrap(), 4);
    // The producer had followed to the replica, which reports the return.
    pair.producer.put(far(&id)).await.unwrap();

    // The copy misses later puts, and has the fences of the first move.
    pair.b.command::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    let stale = Pair::layout(&pair.b, 4).await.unwrap();
    pair.producer.put(far(&id_in(4..8, "later"))).await.unwrap();
    let refused = pair.admin.shards().move_to(&last_four(), &b(), |_| {}).await.unwrap_err();
    assert!(refused.to_string().contains("is not a replica of that node"), "{refused}");
    assert_eq!(Pair::layout(&pair.b, 4).await.unwrap(), stale);
    assert_eq!(pair.count().await, 2);
}

#[tokio::test]
async fn the_old_node_serves_the_shards_again_where_the_new_one_dies_after_the_fence() {
    let pair = Pair::start().await;
    pair.replicate().await;
    let die = |step| {
        if step == MoveStep::Fenced {
            pair.b.freeze();
        }
    };
    let error = pair.admin.shards().move_to(&last_four(), &b(), die).await.unwrap_err();
    assert!(error.to_string().contains("undone, because node b does not follow"), "{error}");
    let client = Client::new(pair.settings());
    let producer = Producer::start(client, ProducerOptions::default());
    producer.put(far(&id_in(4..8, "back"))).await.unwrap();
    pair.b.thaw();
    pair.admin.shards().move_to(&last_four(), &b(), |_| {}).await.unwrap();
    assert_eq!(pair.count().await, 1);
}

#[tokio::test]
async fn a_move_to_what_is_no_sound_replica_is_refused_before_anything_is_changed() {
    let pair = Pair::start().await;
    let refused = async |why: &str| {
        let error = pair.admin.shards().move_to(&last_four(), &b(), |_| {}).await.unwrap_err();
        assert!(matches!(&error, Error::Move(text) if text.contains(why)), "{error}");
        assert_eq!(Pair::layout(&pair.a, 4).await.unwrap(), "1@a");
    };
    refused("is not a replica of that node").await;
    pair.replicate().await;
    for (setting, bad, good, why) in [
        ("replica-read-only", "no", "yes", "accepts writes as a replica"),
        ("appendonly", "no", "yes", "differs in appendonly"),
        ("maxmemory-policy", "allkeys-lru", "noeviction", "a maxmemory-policy other"),
    ] {
        pair.b.command::<()>(&["CONFIG", "SET", setting, bad]).await;
        refused(why).await;
        pair.b.command::<()>(&["CONFIG", "SET", setting, good]).await;
    }
    pair.b.command::<()>(&["ACL", "SETUSER", "default", "-replicaof"]).await;
    refused("allow +replicaof there").await;
    pair.b.command::<()>(&["ACL", "SETUSER", "default", "+replicaof"]).await;
    let error = pair.admin.shards().move_to(&last_four(), &"c".parse().unwrap(), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("no node c"), "{error}");
    let other = redis().await;
    let [host, port] = address(&other);
    pair.b.command::<()>(&["REPLICAOF", &host, &port]).await;
    wait_until("the copy", LONG, async || pair.b.field("master_link_status").await == "up").await;
    refused("is a replica of another Redis").await;
}

#[tokio::test]
async fn a_walk_shows_what_moves_to_another_node_under_it() {
    let pair = Pair::start().await;
    let expected: BTreeSet<String> = (0..2000).map(|n| format!("own-{n}")).collect();
    for put in pair.producer.put_many(expected.iter().map(|id| far(id)).collect()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
    pair.replicate().await;
    // By a process that does not learn of the move by itself.
    let mut walk = Admin::new(Client::new(pair.settings())).walk(None).await.unwrap();
    let mut shown = BTreeSet::new();
    shown.extend(walk.step().await.unwrap().unwrap().into_iter().map(|message| message.id.to_string()));
    pair.admin.shards().move_to(&last_four(), &b(), |_| ()).await.unwrap();
    pair.admin.shards().discard_moved(|_| ()).await.unwrap();
    while let Some(messages) = walk.step().await.unwrap() {
        shown.extend(messages.into_iter().map(|message| message.id.to_string()));
    }
    assert_eq!(shown, expected);
}
