//! Many concurrent callers on one real Redis.

use delayq::protocol::{Holder, Owner, Receipt, Release, ReserveRequest, ShardId};
use delayq::{
    Admin, CancelOutcome, Client, Message, MessageId, Put, PutError, PutOutcome, Settled, Target, Topic,
    UnixMillis,
};
use delayq_tests::deployment::Deployment;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SHARD: ShardId = ShardId::new(0);

fn request(topic: &Topic, most: u16) -> ReserveRequest {
    ReserveRequest { topics: vec![topic.clone()], most, max_bytes: 0, lease: None }
}

async fn now(client: &Client) -> UnixMillis {
    Admin::new(client.clone()).shards().overview_of(&[SHARD]).await.remove(0).unwrap().now.millis()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_pumps_on_one_shard_lose_nothing_and_push_nothing_twice() {
    const COUNT: usize = 20_000;
    let Deployment { server: _server, client, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("storm").unwrap();
    let due = now(&client).await + Duration::from_secs(3);
    let at = |n: usize| due + Duration::from_millis(n as u64 % 50);
    let messages = (0..COUNT).map(|n| Message::new(topic.clone(), n.to_string()).at(at(n))).collect();
    let puts = producer.put_many(messages).await;
    assert!(puts.iter().all(|put| put.as_ref().is_ok_and(|put| put.outcome.is_accepted())));
    // On a busy machine the last messages are due when put, and ready at once.
    let stored = |put: &Result<Put, PutError>| matches!(put, Ok(Put { outcome: PutOutcome::Stored(_), .. }));
    let pending = puts.iter().filter(|put| stored(put)).count() as u64;
    assert!(pending > 0);
    let moved = AtomicU64::new(0);
    let pump = || async {
        while moved.load(Ordering::Relaxed) < pending {
            let report =
                Owner::new(client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0).unwrap();
            moved.fetch_add(report.moved, Ordering::Relaxed);
        }
    };
    tokio::join!(pump(), pump(), pump(), pump());
    assert_eq!(moved.into_inner(), pending);
    let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
    loop {
        let reserved =
            Holder::new(client.clone()).reserve(&[(SHARD, request(&topic, 500))]).await.remove(0).unwrap();
        assert_eq!(reserved.dropped, 0);
        if reserved.messages.is_empty() {
            break;
        }
        for message in &reserved.messages {
            *seen.entry(message.envelope.payload.clone()).or_default() += 1;
            assert!(message.ready.millis() >= message.envelope.due, "early: {message:?}");
        }
        let receipts: Vec<Receipt> = reserved.messages.into_iter().map(|message| message.receipt).collect();
        Holder::new(client.clone()).ack(&receipts).await;
    }
    assert_eq!((seen.len(), seen.values().max()), (COUNT, Some(&1)));
    assert!(admin.topic(&topic).count().await.unwrap().balances());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_workers_on_one_receipt_one_settles_it() {
    let Deployment { server: _server, client, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    for round in 0..200 {
        producer.put(Message::new(topic.clone(), "x")).await.unwrap();
        let reserved =
            Holder::new(client.clone()).reserve(&[(SHARD, request(&topic, 1))]).await.remove(0).unwrap();
        let receipt = reserved.messages[0].receipt.clone();
        let other = client.clone();
        let release = Release {
            receipt: receipt.clone(),
            delay: Some(Duration::from_secs(3600)),
            keep_attempt: false,
            reason: String::new(),
        };
        let (one, two) = tokio::join!(
            async {
                let receipts = [receipt.clone()];
                Holder::new(client.clone()).ack(&receipts).await.remove(0).unwrap()
            },
            async {
                match round % 2 {
                    0 => Holder::new(other.clone()).release(&[release]).await.remove(0).unwrap(),
                    _ => Holder::new(other.clone())
                        .ack(std::slice::from_ref(&receipt))
                        .await
                        .remove(0)
                        .unwrap(),
                }
            }
        );
        let lost = [&one, &two].into_iter().filter(|settled| **settled == Settled::LeaseLost).count();
        assert_eq!(lost, 1, "{one:?}, {two:?}");
    }
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert!(numbers.balances() && numbers.leased == 0, "{numbers:?}");
}

#[derive(Default)]
struct Tally {
    accepted: AtomicU64,
    cancelled: AtomicU64,
    delivered: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_put_again_pump_and_reserve_never_deliver_what_was_cancelled() {
    let Deployment { server: _server, client, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let (over, tally) = (AtomicBool::new(false), Arc::new(Tally::default()));
    // The payload of each life of an id is its number.
    let cancelled: Mutex<Vec<String>> = Mutex::default();
    let delivered: Mutex<Vec<String>> = Mutex::default();
    let lives = |id: usize| {
        let (producer, topic, tally, cancelled) = (producer.clone(), topic.clone(), &tally, &cancelled);
        async move {
            let target = Target::from(MessageId::own(format!("id-{id}")).unwrap());
            for life in 0..150 {
                let payload = format!("{id}/{life}");
                let message = Message::new(topic.clone(), payload.clone())
                    .with_id(target.id.clone())
                    .after(Duration::from_millis(life % 4))
                    .replace();
                if !producer.put(message).await.unwrap().outcome.is_accepted() {
                    continue;
                }
                tally.accepted.fetch_add(1, Ordering::Relaxed);
                if producer.cancel(&topic, &target).await.unwrap() == CancelOutcome::Cancelled {
                    tally.cancelled.fetch_add(1, Ordering::Relaxed);
                    cancelled.lock().unwrap().push(payload);
                }
            }
        }
    };
    let pump = async {
        while !over.load(Ordering::Relaxed) {
            Owner::new(client.clone()).pump(&[(SHARD, Some(1))], 7, None).await.remove(0).unwrap();
        }
    };
    let work = || async {
        loop {
            let last = over.load(Ordering::Relaxed);
            let reserved =
                Holder::new(client.clone()).reserve(&[(SHARD, request(&topic, 3))]).await.remove(0).unwrap();
            let none = reserved.messages.is_empty();
            for message in reserved.messages {
                if Holder::new(client.clone()).ack(&[message.receipt]).await[0].clone().unwrap()
                    == Settled::Delivered
                {
                    tally.delivered.fetch_add(1, Ordering::Relaxed);
                    delivered.lock().unwrap().push(String::from_utf8(message.envelope.payload).unwrap());
                }
            }
            if last && none {
                return;
            }
        }
    };
    let all = async {
        futures_util::future::join_all((0..12).map(lives)).await;
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(all, pump, work(), work());
    let delivered = delivered.into_inner().unwrap();
    let unique: std::collections::HashSet<&String> = delivered.iter().collect();
    assert_eq!(unique.len(), delivered.len(), "delivered twice");
    let both: Vec<_> =
        cancelled.into_inner().unwrap().into_iter().filter(|life| unique.contains(life)).collect();
    assert!(both.is_empty(), "cancelled and delivered: {both:?}");
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert!(numbers.balances(), "{numbers:?}");
    assert_eq!(numbers.accepted, tally.accepted.load(Ordering::Relaxed));
    assert_eq!(numbers.delivered, tally.delivered.load(Ordering::Relaxed));
}
