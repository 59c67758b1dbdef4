//! Topics whose writes are answered only after replicas or a disk have them.

use delayq::admin::{Durability, Policy, PolicySetting};
use delayq::protocol::{Holder, Leased, Reservation, ReserveRequest, ShardId};
use delayq::{
    Admin, CancelOutcome, Client, Due, Error, Fate, Group, LinkSettings, Message, MessageId, Producer,
    ProducerOptions, PutOutcome, Reschedule, RescheduleOutcome, Settled, Shift, Target, Topic, UnixMillis,
};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{confirming, created, settings};
use delayq_tests::environment::{NO_VALKEY, valkey_server};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::{RedisOptions, RedisServer, old_and_new};
use delayq_tests::remark::skipped;

const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);

struct Pair {
    master: RedisServer,
    replica: RedisServer,
}

struct Stand {
    pair: Pair,
    admin: Admin,
    producer: Producer,
}

// === impl Pair ===

impl Pair {
    async fn start(options: RedisOptions) -> Self {
        let master = RedisServer::start_with(options).await;
        let replica = master.replica().await;
        Self { master, replica }
    }
}

// === impl Stand ===

impl Stand {
    /// Topic `orders` waits for a replica to confirm, topic `mail` for none.
    async fn start(options: RedisOptions, change: impl FnOnce(LinkSettings) -> LinkSettings) -> Self {
        let pair = Pair::start(options).await;
        let (_, admin, producer) = created(settings(change(confirming(&pair.master.url())), 2)).await;
        ask(&admin, "orders", Durability::Replicas(1)).await;
        Self { pair, admin, producer }
    }
}

fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

fn message(name: &str, id: &str) -> Message {
    Message::new(topic(name), "x").at(FAR).id(id).unwrap()
}

fn target(id: &str) -> Target {
    Target::from(MessageId::own(id).unwrap())
}

async fn ask(admin: &Admin, name: &str, durability: Durability) {
    let policy = Policy { durability: Some(durability), ..Policy::default() };
    admin.topic(&topic(name)).change_policy(&policy, &[]).await.unwrap();
}

async fn put(producer: &Producer, name: &str, id: &str) -> Result<PutOutcome, Error> {
    producer.put(message(name, id)).await.map(|put| put.outcome).map_err(|refused| refused.error)
}

