//! The load: producers and consumers, each with its own client, configured for 4 shards.

use crate::stand::client;
use delayq::{
    Admin, CancelOutcome, Client, Consumer, ConsumerOptions, Due, Group, Message, Producer, ProducerOptions,
    PutOutcome, Reschedule, RescheduleOutcome, Target, Topic, UnixMillis,
};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::history::{Answer, Event, History, sha256_hex};
use delayq_tests::redis_server::SharedRedis;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

const PRODUCERS: usize = 4;
const CONSUMERS: usize = 2;

pub(crate) struct Load {
    shared: Arc<Shared>,
    producers: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
}

struct Shared {
    history: History,
    puts: AtomicUsize,
    stored: AtomicUsize,
    ended: AtomicUsize,
    stopping: AtomicBool,
}

struct Party {
    number: usize,
    client: Client,
    producer: Producer,
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Planned {
    body: String,
    due: UnixMillis,
    message: Message,
}

pub(crate) fn topic() -> Topic {
    Topic::new("notices").unwrap()
}

// === impl Load ===

impl Load {
    pub(crate) async fn start(server: &SharedRedis) -> Self {
        let shared = Arc::new(Shared {
            history: History::new(),
            puts: AtomicUsize::new(0),
            stored: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        });
        let party = |number| {
            let client = client(&server.url(), 4);
            let producer = Producer::start(client.clone(), ProducerOptions::default());
            Party { number, client, producer, shared: Arc::clone(&shared) }
        };
        let producers = (0..PRODUCERS).map(|n| tokio::spawn(party(n).run())).collect();
        let consumer = |_| {
            let consumer =
                Consumer::start(client(&server.url(), 4), ConsumerOptions::new([topic()])).unwrap();
            tokio::spawn(deliver(consumer, Arc::clone(&shared)))
        };
        let consumers = (0..CONSUMERS).map(consumer).collect();
        Self { shared, producers, consumers }
    }

    pub(crate) async fn reaches(&self, puts: usize) {
        wait_until("the puts", LONG, || async { self.shared.puts.load(Ordering::Relaxed) >= puts }).await;
    }

    /// Returns the history once every message is delivered or cancelled.
    pub(crate) async fn drain(self) -> History {
        self.shared.stopping.store(true, Ordering::Relaxed);
        for producer in self.producers {
            producer.await.unwrap();
        }
        let ended =
            || self.shared.ended.load(Ordering::Relaxed) >= self.shared.stored.load(Ordering::Relaxed);
        wait_until("every message to be over", LONG, || async { ended() }).await;
        for consumer in self.consumers {
            consumer.abort();
        }
        self.shared.history.events().into()
    }
}

// === impl Planned ===

impl Planned {
    fn with(mut self, change: impl FnOnce(Message) -> Message) -> Self {
        self.message = change(self.message);
        self
    }
}

// === impl Party ===

impl Party {
    async fn run(self) {
        let (mut turn, mut lasting) = (0, Vec::new());
        let long = Group::new(format!("long-{}", self.number)).unwrap();
        let far = self.now().await + Duration::from_secs(1_000);
        while !self.shared.stopping.load(Ordering::Relaxed) {
            self.turn(turn).await;
            let id = format!("{long}-{turn}");
            let planned =
                self.plan(id.clone(), far).with(|message| message.id(id).unwrap().with_group(long.clone()));
            lasting.push(self.put(planned).await.id.to_string());
            turn += 1;
        }
        // Its messages are from before, between and after the growths.
        let tally = self.producer.cancel_group(&long).await.unwrap();
        assert_eq!((tally.changed, tally.passed), (lasting.len() as u64, 0), "{long}");
        lasting.iter().for_each(|id| self.cancelled(id, true));
    }

