//! The helpers for tests: isolated deployments, what is pending, promotions and drains.

#[allow(unreachable_pub, reason = "the code of the guide, as its readers write it")]
mod drips;
#[allow(unreachable_pub, reason = "the code of the guide, as its readers write it")]
mod guide;

use delayq::worker::testing::{Drained, Isolated, NotDrained, Pending, isolated};
use delayq::worker::{Failure, Job};
use delayq::{
    Consumer, ConsumerOptions, Error, Group, Message, MessageId, Producer, ProducerOptions, Settled,
    ShardCount, Topic, UnixMillis,
};
use delayq_tests::redis_server::RedisServer;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const FAR: u64 = 4_102_444_800_000;
const SHARDS: [u16; 2] = [1, 7];

fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

fn message(name: &str, id: &str) -> Message {
    Message::new(topic(name), id.to_owned()).id(id).unwrap()
}

async fn put(queue: &Isolated, messages: impl IntoIterator<Item = Message>) {
    let producer = Producer::start(queue.client().clone(), ProducerOptions::default());
    for put in producer.put_many(messages.into_iter().collect()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
}

async fn on_each(test: impl AsyncFn(&Isolated)) {
    let server = RedisServer::private().await;
    for shards in SHARDS {
        isolated(server.url(), ShardCount::new(shards).unwrap(), &test).await.unwrap();
    }
}

async fn keys(server: &RedisServer) -> u64 {
    redis::cmd("DBSIZE").query_async(&mut server.connect().await).await.unwrap()
}

fn ids(drained: &[Drained]) -> Vec<String> {
    drained.iter().map(|one| one.id.to_string()).collect()
}

#[tokio::test]
async fn pending_messages_are_shown_in_the_order_of_due_times_with_all_that_a_test_asserts() {
    on_each(async |queue| {
        let b = message("orders", "b").at(UnixMillis::new(FAR + 1)).group("user-5").unwrap();
        let b = b.header("kind", "gift");
        let a = message("orders", "a").at(UnixMillis::new(FAR));
        put(queue, [b, a, message("orders", "now"), message("mails", "x").after(HOUR)]).await;
        let [now, a, b] = queue.pending(&topic("orders")).await.unwrap().try_into().unwrap();
        assert_eq!(now.id.to_string(), "now");
        let id = |id: &str| MessageId::own(id).unwrap();
        let due = UnixMillis::new(FAR);
        assert_eq!(a, Pending { id: id("a"), due, payload: b"a".to_vec(), group: None, headers: vec![] });
        assert_eq!(
            (b.id, b.group, b.headers),
            (id("b"), Group::new("user-5").ok(), vec![("kind".into(), "gift".into())])
        );
    })
    .await;
}

#[tokio::test]
async fn all_of_a_topic_is_promoted_even_what_became_due_since() {
    on_each(async |queue| {
        let soon = message("orders", "soon").after(Duration::from_millis(1));
        put(queue, [soon, message("orders", "later").after(HOUR), message("mails", "x").after(HOUR)]).await;
        tokio::time::sleep(Duration::from_millis(10)).await; // it has to become due: no timer notices
        assert_eq!(queue.promote_all(&topic("orders")).await.unwrap(), 2);
        assert_eq!(queue.promote_all(&topic("orders")).await.unwrap(), 0);
        let mut drained = ids(&queue.drain(&[topic("orders")], async |_| Ok(())).await.unwrap());
        drained.sort();
        assert_eq!(drained, ["later", "soon"]);
        assert_eq!(queue.pending(&topic("mails")).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_drain_delivers_everything_in_the_order_of_due_times_with_what_handlers_put() {
    on_each(async |queue| {
        put(queue, [3, 1, 2].map(|n| message("orders", &format!("order-{n}")).after(HOUR * n))).await;
        let handle = async |job: Job| {
            if job.id.to_string() == "order-1" {
                put(queue, [message("mails", "mail").after(HOUR * 3 / 2)]).await;
            }
            Ok(())
        };
        let drained = queue.drain(&[topic("orders"), topic("mails")], handle).await.unwrap();
        assert_eq!(ids(&drained), ["order-1", "mail", "order-2", "order-3"]);
        assert!(drained.iter().all(|one| one.settled == Settled::Delivered && one.attempt == 1));
        assert_eq!(drained[2].payload, b"order-2");
        assert!(queue.drain(&[topic("orders")], async |_| Ok(())).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_drain_settles_as_a_worker_does_and_waits_for_no_back_off() {
    on_each(async |queue| {
        let put_one = |id: &str| message("orders", id).after(HOUR).max_attempts(3);
        put(queue, ["failing", "panic", "wrong"].map(put_one)).await;
        let handle = async |job: Job| -> Result<(), Failure> {
            match job.id.to_string().as_str() {
                "wrong" => Err(Failure::bury("no such order")),
                "panic" => panic!("always"),
                _ => Err(Failure::retry_after(HOUR * 5, "always")),
            }
        };
        let drained = queue.drain(&[topic("orders")], handle).await.unwrap();
        for (id, attempts) in [("failing", 3), ("panic", 3), ("wrong", 1)] {
            let of: Vec<&Drained> = drained.iter().filter(|one| one.id.to_string() == id).collect();
            assert_eq!(of.len(), attempts, "{id}");
            assert_eq!(of[attempts - 1].settled, Settled::Buried, "{id}");
            assert!(of.iter().all(|one| one.failure.is_some()), "{id}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_drain_delivers_next_messages_and_a_next_one_that_breaks_a_rule_fails_the_attempt() {
    on_each(async |queue| {
        put(queue, [message("orders", "drip").after(HOUR).max_attempts(1)]).await;
        let handle = async |job: Job| {
            let next = Message::new(job.topic.clone(), [job.payload(), b"+"].concat())
                .after(HOUR * 48)
                .max_attempts(1);
            Ok::<_, Failure>(match job.payload().len() {
                5.. => next.id("another").unwrap(),
                _ => next.with_id(job.id.clone()),
            })
        };
        let drained = queue.drain(&[topic("orders")], handle).await.unwrap();
        let payloads: Vec<_> = drained.iter().map(|one| String::from_utf8_lossy(&one.payload)).collect();
        assert_eq!(payloads, ["drip", "drip+"]);
        assert_eq!((&drained[0].settled, &drained[1].settled), (&Settled::Delivered, &Settled::Buried));
        assert!(format!("{:?}", drained[1].failure).contains("a next message has no id"), "{drained:?}");
    })
    .await;
}

fn left(drained: Result<Vec<Drained>, NotDrained>) -> (String, usize) {
    match drained {
        Err(NotDrained::Left { why, drained }) => (why, drained.len()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_handler_that_puts_for_ever_and_a_message_that_cannot_be_delivered_are_named() {
    on_each(async |queue| {
        put(queue, [message("orders", "order-0").after(HOUR)]).await;
        let number = std::cell::Cell::new(0);
        let again = async |_| {
            number.set(number.get() + 1);
            put(queue, [message("orders", &format!("order-{}", number.get())).after(HOUR)]).await;
            Ok(())
        };
        let (why, count) = left(queue.drain(&[topic("orders")], again).await);
        assert!(
            why.starts_with("orders is not drained after 1000 deliveries, order-1000 is next: "),
            "{why}"
        );
        assert_eq!((count, queue.pending(&topic("orders")).await.unwrap().len()), (1000, 1));
        put(queue, [message("held", "x")]).await;
        let options = ConsumerOptions::new([topic("held")]);
        let mut consumer = Consumer::start(queue.client().clone(), options).unwrap();
        let held = consumer.next().await.unwrap();
        let (why, _) = left(queue.drain(&[topic("held")], async |_| Ok(())).await);
        assert!(why.starts_with("held has leased messages (1): before a drain, settle"), "{why}");
        held.ack().await.unwrap();
        consumer.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_deployment_is_removed_whole_even_after_a_panic_and_nothing_of_others() {
    let server = RedisServer::private().await;
    let one = ShardCount::new(1).unwrap();
    isolated(server.url(), one, async |other| {
        put(other, [message("orders", "kept").after(HOUR)]).await;
        let before = keys(&server).await;
        let three = ShardCount::new(3).unwrap();
        let many = (0..3000)
            .map(|n| message("orders", &format!("o-{n}")).after(HOUR).group(format!("g-{n}")).unwrap());
        isolated(server.url(), three, async |queue| put(queue, many).await).await.unwrap();
        let panics = isolated(server.url(), three, async |queue| {
            put(queue, [message("orders", "a")]).await;
            panic!("of the test");
        });
        let panicked: Result<Result<(), Error>, _> = AssertUnwindSafe(panics).catch_unwind().await;
        assert!(panicked.is_err());
        assert_eq!(keys(&server).await, before);
        assert_eq!(other.pending(&topic("orders")).await.unwrap().len(), 1);
    })
    .await
    .unwrap();
    assert_eq!(keys(&server).await, 0);
    let deny = redis::cmd("ACL").arg(&["SETUSER", "default", "-scan"]).clone();
    deny.query_async::<()>(&mut server.connect().await).await.unwrap();
    let refused = isolated(server.url(), one, async |_| panic!("it was created")).await;
    assert!(matches!(&refused, Err(Error::Unfit(why)) if why.contains("none is created")), "{refused:?}");
    assert_eq!(keys(&server).await, 0);
}

#[tokio::test]
async fn the_guide_s_test_passes_as_it_is_printed() {
    let guide = include_str!("../../../../docs/guides/testing.md");
    assert!(guide.contains(&format!("```rust,no_run\n{}```", include_str!("testing/guide.rs"))));
    let server = RedisServer::private().await;
    guide::an_unpaid_order_expires_after_half_an_hour(&server.url()).await.unwrap();
}

#[tokio::test]
async fn the_drips_of_the_guide_come_one_after_the_other() {
    let guide = include_str!("../../../../docs/guides/drips.md");
    assert!(guide.contains(&format!("```rust,no_run\n{}```", include_str!("testing/drips.rs"))));
    on_each(async |queue| {
        let first = Message::new(topic("mails"), "0").id("welcome").unwrap().group("user-5").unwrap();
        put(queue, [first.after(HOUR * 24)]).await;
        let drained = queue.drain(&[topic("mails")], drips::send_mail).await.unwrap();
        let payloads: Vec<_> = drained.iter().map(|one| one.payload.as_slice()).collect();
        assert_eq!(payloads, [b"0", b"1", b"2"]);
    })
    .await;
}