fn unconfirmed<T: std::fmt::Debug>(answer: Result<T, Error>, why: &str) {
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::Unconfirmed { .. }), "{error}");
    assert_eq!((error.fate(), error.is_outage()), (Fate::Unknown, true));
    assert!(error.to_string().contains(why), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_replica_confirms_is_unknown_and_says_how_many_did() {
    for options in old_and_new() {
        let Stand { pair, producer, .. } = Stand::start(options, |link| link).await;
        for id in ["one", "two"] {
            assert_eq!(put(&producer, "orders", id).await.unwrap(), PutOutcome::Stored(FAR));
        }
        pair.replica.freeze();
        unconfirmed(put(&producer, "orders", "three").await, "0 of 1 replicas confirmed within");
        // On a connection without writes, some servers count a replica as up to date.
        let another = Client::new(settings(confirming(&pair.master.url()), 2));
        let another = Producer::start(another, ProducerOptions::default());
        unconfirmed(put(&another, "orders", "four").await, "0 of 1 replicas");
        assert_eq!(put(&another, "mail", "five").await.unwrap(), PutOutcome::Stored(FAR));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_that_puts_waits_as_the_topic_of_the_next_message_asks() {
    for options in old_and_new() {
        let Stand { pair, producer, .. } = Stand::start(options, |link| link).await;
        for id in ["one", "two"] {
            producer.put(Message::new(topic("mail"), "x").id(id).unwrap()).await.unwrap();
        }
        // This client does not know the durability yet.
        let holder = Holder::new(Client::new(settings(confirming(&pair.master.url()), 2)));
        let request = ReserveRequest { topics: vec![topic("mail")], most: 2, max_bytes: 0, lease: None };
        let requests = [0, 1].map(|shard| (ShardId::new(shard), request.clone()));
        let reserved =
            holder.reserve(&requests).await.into_iter().flat_map(|report| report.unwrap().messages);
        let leased: Vec<Leased> = reserved
            .map(|Reservation { receipt, topic, id, .. }| Leased { receipt, topic, id, group: None })
            .collect();
        let next = || Message::new(topic("orders"), "x").at(FAR);
        assert_eq!(holder.ack_and_put(&leased[0], next()).await.unwrap(), Settled::Delivered);
        pair.replica.freeze();
        unconfirmed(holder.ack_and_put(&leased[1], next()).await, "0 of 1 replicas");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_that_changes_nothing_is_confirmed_too() {
    for options in old_and_new() {
        let Stand { pair, producer, .. } = Stand::start(options, |link| link).await;
        let (orders, one, two) = (topic("orders"), target("one"), target("two"));
        let to = Reschedule::To(Due::At(UnixMillis::new(FAR.get() + 1)));
        put(&producer, "orders", "one").await.unwrap();
        put(&producer, "orders", "two").await.unwrap();
        for _ in 0..2 {
            assert_eq!(producer.cancel(&orders, &one).await.unwrap(), CancelOutcome::Cancelled);
            producer.reschedule(&orders, &two, to).await.unwrap();
        }
        pair.replica.freeze();
        let unsure = "0 of 1 replicas";
        unconfirmed(put(&producer, "orders", "two").await, unsure);
        unconfirmed(producer.cancel(&orders, &one).await, unsure);
        unconfirmed(producer.reschedule(&orders, &two, to).await, unsure);
        pair.replica.thaw();
        assert!(matches!(put(&producer, "orders", "two").await.unwrap(), PutOutcome::Exists(..)));
        assert_eq!(producer.cancel(&orders, &one).await.unwrap(), CancelOutcome::Cancelled);
        let moved = producer.reschedule(&orders, &two, to).await.unwrap();
        assert!(matches!(moved, RescheduleOutcome::Moved { .. }), "{moved:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_replica_holds_up_only_those_who_wait_for_it() {
    let patient = |link: LinkSettings| link.deadline(2 * LONG).confirm_timeout(LONG);
    // The first producer knows the topic's durability; the second learns the durability with all puts under way.
    for knows in [true, false] {
        let Stand { pair, producer, admin, .. } = Stand::start(RedisOptions::default(), patient).await;
        if knows {
            put(&producer, "orders", "first").await.unwrap();
        }
        pair.replica.freeze();
        let held: Vec<_> = (0..100)
            .map(|n| {
                let producer = producer.clone();
                tokio::spawn(async move { put(&producer, "orders", &format!("held-{n}")).await })
            })
            .collect();
        for n in 0..200 {
            put(&producer, "mail", &format!("mail-{n}")).await.unwrap();
        }
        let stored = async || admin.topic(&topic("orders")).count().await.unwrap().accepted > 1;
        wait_until("a held put to reach Redis", LONG, stored).await;
        producer.cancel(&topic("mail"), &target("mail-0")).await.unwrap();
        assert!(held.iter().all(|put| !put.is_finished()));
        pair.replica.thaw();
        for put in held {
            assert_eq!(within("the held put", LONG, put).await.unwrap().unwrap(), PutOutcome::Stored(FAR));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_waits_for_what_its_topics_ask_and_so_does_a_repeat_that_finds_nothing() {
    let Stand { pair, producer, admin, .. } = Stand::start(RedisOptions::default(), |link| link).await;
    let (group, by) = (Group::new("ann").unwrap(), Shift::from_millis(1));
    let messages = ["mail", "orders"].map(|name| message(name, name).group("ann").unwrap());
    for put in producer.put_many(messages.into()).await {
        assert_eq!(put.unwrap().outcome, PutOutcome::Stored(FAR));
    }
    assert_eq!(producer.reschedule_group(&group, by, "a").await.unwrap().changed, 2);
    pair.replica.freeze();
    let unsure = "0 of 1 replicas";
    for _ in 0..2 {
        unconfirmed(producer.reschedule_group(&group, by, "b").await, unsure);
    }
    for _ in 0..2 {
        unconfirmed(producer.cancel_group(&group).await, unsure);
    }
    pair.replica.thaw();
    assert_eq!(producer.cancel_group(&group).await.unwrap().changed, 0);
    ask(&admin, "orders", Durability::Memory).await;
    pair.replica.freeze();
    assert_eq!(producer.cancel_group(&group).await.unwrap().changed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_cannot_confirm_is_named() {
    let redis = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
    let (_, admin, producer) = created(settings(redis.url(), 1)).await;
    ask(&admin, "orders", Durability::Disk).await;
    if redis.field("redis_version").await.starts_with("7.0") {
        unconfirmed(put(&producer, "orders", "one").await, "unknown command 'WAITAOF'");
    }
    // A topic that asks for less is answered at once.
    admin
        .topic(&topic("orders"))
        .change_policy(&Policy::default(), &[PolicySetting::Durability])
        .await
        .unwrap();
    let (_, _, fresh) = created(settings(redis.url(), 1)).await;
    assert_eq!(put(&fresh, "orders", "two").await.unwrap(), PutOutcome::Stored(FAR));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_confirms_once_it_is_synced() {
    let Some(valkey) = valkey_server() else {
        return skipped(NO_VALKEY);
    };
    for (options, why) in [
        (RedisOptions::default().append_only("everysec"), None),
        (RedisOptions::default().append_only("no"), Some("no confirmation from the master's disk within")),
        (RedisOptions::default(), Some("WAITAOF cannot be used when")),
    ] {
        let redis = RedisServer::start_with(options.program(valkey.clone())).await;
        let (_, admin, producer) = created(settings(confirming(&redis.url()), 1)).await;
        ask(&admin, "orders", Durability::Disk).await;
        let answer = put(&producer, "orders", "one").await;
        match why {
            None => assert_eq!(answer.unwrap(), PutOutcome::Stored(FAR)),
            Some(why) => unconfirmed(answer, why),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_only_the_shards_whose_replica_is_frozen_are_not_confirmed() {
    let cluster = RedisCluster::with_replicas().await;
    let (_, admin, producer) = created(settings(confirming(&cluster.url()), 12)).await;
    ask(&admin, "orders", Durability::Replicas(1)).await;
    let ids: Vec<String> = (0..60).map(|n| format!("m{n}")).collect();
    let all = async || {
        let messages = ids.iter().map(|id| message("orders", id)).collect();
        producer.put_many(messages).await
    };
    assert!(all().await.into_iter().all(|put| put.is_ok()));
    cluster.nodes[3].freeze();
    let (confirmed, not): (Vec<_>, Vec<_>) = all().await.into_iter().partition(Result::is_ok);
    assert!(!confirmed.is_empty() && !not.is_empty(), "{} and {}", confirmed.len(), not.len());
    for put in not {
        unconfirmed(put.map_err(|refused| refused.error), "0 of 1 replicas");
    }
}
