//! Puts that lose their answers and are repeated.

use crate::action::{Action, Item, Reserve};
use crate::bare_shard::{BareShard, scripts_with};
use crate::snapshot::lossy;
use delayq::admin::{Policy, Repeats};
use delayq::protocol::{Holder, ReserveRequest, ShardId, Verb};
use delayq::{
    Admin, Client, Message, MessageId, Producer, ProducerOptions, PutOutcome, Settings, Settled, ShardCount,
    State, Topic, UnixMillis,
};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::Deployment;
use delayq_tests::proxy::{AfterLoss, Proxy};
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::time::Duration;

const NOW: u64 = 1_763_697_600_000;

fn client(url: String) -> Client {
    let mut settings = Settings::new(url);
    settings.shards = ShardCount::new(1).unwrap();
    settings.link.deadline = Duration::from_millis(400);
    Client::new(settings)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacing_put_that_is_repeated_delivers_again_what_was_delivered_meanwhile() {
    let server = RedisServer::private().await;
    let proxy = Proxy::start_for_redis(&server.address());
    let (near, far) = (client(server.url()), client(server.url_through(&proxy.address())));
    Admin::new(near.clone()).init().await.unwrap();
    let topic = Topic::new("orders").unwrap();
    let producer = Producer::start(far, ProducerOptions::default());
    producer.warm(&topic).await.unwrap();
    let message = Message::new(topic.clone(), "x").id("order-17").unwrap().replace();
    // The first put loads the script, so that the next reply is the put's own.
    let before = producer.put(message.clone().after(Duration::from_secs(3600))).await.unwrap();
    assert!(matches!(before.outcome, PutOutcome::Stored(_)), "{before:?}");

    // The put's own repeat uses a new connection.
    proxy.lose_reply(0, AfterLoss::Silence);
    let worker = async {
        let request = ReserveRequest { topics: vec![topic.clone()], most: 1, max_bytes: 0, lease: None };
        let message = loop {
            let mut found = Holder::new(near.clone())
                .reserve(&[(ShardId::new(0), request.clone())])
                .await
                .remove(0)
                .unwrap()
                .messages;
            if let Some(message) = found.pop() {
                break message;
            }
            tokio::task::yield_now().await;
        };
        // The put's time in flight is known only to a few milliseconds; in doubt the repeat replaces.
        let reserved = server.now_ms().await;
        let well_after = async || server.now_ms().await > reserved + 100;
        wait_until("Redis's clock to be well past the put", LONG, well_after).await;
        Holder::new(near.clone()).ack(&[message.receipt]).await.remove(0).unwrap()
    };
    let (put, settled) = tokio::join!(producer.put(message), worker);
    assert_eq!(settled, Settled::Delivered);
    assert_eq!(proxy.losses(), 1);
    let outcome = put.unwrap().outcome;
    assert!(matches!(outcome, PutOutcome::Exists(State::Delivered, _)), "{outcome:?}");
    let numbers = Admin::new(near).topic(&topic).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.delivered, numbers.pending()), (2, 1, 0), "{numbers:?}");
}

