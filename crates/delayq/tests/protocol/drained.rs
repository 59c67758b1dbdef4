//! A drained deployment keeps nothing of its forgotten messages.

use delayq::admin::{Policy, PurgeWhat, TimeRange};
use delayq::protocol::{Holder, Owner, Reservation, ReserveRequest};
use delayq::{Admin, CancelOutcome, Client, Group, Message, Producer, Settled, Target, Topic};
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::Deployment;
use delayq_tests::invariants::{Books, leftovers};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::time::Duration;

const SHARDS: u16 = 4;
const EACH: usize = 40;
const SOON: Duration = Duration::from_millis(1);

struct Scene {
    server: RedisServer,
    clock: ClockShim,
    client: Client,
    producer: Producer,
    admin: Admin,
    orders: Topic,
    /// Messages of this topic expire when due.
    fleeting: Topic,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let clock = ClockShim::new();
        let server = RedisServer::private_with(RedisOptions::default().clock(&clock)).await;
        let Deployment { server, client, producer, admin } = Deployment::on(server, SHARDS).await;
        let [orders, fleeting] = ["orders", "fleeting"].map(|name| Topic::new(name).unwrap());
        let forgetful = Policy {
            remember_cancelled: Some(SOON),
            remember_own: Some(SOON),
            remember_generated: Some(SOON),
            ..Policy::default()
        };
        admin.topic(&orders).set_policy(&forgetful).await.unwrap();
        let expiring = Policy { expire_after: Some(SOON), ..forgetful };
        admin.topic(&fleeting).set_policy(&expiring).await.unwrap();
        Self { server, clock, client, producer, admin, orders, fleeting }
    }

    fn own(&self, topic: &Topic, kind: &str, n: usize) -> Message {
        let Target { id, group } = target(kind, n);
        let message = Message::new(topic.clone(), vec![b'x'; 300]).with_id(id);
        match group {
            Some(group) => message.with_group(group),
            None => message,
        }
    }

    async fn put(&self, make: impl Fn(usize) -> Message) {
        for put in self.producer.put_many((0..EACH).map(make).collect()).await {
            assert!(put.unwrap().outcome.is_accepted());
        }
    }

    async fn cancel(&self, kind: &str) {
        for n in 0..EACH {
            let cancelled = self.producer.cancel(&self.orders, &target(kind, n)).await.unwrap();
            assert_eq!(cancelled, CancelOutcome::Cancelled);
        }
    }

    /// Returns true once no entry has a time.
    async fn pump(&self) -> bool {
        let mut idle = true;
        for shard in self.client.shards().shards() {
            idle &= Owner::new(self.client.clone())
                .pump(&[(shard, Some(1))], 500, None)
                .await
                .remove(0)
                .unwrap()
                .next_due
                .is_none();
        }
        idle
    }

    async fn reserve_all(&self) -> Vec<Reservation> {
        let topics = vec![self.orders.clone(), self.fleeting.clone()];
        let request = ReserveRequest { topics, most: 500, max_bytes: 0, lease: None };
        let mut found = Vec::new();
        for shard in self.client.shards().shards() {
            found.extend(
                Holder::new(self.client.clone())
                    .reserve(&[(shard, request.clone())])
                    .await
                    .remove(0)
                    .unwrap()
                    .messages,
            );
        }
        found
    }

    async fn books(&self, topic: &Topic) -> Books {
        let numbers = self.admin.topic(topic).count().await.unwrap();
        Books {
            accepted: numbers.accepted,
            delivered: numbers.delivered,
            cancelled: numbers.cancelled,
            expired: numbers.expired,
            dead: numbers.dead,
            purged: numbers.purged,
            replaced: numbers.replaced,
            pending: numbers.pending(),
        }
    }
}

fn target(kind: &str, n: usize) -> Target {
    let group = n.is_multiple_of(2).then(|| Group::new(format!("user-{}", n % 5)).unwrap());
    Target { id: format!("{kind}-{n}").parse().unwrap(), group }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drained_and_forgotten_nothing_of_any_message_is_left_and_the_books_balance() {
    let scene = Scene::new().await;
    let (orders, later) = (&scene.orders, Duration::from_secs(3600));
    scene.put(|_| Message::new(orders.clone(), "generated")).await;
    scene.put(|n| scene.own(orders, "delivered", n).after(SOON)).await;
    scene.put(|n| scene.own(orders, "buried", n)).await;
    scene.put(|n| scene.own(orders, "replaced", n).after(later)).await;
    scene.put(|n| scene.own(orders, "replaced", n).replace()).await;
    scene.put(|n| scene.own(orders, "delayed", n).after(later)).await;
    scene.put(|n| scene.own(orders, "ready", n)).await;
    scene.put(|n| scene.own(&scene.fleeting, "fleeting", n).after(SOON)).await;
    scene.cancel("delayed").await;
    scene.cancel("ready").await;
    wait_until("what is due to be ready, and what expires to be gone", LONG, || async {
        scene.pump().await;
        let (due, gone) =
            (scene.admin.topic(orders).count().await, scene.books(&scene.fleeting).await.expired);
        (due.unwrap().delayed, gone) == (0, EACH as u64)
    })
    .await;

    let is_buried = |found: &Reservation| found.id.to_string().starts_with("buried");
    let (buried, delivered): (Vec<_>, Vec<_>) = scene.reserve_all().await.into_iter().partition(is_buried);
    let buried: Vec<_> = buried.into_iter().map(|found| (found.receipt, "of no use".to_owned())).collect();
    for settled in Holder::new(scene.client.clone()).bury(&buried).await {
        assert_eq!(settled.unwrap(), Settled::Buried);
    }
    let receipts: Vec<_> = delivered.into_iter().map(|found| found.receipt).collect();
    for settled in Holder::new(scene.client.clone()).ack(&receipts).await {
        assert_eq!(settled.unwrap(), Settled::Delivered);
    }
    let each = EACH as u64;
    let before = scene.books(orders).await;
    assert_eq!((before.dead, before.pending, before.violation()), (each, 0, None));
    scene.admin.topic(orders).purge(PurgeWhat::Dead(TimeRange::ALL), |_| {}).await.unwrap();
    // Past every granted lease, so that no entry has a time any more.
    scene.clock.set_offset_ms(120_000);
    wait_until("all to be forgotten", LONG, || scene.pump()).await;
    assert!(scene.reserve_all().await.is_empty());

    let after = scene.books(orders).await;
    assert_eq!((after.accepted, after.delivered, after.cancelled), (7 * each, 3 * each, 2 * each));
    assert_eq!((after.purged, after.replaced, after.violation()), (each, each, None));
    assert_eq!(scene.books(&scene.fleeting).await.violation(), None);
    let keys: Vec<String> = scene.server.command(&["KEYS", "*"]).await;
    assert_eq!(leftovers(&keys), []);
}
