//! A consumer's reserved messages: leases kept, settlements, and the release of unreadable messages.

use delayq::admin::Policy;
use delayq::protocol::{Owner, Scripts, ShardId};
use delayq::{Admin, Client, Consumer, ConsumerOptions, Delivery, Message, Settled, Topic};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{Deployment, settings};
use delayq_tests::proxy::{AfterLoss, Flow, Proxy};
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

const SHARD: ShardId = ShardId::new(0);

struct Scene {
    deployment: Deployment,
    topic: Topic,
    _pump: AbortOnDropHandle<()>,
}

fn client(url: String) -> Client {
    Client::new(settings(url, 1))
}

fn refused_acks(url: String) -> Client {
    let shut = |name: &str, text: &str| {
        let gate =
            "if redis.call('EXISTS', KEYS[2]) == 0 then return redis.error_reply('TRYAGAIN later') end";
        let gated = || text.replacen("\nlocal last = #ARGV", &format!("\n{gate}\nlocal last = #ARGV"), 1);
        (name == "ack").then(gated).inspect(|gated| assert_ne!(gated, text))
    };
    Client::with_scripts(settings(url, 1), Arc::new(Scripts::swapped(&shut)))
}

const GATE: &str = "{dq:0}:never";

/// Long enough for a busy machine.
const LEASE: Duration = Duration::from_secs(3);