async fn cancelled(server: &SharedRedis) -> (BareShard, Item) {
    let mut shard = BareShard::create(server, "r", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    let item = Item::new(b"order-17", NOW + 1000);
    let put = Action::Put { topic: "t".into(), items: vec![item.clone()] };
    shard.call(Verb::Put, &put.args()).await.unwrap();
    let cancel = Action::Cancel { topic: "t".into(), ids: vec![item.id.clone()] };
    shard.call(Verb::Cancel, &cancel.args()).await.unwrap();
    (shard, item)
}

async fn replaced(shard: &mut BareShard, item: &Item, first_tried: u64) -> String {
    let put = Action::Put { topic: "t".into(), items: vec![item.clone()] };
    let mut args = put.args();
    args[3] = format!("replace tried={first_tried}").into_bytes();
    lossy(&shard.call(Verb::Put, &args).await.unwrap()[1])
}

#[tokio::test]
async fn a_replacing_put_takes_the_place_of_what_was_over_before_its_first_try() {
    let server = RedisServer::start().await;
    let (mut shard, item) = cancelled(&server).await;
    shard.clock_us = Some((NOW + 10) * 1000);
    for (tried, wanted) in [(NOW - 1, "exists cancelled 1763697600000"), (NOW, "stored")] {
        let word = replaced(&mut shard, &item, tried).await;
        assert_eq!(word, wanted, "first tried at {tried}, cancelled at {NOW}");
    }
}

#[tokio::test]
async fn a_replacing_put_of_other_content_takes_the_place_of_what_is_over_since_its_first_try() {
    let server = RedisServer::start().await;
    let (mut shard, item) = cancelled(&server).await;
    let other = Item { content: 1, ..item };
    assert_eq!(replaced(&mut shard, &other, NOW - 500).await, "stored");
}

#[tokio::test]
async fn a_put_of_unknown_fate_is_delivered_however_late_it_is_repeated_unless_its_topic_refuses_repeats() {
    let Deployment { server, client, producer, admin } = Deployment::new(1).await;
    let strict = Policy { repeats: Some(Repeats::Refuse), ..Policy::default() };
    admin.topic(&Topic::new("strict").unwrap()).set_policy(&strict).await.unwrap();
    assert_eq!(
        Admin::new(client.clone()).topic(&Topic::new("strict").unwrap()).policy().await.unwrap(),
        strict
    );
    let now = server.now_ms().await;
    let repeat = async |topic: &str, id: Option<&str>, seconds_ago: u64| {
        let message = Message::new(Topic::new(topic).unwrap(), "x");
        let message = match id {
            Some(id) => message.id(id).unwrap(),
            None => message.with_id(MessageId::generate(ShardId::new(0), now)),
        };
        let tried = UnixMillis::new(now - 1_000 * seconds_ago);
        match producer.put(message.first_tried(tried)).await.unwrap().outcome {
            PutOutcome::Ready(_) => "delivered",
            PutOutcome::Stale => "stale",
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(repeat("lenient", Some("a"), 61).await, "delivered");
    assert_eq!(repeat("lenient", Some("b"), 2 * 86_400).await, "delivered");
    assert_eq!(repeat("lenient", None, 2 * 86_400).await, "delivered");
    assert_eq!(repeat("strict", Some("a"), 61).await, "stale");
    assert_eq!(repeat("strict", Some("b"), 1).await, "delivered", "how it ended would still be remembered");
    assert_eq!(repeat("strict", None, 1).await, "stale", "how a generated id ended is not remembered");
}

#[tokio::test]
async fn a_put_with_an_option_that_is_invalid_is_refused_and_its_neighbours_are_not() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "o", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    let items = vec![Item::new(b"a", NOW), Item::new(b"b", NOW)];
    let put = Action::Put { topic: "t".into(), items };
    let mut args = put.args();
    for option in
        ["tried=soon", "again=1", "replaced", "within=0", "within=later", "within", "throttle=0", "swallow"]
    {
        args[3] = format!("replace {option}").into_bytes();
        let words = shard.call(Verb::Put, &args).await.unwrap();
        assert_eq!(lossy(&words[1]), format!("refused option {option}"));
        assert!(["ready", "exists ready"].iter().any(|word| lossy(&words[2]).starts_with(word)));
    }
    for (options, named) in [
        ("replace later sooner", "sooner"),
        ("replace within=9 within=9", "within=9"),
        ("replace throttle=9 swallow=9", "swallow=9"),
        ("throttle=9", "throttle=9 without replace"),
        ("keep", "keep without replace"),
        ("later keep", "later keep without replace"),
    ] {
        args[3] = options.into();
        let words = shard.call(Verb::Put, &args).await.unwrap();
        assert_eq!(lossy(&words[1]), format!("refused option {named}"));
    }
}

async fn recorded_put(shard: &mut BareShard, item: &Item, options: &str) -> String {
    let mut args = Action::Put { topic: "t".into(), items: vec![item.clone()] }.args();
    args[3] = options.as_bytes().to_vec();
    lossy(&shard.call(Verb::Put, &args).await.unwrap()[1])
}

async fn recorded_change(shard: &mut BareShard, verb: Verb, record: &str, rest: &[&str]) -> String {
    let item = format!("order-17\0{record}");
    let args: Vec<&str> = [&["t", item.as_str()], rest].concat();
    lossy(&shard.call(verb, &args).await.unwrap()[0])
}

const RECORDS: [&str; 4] = ["000000000000000a", "000000000000000b", "000000000000000c", "000000000000000d"];

#[tokio::test]
async fn a_recorded_write_that_is_repeated_gets_its_first_answer_and_undoes_no_later_one() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "r", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    let item = Item::new(b"order-17", NOW + 1000);
    let [first, cancel, second, moves] = RECORDS;
    // By the fast path of a plain put, and by the general path.
    for _ in 0..3 {
        assert_eq!(recorded_put(&mut shard, &item, &format!("record={first}")).await, "stored");
        assert_eq!(recorded_change(&mut shard, Verb::Cancel, cancel, &[]).await, "cancelled");
        assert_eq!(recorded_put(&mut shard, &item, &format!("replace record={second}")).await, "stored");
        let due = (NOW + 2000).to_string();
        let moved = recorded_change(&mut shard, Verb::Reschedule, moves, &[&due, ""]).await;
        assert_eq!(moved, format!("delayed {} {due}", NOW + 1000));
        assert_eq!(recorded_put(&mut shard, &item, "").await, format!("exists delayed {due}"));
    }
}

#[tokio::test]
async fn a_record_is_carried_out_again_once_it_is_settled_and_a_replacement_of_what_is_leased_is_no_answer() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "r", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    let item = Item::new(b"order-17", NOW);
    let [first, second, ..] = RECORDS;
    assert_eq!(recorded_put(&mut shard, &item, &format!("record={first}")).await, "ready");
    let reserve = Action::Reserve(Reserve::from("t", 1, Some(1000)));
    shard.call(Verb::Reserve, &reserve.args()).await.unwrap();
    let replace = format!("replace record={second}");
    assert_eq!(recorded_put(&mut shard, &item, &replace).await, "leased");
    assert_eq!(recorded_put(&mut shard, &item, &format!("record={first}")).await, "ready");
    let settled = shard.call(Verb::Settled, &[first, second]).await.unwrap();
    assert_eq!(lossy(&settled[0]), "1", "the second has no answer yet: its next call is a first try");
    let exists = recorded_put(&mut shard, &item, &format!("record={first}")).await;
    assert_eq!(exists, format!("exists leased {NOW}"));
}
