//! Black-holed connections end calls at their deadline, and are replaced; producers die during a put.

use delayq::admin::Numbers;
use delayq::protocol::{Holder, Notification};
use delayq::{
    Admin, Client, Consumer, ConsumerOptions, Error, Fate, Message, Producer, ProducerOptions, PutOutcome,
    Settled, State, Topic,
};
use delayq_tests::deadline::{LONG, wait_for, wait_until, within};
use delayq_tests::deployment::settings;
use delayq_tests::environment::{RedisShape, redis_shape};
use delayq_tests::proxy::{Direction, Flow, Proxy};
use delayq_tests::redis_server::RedisServer;
use delayq_tests::remark::skipped;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use std::time::{Duration, Instant};

/// Long enough for a busy machine, short enough for several calls in a test.
const DEADLINE: Duration = Duration::from_secs(1);

struct Scene {
    server: RedisServer,
    proxy: Proxy,
    near: Client,
    far: Client,
    topic: Topic,
}

fn is_of_a_cluster() -> bool {
    let is = redis_shape() == RedisShape::Cluster;
    if is {
        skipped(
            "of a cluster, one silence marks the node as silent and asks for the slots by a new connection",
        );
    }
    is
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let server = RedisServer::private().await;
        let proxy = Proxy::start_for_redis(&server.address());
        let (near, far) = (client(server.url()), client(server.url_through(&proxy.address())));
        Admin::new(near.clone()).init().await.unwrap();
        Self { server, proxy, near, far, topic: Topic::new("orders").unwrap() }
    }

    async fn producer(&self) -> Producer {
        let producer = Producer::start(self.far.clone(), ProducerOptions::default());
        producer.warm(&self.topic).await.unwrap();
        producer.put(self.order("warm")).await.unwrap();
        producer
    }

    fn order(&self, id: &str) -> Message {
        Message::new(self.topic.clone(), "x").after(Duration::from_secs(3600)).id(id).unwrap()
    }

    /// Waits until nothing is under way: a reserve under way would take ready messages, and keep the answer.
    async fn calm(&self) {
        let mut before = self.server.scripts_run().await;
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            match self.server.scripts_run().await {
                now if now == before => return,
                now => before = now,
            }
        }
    }

    async fn numbers(&self) -> Numbers {
        Admin::new(self.near.clone()).topic(&self.topic).count().await.unwrap()
    }
}

fn client(url: String) -> Client {
    let mut settings = settings(url, 1);
    (settings.link.deadline, settings.link.connect_timeout) = (DEADLINE, DEADLINE);
    Client::new(settings)
}

async fn asked(client: &Client) -> Result<(), Error> {
    let shards: Vec<_> = client.shards().shards().collect();
    within("a call", LONG, Admin::new(client.clone()).shards().overview_of(&shards)).await.remove(0).map(drop)
}

