//! The deadline of a call bounds all its attempts together.

use super::grown::{FAR, count};
use delayq::{
    Admin, Client, Error, Fate, Message, MessageId, Producer, ProducerOptions, PutOutcome, Target, Topic,
};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::settings;
use delayq_tests::environment::{RedisShape, redis_shape};
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::redis_server::RedisServer;
use delayq_tests::remark::skipped;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(2);
/// The delay of each direction: one round trip fits the deadline, two do not.
const LATE: Duration = Duration::from_millis(700);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_meets_a_growth_gets_no_second_deadline() {
    if redis_shape() != RedisShape::Plain {
        return skipped("one connection is delayed, which is to be the only one");
    }
    let server = RedisServer::private().await;
    let proxy = Proxy::start_for_redis(&server.address());
    let near = Client::new(settings(server.url(), 4));
    Admin::new(near.clone()).init().await.unwrap();
    let topic = Topic::new("orders").unwrap();
    let message = |id: &str| Message::new(topic.clone(), "x").after(FAR).id(id).unwrap();
    let far = |warm: &'static str| {
        let mut settings = settings(server.url_through(&proxy.address()), 4);
        (settings.link.deadline, settings.link.connect_timeout) = (DEADLINE, DEADLINE);
        let producer = Producer::start(Client::new(settings), ProducerOptions::default());
        let warm = message(warm);
        async move {
            producer.warm(&warm.topic).await.unwrap();
            producer.put(warm).await.unwrap();
            producer
        }
    };
    let (canceller, putter) = (far("warm-1").await, far("warm-2").await);
    canceller.put(message("order-17")).await.unwrap();
    let layout = Admin::new(near).shards().grow(count(8), |_| {}).await.unwrap().layout;
    proxy.set_both(Flow::Delay(LATE));

    // The first round trip ends in a refusal, and the second has the rest of the deadline.
    let target = Target::from(MessageId::own("order-17").unwrap());
    let cancelled = within("the cancel", LONG, canceller.cancel(&topic, &target)).await;
    let error = cancelled.unwrap_err();
    assert!(matches!(error, Error::NoAnswer { .. }) && error.fate() == Fate::Unknown, "{error}");
    // A put has two deadlines, for an attempt and its repeat.
    let stays = |id: &MessageId| layout.placement_of(id, None).earlier.is_empty();
    let mut ids = (18..).map(|n| MessageId::own(format!("order-{n}")).unwrap());
    let id = ids.find(stays).unwrap().to_string();
    let put = within("the put", LONG, putter.put(message(&id))).await.unwrap();
    assert!(matches!(put.outcome, PutOutcome::Stored(_)), "{put:?}");
}
