//! A power cut: Redis's append-only file holds whole moves up to its end, at any length.

use crate::bare_shard::BareShard;
use crate::snapshot::lossy;
use delayq::protocol::{Holder, Owner, ReserveRequest, Scripts, ShardId, Verb};
use delayq::{Admin, Client, Message, MessageId, Producer, Settled, Target, Topic};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const SHARD: ShardId = ShardId::new(0);
const MESSAGES: usize = 120;
const CUTS: usize = 12;
/// Only a pump ends leases, so a lease runs out only if a cut took its ack.
const LEASE: Duration = Duration::from_millis(100);

pub(crate) fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn target(n: usize) -> Target {
    MessageId::own(format!("order-{n}")).unwrap().into()
}

/// Makes every kind of move, so that a cut may fall into any of them.
pub(crate) async fn moves(client: &Client, producer: &Producer, messages: usize) {
    for n in 0..messages {
        let order = Message::new(topic(), vec![b'x'; 100]).with_id(target(n).id);
        let far = Duration::from_secs(3600);
        let order = if n.is_multiple_of(3) { order.after(far) } else { order.group("user-5").unwrap() };
        // A repeat finds the message of the first put, every sixth cancelled.
        producer.put(order).await.unwrap();
        if n.is_multiple_of(6) {
            producer.cancel(&topic(), &target(n)).await.unwrap();
        }
        if n % 4 == 3 {
            Owner::new(client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0).unwrap();
            work(client, 2).await;
        }
    }
}

pub(crate) async fn work(client: &Client, most: u16) -> usize {
    let request = ReserveRequest { topics: vec![topic()], most, max_bytes: 0, lease: Some(LEASE) };
    let found =
        Holder::new(client.clone()).reserve(&[(SHARD, request.clone())]).await.remove(0).unwrap().messages;
    let count = found.len();
    let mut found = found.into_iter();
    if let Some(first) = found.next() {
        assert_eq!(
            Holder::new(client.clone()).ack(&[first.receipt]).await.remove(0).unwrap(),
            Settled::Delivered
        );
    }
    if let Some(second) = found.next() {
        let buried = Holder::new(client.clone())
            .bury(&[(second.receipt, "of no use".to_owned())])
            .await
            .remove(0)
            .unwrap();
        assert_eq!(buried, Settled::Buried);
    }
    count
}

pub(crate) fn log(server: &RedisServer) -> PathBuf {
    let folder = fs::read_dir(server.folder().join("appendonlydir")).unwrap();
    let parts = folder.map(|part| part.unwrap().path());
    parts.filter(|part| part.to_str().unwrap().ends_with(".incr.aof")).max().unwrap()
}

/// The shard matches its books, and everything is in its place.
async fn check(server: &SharedRedis, admin: &Admin, cut: &str) {
    let numbers = admin.topic(&topic()).count().await.unwrap();
    assert!(numbers.balances(), "{cut}: {numbers:?}");
    let mut shard = BareShard::uncreated(server, "dq", Arc::new(Scripts::published())).await;
    let keys = shard.snapshot().await.keys.clone();
    let bodies: Vec<_> = keys.into_iter().filter(|key| key.starts_with("m:")).collect();
    let found = shard.call(Verb::Audit, &bodies).await.unwrap();
    let found: Vec<String> = found.iter().map(|item| lossy(item)).collect();
    let [delayed, ready, leased, dead] = [numbers.delayed, numbers.ready, numbers.leased, numbers.dead];
    assert_eq!(found[..4], [delayed, ready, leased, dead].map(|count| count.to_string()), "{cut}");
    // This check leaves the queue of a ready message out.
    let findings = &found[5..];
    assert!(findings.chunks(2).all(|pair| pair[0] == "ready"), "{cut}: in no place: {findings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_a_power_cut_ends_the_log_of_redis_the_books_balance_and_everything_is_in_its_place() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    let Deployment { mut server, client, producer, admin } =
        Deployment::on(RedisServer::private_with(RedisOptions::default().append_only("always")).await, 1)
            .await;
    let begun = fs::metadata(log(&server)).unwrap().len();
    moves(&client, &producer, MESSAGES).await;
    for _ in 0..CUTS {
        server.kill().await;
        let log = fs::OpenOptions::new().write(true).open(log(&server)).unwrap();
        let length = log.metadata().unwrap().len();
        let end = dice.u64(length - (length - begun) / 8..length);
        log.set_len(end).unwrap();
        server.resume().await;
        wait_until("the client to be back", LONG, || async { admin.topic(&topic()).count().await.is_ok() })
            .await;
        check(&server, &admin, &format!("cut at byte {end} of {length}")).await;
    }

    // Everything continues: repeated puts add nothing, and all messages finish.
    moves(&client, &producer, MESSAGES).await;
    wait_until("everything that is due to be over", LONG, || async {
        Owner::new(client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0).unwrap();
        let none = work(&client, 2).await == 0;
        let numbers = admin.topic(&topic()).count().await.unwrap();
        none && (numbers.ready, numbers.leased) == (0, 0)
    })
    .await;
    check(&server, &admin, "gone on").await;
}