fn ended_at_its_deadline(error: &Error) -> bool {
    matches!(error, Error::NoAnswer { why, .. } if *why == format!("deadline of {DEADLINE:?} passed"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_holed_connection_is_given_up_after_the_first_call_that_ended_at_its_deadline() {
    if is_of_a_cluster() {
        return;
    }
    let scene = Scene::new().await;
    asked(&scene.far).await.unwrap();
    let before = scene.proxy.taken();
    scene.proxy.strand_open();
    let error = asked(&scene.far).await.unwrap_err();
    assert!(ended_at_its_deadline(&error) && error.fate() == Fate::Unknown, "{error}");
    assert_eq!(scene.proxy.taken(), before, "it waits for an answer on the old connection");
    asked(&scene.far).await.unwrap();
    assert_eq!(scene.proxy.taken(), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_were_idle_are_replaced_with_the_one_that_is_silent() {
    if is_of_a_cluster() {
        return;
    }
    let scene = Scene::new().await;
    let idle = scene.far.apart();
    asked(&scene.far).await.unwrap();
    asked(&idle).await.unwrap();
    let before = scene.proxy.taken();
    scene.proxy.strand_open();
    asked(&scene.far).await.unwrap_err();
    asked(&idle).await.unwrap();
    assert_eq!(scene.proxy.taken(), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_notices_that_its_idle_neighbour_is_silent() {
    if is_of_a_cluster() {
        return;
    }
    let scene = Scene::new().await;
    let mut listener = Holder::new(scene.far.apart()).listen(scene.far.shards().shards().collect());
    within("it to listen", LONG, listener.next()).await;
    asked(&scene.far).await.unwrap();
    scene.proxy.strand_open();
    assert_eq!(within("it to listen again", LONG, listener.next()).await, Notification::Resync);
    asked(&scene.far).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_on_a_black_holed_connection_is_repeated_by_a_new_one() {
    if is_of_a_cluster() {
        return;
    }
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    let before = scene.proxy.taken();
    scene.proxy.strand_open();
    // The put ends at its deadline, and its own repeat uses a new connection.
    let put = within("a put", LONG, producer.put(scene.order("order-17"))).await.unwrap();
    assert!(matches!(put.outcome, PutOutcome::Stored(_)), "{put:?}");
    let repeated = within("a put", LONG, producer.put(scene.order("order-17"))).await.unwrap();
    assert!(matches!(repeated.outcome, PutOutcome::Exists(State::Delayed, _)), "{repeated:?}");
    assert_eq!(scene.proxy.taken(), before + 1);
    assert_eq!(scene.numbers().await.accepted, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_every_connection_is_black_holed_each_put_ends_and_none_of_them_is_there_twice() {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    scene.proxy.set_both(Flow::Hold);
    for n in 0..3 {
        let put = within("a put", LONG, producer.put(scene.order(&format!("order-{n}")))).await;
        let error = put.unwrap_err().error;
        assert!(error.is_outage(), "{error}");
    }
    // The proxy delivers the held bytes now, before or after the repeat.
    scene.proxy.mend().await;
    for n in 0..3 {
        let put = wait_for("a put to be answered", LONG, || async {
            producer.put(scene.order(&format!("order-{n}"))).await.ok()
        });
        assert!(put.await.outcome.is_accepted());
    }
    assert_eq!(scene.numbers().await.accepted, 4);
}

async fn an_unanswered_put() -> Timing {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    scene.proxy.set_both(Flow::Hold);
    let (stall, began) = (Stall::watch(), Instant::now());
    within("a put", LONG, producer.put(scene.order("order-17"))).await.unwrap_err();
    // An attempt and its repeat, and a last look after each for a late answer.
    stall.judge("an unanswered put", began.elapsed(), 2 * DEADLINE + Duration::from_millis(200))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_nothing_answers_ends_within_two_deadlines() {
    conclusive(an_unanswered_put).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_whose_connections_are_black_holed_goes_on_by_new_ones() {
    let scene = Scene::new().await;
    let near = Producer::start(scene.near.clone(), ProducerOptions::default());
    let now = |id: &str| Message::new(scene.topic.clone(), "x").id(id).unwrap();
    let mut consumer =
        Consumer::start(scene.far.clone(), ConsumerOptions::new([scene.topic.clone()])).unwrap();
    near.put(now("before")).await.unwrap();
    let held = within("a message", LONG, consumer.next()).await.unwrap();
    within("nothing under way", LONG, scene.calm()).await;
    scene.proxy.strand_open();
    near.put(now("after")).await.unwrap();
    let next = within("the message behind the black hole", LONG, consumer.next()).await.unwrap();
    assert_eq!(next.envelope.attempt, 1);
    for delivery in [next, held] {
        assert_eq!(within("an ack", LONG, delivery.ack()).await.unwrap(), Settled::Delivered);
    }
    wait_until("both to be over", LONG, || async { scene.numbers().await.delivered == 2 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_dies_before_its_put_arrives_has_put_nothing_and_repeats_it() {
    let scene = Scene::new().await;
    let doomed = scene.producer().await;
    scene.proxy.set_both(Flow::Hold);
    within("the put of the doomed", LONG, doomed.put(scene.order("order-17"))).await.unwrap_err();
    drop(doomed);
    scene.proxy.strand_open();
    scene.proxy.mend().await;
    assert_eq!(scene.numbers().await.accepted, 1, "what warmed it up, and nothing else");
    let next = Producer::start(scene.near.clone(), ProducerOptions::default());
    let put = next.put(scene.order("order-17")).await.unwrap();
    assert!(matches!(put.outcome, PutOutcome::Stored(_)), "{put:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_dies_before_its_put_is_answered_finds_it_there_when_it_repeats_it() {
    let scene = Scene::new().await;
    let doomed = scene.producer().await;
    scene.proxy.set(Direction::Replies, Flow::Hold);
    let putting = tokio::spawn({
        let message = scene.order("order-17");
        async move { doomed.put(message).await }
    });
    wait_until("the script to have run", LONG, || async { scene.numbers().await.accepted == 2 }).await;
    putting.abort();
    let _ = putting.await;
    let next = Producer::start(scene.near.clone(), ProducerOptions::default());
    let put = next.put(scene.order("order-17")).await.unwrap();
    assert!(matches!(put.outcome, PutOutcome::Exists(State::Delayed, _)), "{put:?}");
    assert_eq!(scene.numbers().await.accepted, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_puts_under_way_are_bounded_by_their_bytes_and_not_by_their_count() {
    const PUTS: u64 = 60;
    let scene = Scene::new().await;
    let mut settings = settings(scene.server.url_through(&scene.proxy.address()), 1);
    settings.link.deadline = LONG;
    let producer = Producer::start(Client::new(settings), ProducerOptions::default());
    producer.warm(&scene.topic).await.unwrap();
    producer.put(scene.order("warm")).await.unwrap();
    scene.proxy.set(Direction::Replies, Flow::Hold);
    let puts: Vec<_> = (0..PUTS)
        .map(|n| {
            let (producer, topic) = (producer.clone(), scene.topic.clone());
            let message = Message::new(topic, vec![b'x'; 256 * 1024]).id(n.to_string()).unwrap();
            tokio::spawn(async move { producer.put(message).await.map(|put| put.outcome) })
        })
        .collect();
    // Four pipelines of 1 MiB, each of at most three messages with their overhead.
    wait_until("the first of them to arrive", LONG, async || scene.numbers().await.accepted > 4).await;
    let accepted = scene.numbers().await.accepted;
    assert!(accepted <= 1 + 4 * 3, "{accepted} are under way");
    scene.proxy.mend().await;
    for put in puts {
        assert!(within("its answer", LONG, put).await.unwrap().unwrap().is_accepted());
    }
    assert_eq!(scene.numbers().await.accepted, 1 + PUTS);
}