    async fn turn(&self, turn: usize) {
        let soon = self.now().await + Duration::from_millis(300);
        let name = |kind: &str| format!("{kind}-{}-{turn}", self.number);
        let own = |kind: &str| self.plan(name(kind), soon).with(|message| message.id(name(kind)).unwrap());
        let group = Group::new(format!("user-{}", turn % 50)).unwrap();
        let grouped = |kind: &str| own(kind).with(|message| message.with_group(group.clone()));
        // Delivered unchanged: an own id, an own id in a group, a generated id, several together.
        let again = [own("plain"), grouped("grouped")];
        for planned in &again {
            self.put(planned.clone()).await;
        }
        self.put(self.plan(name("generated"), soon)).await;
        self.put_many((0..5).map(|n| self.plan(format!("{}-{n}", name("many")), soon)).collect()).await;
        // The repeat may go by another layout than the first put.
        for planned in again {
            let outcome = self.producer.put(planned.message).await.unwrap().outcome;
            assert!(matches!(outcome, PutOutcome::Exists(..)), "{outcome:?}");
        }
        let doomed = self.put(own("doomed")).await;
        self.cancel(doomed).await;
        let moved = Target::in_group(self.put(grouped("moved")).await.id, group.clone());
        self.reschedule(&moved, soon + Duration::from_millis(100)).await;
    }

    fn plan(&self, body: String, due: UnixMillis) -> Planned {
        let message = Message::new(topic(), body.clone()).at(due);
        Planned { body, due, message }
    }

    async fn now(&self) -> UnixMillis {
        let shard = delayq::protocol::ShardId::new(0);
        Admin::new(self.client.clone())
            .shards()
            .overview_of(&[shard])
            .await
            .pop()
            .unwrap()
            .unwrap()
            .now
            .millis()
    }

    async fn put(&self, planned: Planned) -> Target {
        let put = self.producer.put(planned.message).await.unwrap();
        assert!(matches!(put.outcome, PutOutcome::Stored(_) | PutOutcome::Ready(_)), "{put:?}");
        self.stored(&put.reference.id.to_string(), planned.due, &planned.body);
        put.reference.into()
    }

    async fn put_many(&self, planned: Vec<Planned>) {
        let messages = planned.iter().map(|planned| planned.message.clone()).collect();
        for (put, planned) in self.producer.put_many(messages).await.into_iter().zip(planned) {
            self.stored(&put.unwrap().reference.id.to_string(), planned.due, &planned.body);
        }
    }

    fn stored(&self, id: &str, due: UnixMillis, body: &str) {
        self.shared.history.put(id, due.get(), body.as_bytes(), Answer::Ok);
        self.shared.stored.fetch_add(1, Ordering::Relaxed);
        self.shared.puts.fetch_add(1, Ordering::Relaxed);
    }

    async fn cancel(&self, target: Target) {
        let outcome = self.producer.cancel(&topic(), &target).await.unwrap();
        let cancelled = outcome == CancelOutcome::Cancelled;
        assert!(
            cancelled || matches!(outcome, CancelOutcome::Leased | CancelOutcome::Finished(..)),
            "{outcome:?}"
        );
        self.cancelled(&target.id.to_string(), cancelled);
    }

    fn cancelled(&self, id: &str, cancelled: bool) {
        self.shared.history.cancel(id, if cancelled { Answer::Ok } else { Answer::Refused });
        self.shared.ended.fetch_add(usize::from(cancelled), Ordering::Relaxed);
    }

    async fn reschedule(&self, target: &Target, due: UnixMillis) {
        let change = Reschedule::To(Due::At(due));
        let outcome = self.producer.reschedule(&topic(), target, change).await.unwrap();
        let moved = matches!(outcome, RescheduleOutcome::Moved { .. });
        let late = matches!(outcome, RescheduleOutcome::Leased | RescheduleOutcome::Finished(..));
        assert!(moved || late, "{outcome:?}");
        let answer = if moved { Answer::Ok } else { Answer::Refused };
        self.shared.history.reschedule(&target.id.to_string(), due.get(), answer);
    }
}

async fn deliver(mut consumer: Consumer, shared: Arc<Shared>) {
    while let Some(delivery) = consumer.next().await {
        shared.history.record(Event::Delivery {
            destination: "worker".to_owned(),
            id: delivery.id.to_string(),
            sha256: sha256_hex(&delivery.envelope.payload),
            delivery: delivery.envelope.delivery,
            ready_ms: delivery.ready.millis().get(),
        });
        delivery.ack().await.unwrap();
        shared.ended.fetch_add(1, Ordering::Relaxed);
    }
}
