//! Messages that flow through every shard of a cluster, with their lateness and errors.

use delayq::protocol::{Keys, Owner, ShardId};
use delayq::{Admin, Client, Consumer, ConsumerOptions, Message, Namespace, Producer, ShardCount, Topic};
use delayq_tests::deadline::{LONG, wait_for, within};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

pub(crate) const SHARDS: u16 = 12;
const EVERY: Duration = Duration::from_millis(20);
/// Delay of a redelivery after the node lost the delivery.
const LEASE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Flow {
    put: BTreeMap<String, Instant>,
    delivered: BTreeMap<String, Instant>,
    errors: Vec<(Instant, String)>,
}

type Flows = Arc<Mutex<BTreeMap<u16, Flow>>>;

pub(crate) struct Stream {
    flows: Flows,
    stop: Arc<AtomicBool>,
    producers: Vec<JoinHandle<()>>,
    consumer: JoinHandle<()>,
    timer: JoinHandle<()>,
}

fn topic() -> Topic {
    Topic::new("stream").unwrap()
}

pub(crate) fn slot(shard: u16) -> u16 {
    Keys::new(Namespace::default()).slot(ShardId::new(shard))
}

// === impl Stream ===

impl Stream {
    pub(crate) fn start(client: &Client, producer: &Producer) -> Self {
        let (flows, stop): (Flows, Arc<AtomicBool>) = (Arc::default(), Arc::default());
        let producers = (0..SHARDS).map(|shard| {
            let (flows, stop) = (Arc::clone(&flows), Arc::clone(&stop));
            tokio::spawn(puts(shard, producer.clone(), flows, stop))
        });
        let producers = producers.collect();
        let options = ConsumerOptions::new([topic()]).concurrency(50).lease(LEASE);
        let consumer = Consumer::start(client.clone(), options).unwrap();
        let consumer = tokio::spawn(takes(consumer, Arc::clone(&flows), Arc::clone(&stop)));
        let timer = tokio::spawn(takes_back(Owner::new(client.clone())));
        Self { flows, stop, producers, consumer, timer }
    }

    fn of<T>(&self, shard: u16, read: impl FnOnce(&Flow) -> T) -> T {
        read(self.flows.lock().unwrap().entry(shard).or_default())
    }

    pub(crate) fn delivered(&self, shard: u16) -> usize {
        self.of(shard, |flow| flow.delivered.len())
    }

    pub(crate) fn errors(&self, shard: u16) -> Vec<String> {
        self.of(shard, |flow| flow.errors.iter().map(|(_, error)| error.clone()).collect())
    }

    /// Counts messages whose put was answered in this span.
    pub(crate) fn latest(&self, shard: u16, from: Instant, to: Instant) -> Duration {
        self.of(shard, |flow| {
            let put = flow.put.iter().filter(|(_, at)| (from..=to).contains(*at));
            let late = |id: &String, at: Instant| match flow.delivered.get(id) {
                Some(delivered) => delivered.saturating_duration_since(at),
                None => to.saturating_duration_since(at),
            };
            put.map(|(id, at)| late(id, *at)).max().unwrap_or_default()
        })
    }

    /// Returns the time of the last first delivery after `moment`.
    pub(crate) async fn flows_after(&self, moment: Instant, shards: &[u16]) -> Instant {
        let first = |flow: &Flow| {
            let after = flow.put.iter().filter(|(_, at)| **at > moment);
            after.filter_map(|(id, _)| flow.delivered.get(id).copied()).min()
        };
        wait_for("a message of each shard", LONG, async || {
            let all: Option<Vec<Instant>> = shards.iter().map(|shard| self.of(*shard, first)).collect();
            all?.into_iter().max()
        })
        .await
    }

    pub(crate) async fn stop(self, admin: &Admin) -> (usize, usize) {
        self.stop.store(true, Ordering::Relaxed);
        for producer in self.producers {
            within("a producer to end", LONG, producer).await.unwrap();
        }
        within("all that was answered to be delivered", LONG, self.consumer).await.unwrap();
        self.timer.abort();
        let flows = std::mem::take(&mut *self.flows.lock().unwrap());
        let (mut put, mut errors) = (0, 0);
        for flow in flows.values() {
            put += flow.put.len();
            errors += flow.errors.len();
        }
        let books = admin.topic(&topic()).count().await.unwrap();
        assert!(books.balances() && books.accepted >= put as u64, "{put} answered, {books:?}");
        (put, errors)
    }
}

async fn puts(shard: u16, producer: Producer, flows: Flows, stop: Arc<AtomicBool>) {
    let shards = ShardCount::new(SHARDS).unwrap();
    let ids = (0..).map(|n| format!("stream-{n}"));
    for id in ids.filter(|id| shards.shard_of_name(id).get() == shard) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let message = Message::new(topic(), "x").after(Duration::ZERO).id(&id).unwrap();
        let answer = producer.put(message).await;
        let now = Instant::now();
        {
            let mut flows = flows.lock().unwrap();
            let flow = flows.entry(shard).or_default();
            match answer {
                Ok(_) => _ = flow.put.insert(id, now),
                Err(refused) => {
                    assert!(refused.error.is_outage(), "{}", refused.error);
                    flow.errors.push((now, refused.error.to_string()));
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn takes(mut consumer: Consumer, flows: Flows, stop: Arc<AtomicBool>) {
    let shards = ShardCount::new(SHARDS).unwrap();
    loop {
        // A short wait, so that the loop notices the stop.
        if let Ok(delivery) = tokio::time::timeout(10 * EVERY, consumer.next()).await {
            let (delivery, now) = (delivery.expect("the consumer is not stopped"), Instant::now());
            let id = delivery.id.to_string();
            // A message that cannot be acked now comes again.
            tokio::spawn(delivery.ack());
            let shard = shards.shard_of_name(&id).get();
            flows.lock().unwrap().entry(shard).or_default().delivered.entry(id).or_insert(now);
        } else if stop.load(Ordering::Relaxed) && missing(&flows).is_empty() {
            break;
        }
    }
    consumer.stop().await;
}

async fn takes_back(owner: Owner) {
    let shards: Vec<_> = (0..SHARDS).map(|shard| (ShardId::new(shard), Some(1))).collect();
    loop {
        // The next round covers nodes that did not answer.
        let _ = owner.pump(&shards, 500, None).await;
        tokio::time::sleep(10 * EVERY).await;
    }
}

fn missing(flows: &Flows) -> BTreeSet<String> {
    let flows = flows.lock().unwrap();
    let of = |flow: &Flow| -> Vec<String> {
        flow.put.keys().filter(|id| !flow.delivered.contains_key(*id)).cloned().collect()
    };
    flows.values().flat_map(of).collect()
}
