//! A load on the shard, in a topic of its own.

use super::scene::{SHARD, Scene, own};
use delayq::protocol::{Holder, Owner, ReserveRequest};
use delayq::{Client, Message, Producer, Settled, Topic};
use delayq_tests::deadline::{LONG, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Audits fall between the rounds.
const ROUNDS: u64 = 20;

pub(super) struct Load {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

// === impl Load ===

impl Load {
    pub(super) fn start(scene: &Scene) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (client, producer) = (scene.client.clone(), scene.producer.clone());
        let task = {
            let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    one_round(&client, &producer, rounds.fetch_add(1, Ordering::Relaxed)).await;
                }
            })
        };
        Self { stop, rounds, task }
    }

    pub(super) async fn turns(&self) {
        let until = self.rounds.load(Ordering::Relaxed) + ROUNDS;
        wait_until("the load to turn", LONG, || async { self.rounds.load(Ordering::Relaxed) >= until }).await;
    }

    pub(super) async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

async fn one_round(client: &Client, producer: &Producer, round: u64) {
    let topic = Topic::new("load").unwrap();
    let message = |n: u64| {
        let own = Message::new(topic.clone(), "x").with_id(own(&format!("load-{round}-{n}")));
        let own = if n.is_multiple_of(2) { own.group("crowd").unwrap() } else { own };
        if n.is_multiple_of(3) { own.after(Duration::from_millis(5)) } else { own }
    };
    for put in producer.put_many((0..20).map(message).collect()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
    producer.cancel(&topic, &own(&format!("load-{round}-1")).into()).await.unwrap();
    Owner::new(client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0).unwrap();
    let request = ReserveRequest { topics: vec![topic], most: 25, max_bytes: 0, lease: None };
    let found =
        Holder::new(client.clone()).reserve(&[(SHARD, request.clone())]).await.remove(0).unwrap().messages;
    let receipts: Vec<_> = found.into_iter().map(|found| found.receipt).collect();
    let (given_back, acked) = receipts.split_at(receipts.len() / 4);
    let release = |receipt: &delayq::protocol::Receipt| delayq::protocol::Release {
        receipt: receipt.clone(),
        delay: Some(Duration::ZERO),
        keep_attempt: true,
        reason: String::new(),
    };
    let holder = Holder::new(client.clone());
    holder.release(&given_back.iter().map(release).collect::<Vec<_>>()).await;
    for settled in holder.ack(acked).await {
        assert_eq!(settled.unwrap(), Settled::Delivered);
    }
}