async fn pump(client: Client) {
    loop {
        // The pump suffers from the faults of a test.
        let _ = Owner::new(client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let deployment = Deployment::on(SharedRedis::from(RedisServer::private().await), 1).await;
        let _pump = AbortOnDropHandle::new(tokio::spawn(pump(deployment.client.clone())));
        Self { deployment, topic: Topic::new("orders").unwrap(), _pump }
    }

    async fn put(&self, topic: &Topic, payload: &str) {
        self.deployment.put([Message::new(topic.clone(), payload)]).await;
    }
}

impl Scene {
    async fn lease(&self, lease: Duration) {
        let policy = Policy { lease: Some(lease), ..Policy::default() };
        self.deployment.admin.topic(&self.topic).set_policy(&policy).await.unwrap();
    }

    async fn outlast_a_lease(&self) {
        let over = self.deployment.now().await + 2 * LEASE;
        wait_until("the lease would have run out twice", LONG, async || self.deployment.now().await > over)
            .await;
    }

    async fn is_pending(&self, count: u64) {
        assert_eq!(self.deployment.admin.topic(&self.topic).count().await.unwrap().pending(), count);
    }

    async fn is_over_after_one_delivery(&self, count: u64) {
        let numbers = self.deployment.admin.topic(&self.topic).count().await.unwrap();
        assert_eq!((numbers.delivered, numbers.pending()), (count, 0), "{numbers:?}");
    }
}

async fn next(consumer: &mut Consumer) -> Delivery {
    within("a delivery", LONG, consumer.next()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dictionary_that_cannot_be_fetched_for_a_moment_buries_nothing_and_holds_back_no_other_message() {
    let scene = Scene::new().await;
    let plain = Topic::new("plain").unwrap();
    let order = |n: usize| format!("{{\"order\":{n},\"event\":\"payment-timeout\",\"currency\":\"EUR\"}}");
    let pending = (0..200).map(|n| Message::new(scene.topic.clone(), order(n)).after(LONG * 100));
    scene.deployment.put(pending).await;
    scene.deployment.admin.dictionaries().train(&scene.topic, 200).await.unwrap();
    let (kept, aside) = ("{dq:0}:dictionaries", "{dq:0}:aside");
    scene.deployment.server.command::<()>(&["RENAME", kept, aside]).await;
    scene.deployment.server.command::<()>(&["SET", kept, "no hash"]).await;
    scene.put(&scene.topic, &order(5_000)).await;
    scene.put(&plain, "plain").await;

    // Another process, which does not know the dictionary yet.
    let options = ConsumerOptions::new([scene.topic.clone(), plain.clone()]);
    let mut consumer = Consumer::start(client(scene.deployment.server.url()), options).unwrap();
    let delivery = next(&mut consumer).await;
    assert_eq!(delivery.envelope.payload, b"plain");
    delivery.ack().await.unwrap();
    scene.deployment.server.command::<()>(&["RENAME", aside, kept]).await;
    let delivery = next(&mut consumer).await;
    assert_eq!(delivery.envelope.payload, order(5_000).into_bytes());
    assert!(delivery.envelope.delivery > 1 && delivery.envelope.attempt == 1, "{delivery:?}");
    delivery.ack().await.unwrap();
    assert_eq!(scene.deployment.admin.topic(&scene.topic).count().await.unwrap().dead, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_dictionary_is_in_no_redis_is_buried_and_others_are_listed() {
    let scene = Scene::new().await;
    let order = |n: usize| format!("{{\"order\":{n},\"event\":\"payment-timeout\",\"currency\":\"EUR\"}}");
    let pending = (0..200).map(|n| Message::new(scene.topic.clone(), order(n)).after(LONG * 100));
    scene.deployment.put(pending).await;
    scene.deployment.admin.dictionaries().train(&scene.topic, 200).await.unwrap();
    scene.put(&scene.topic, &order(5_000)).await;
    scene.deployment.server.command::<()>(&["DEL", "{dq:0}:dictionaries"]).await;
    let stranger = client(scene.deployment.server.url());
    let admin = Admin::new(stranger.clone());
    let listed =
        admin.topic(&scene.topic).list(delayq::admin::ListState::Delayed, delayq::admin::TimeRange::ALL, 500);
    assert_eq!(listed.await.unwrap().len(), 200);
    let _consumer = Consumer::start(stranger, ConsumerOptions::new([scene.topic.clone()])).unwrap();
    wait_until("it is buried", LONG, async || admin.topic(&scene.topic).count().await.unwrap().dead == 1)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_only_its_topic_made_short_is_kept_while_the_work_lasts() {
    let scene = Scene::new().await;
    scene.lease(LEASE).await;
    scene.put(&scene.topic, "x").await;
    let client = client(scene.deployment.server.url());
    let mut consumer = Consumer::start(client, ConsumerOptions::new([scene.topic.clone()])).unwrap();
    let delivery = next(&mut consumer).await;
    scene.outlast_a_lease().await;
    assert_eq!(delivery.ack().await.unwrap(), Settled::Delivered);
    scene.is_over_after_one_delivery(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_that_fails_is_told_again_and_its_lease_is_kept_until_it_is_settled() {
    let scene = Scene::new().await;
    scene.lease(LEASE).await;
    scene.put(&scene.topic, "x").await;
    scene.put(&scene.topic, "y").await;
    let client = refused_acks(scene.deployment.server.url());
    let mut consumer = Consumer::start(client, ConsumerOptions::new([scene.topic.clone()])).unwrap();
    let (delivery, later) = (next(&mut consumer).await, next(&mut consumer).await);
    later.ack_later();
    let ack = tokio::spawn(delivery.ack());
    scene.outlast_a_lease().await;
    assert!(!ack.is_finished());
    scene.deployment.server.command::<()>(&["SET", GATE, "open"]).await;
    assert_eq!(within("the ack's answer", LONG, ack).await.unwrap().unwrap(), Settled::Delivered);
    within("the consumer's end", LONG, consumer.stop()).await;
    scene.is_over_after_one_delivery(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_whose_answer_is_lost_says_delivered_and_one_that_never_arrives_fails_when_its_lease_is_over()
{
    let scene = Scene::new().await;
    scene.put(&scene.topic, "x").await;
    let proxy = Proxy::start_for_redis(&scene.deployment.server.address());
    let mut settings = settings(scene.deployment.server.url_through(&proxy.address()), 1);
    settings.link.deadline = Duration::from_secs(1);
    let mut options = ConsumerOptions::new([scene.topic.clone()]);
    options.concurrency = 1;
    let mut consumer = Consumer::start(Client::new(settings.clone()), options.clone()).unwrap();
    let delivery = next(&mut consumer).await;
    proxy.lose_reply(0, AfterLoss::Reset);
    assert_eq!(delivery.ack().await.unwrap(), Settled::Delivered);
    assert_eq!(proxy.losses(), 1);
    drop(consumer);

    scene.put(&scene.topic, "y").await;
    options.lease = Some(LEASE);
    let mut consumer = Consumer::start(Client::new(settings), options).unwrap();
    let delivery = next(&mut consumer).await;
    proxy.set_both(Flow::Hold);
    assert!(within("the end of the lease", LONG, delivery.ack()).await.is_err());
    scene.is_pending(1).await;
}
