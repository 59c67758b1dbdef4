//! Calls that continue despite full memory, flushed scripts, broken topics and broken messages.

use super::{NOW, SHARD, bare, request, run};
use crate::action::{Action, Item, Reserve};
use delayq::protocol::{Holder, Owner, Verb};
use delayq::{Error, Fate, Message, Settled, Target, Topic};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_oom_a_put_is_refused_whole_and_all_that_drains_goes_on() {
    let Deployment { server, client, producer, admin } = Deployment::on(
        RedisServer::private_with(RedisOptions::default().set("maxmemory-policy", "noeviction")).await,
        1,
    )
    .await;
    let topic = Topic::new("t").unwrap();
    let message = |n: u32| Message::new(topic.clone(), vec![1; 100]).id(format!("id-{n}")).unwrap();
    let far = Duration::from_secs(3600);
    for n in 0..40 {
        producer.put(message(n).after(if n < 10 { far } else { Duration::from_millis(1) })).await.unwrap();
    }
    let () = server.command(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
    let before = admin.topic(&topic).count().await.unwrap();
    let refused = producer.put(message(99)).await.unwrap_err().error;
    assert!(matches!(&refused, Error::Redis { code, .. } if code == "OOM"), "{refused}");
    assert_eq!(refused.fate(), Fate::NotApplied);
    assert_eq!(admin.topic(&topic).count().await.unwrap().accepted, before.accepted);
    for n in 0..10 {
        let target = Target::from(delayq::MessageId::own(format!("id-{n}")).unwrap());
        let soon = delayq::Reschedule::To(delayq::Due::After(Duration::from_millis(1)));
        match n % 2 {
            0 => drop(producer.cancel(&topic, &target).await.unwrap()),
            _ => drop(producer.reschedule(&topic, &target, soon).await.unwrap()),
        }
    }
    let mut delivered = 0;
    while delivered < 35 {
        Owner::new(client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0).unwrap();
        for message in
            Holder::new(client.clone()).reserve(&[(SHARD, request(&topic))]).await.remove(0).unwrap().messages
        {
            assert_eq!(
                Holder::new(client.clone()).ack(&[message.receipt]).await[0].clone().unwrap(),
                Settled::Delivered
            );
            delivered += 1;
        }
    }
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert!(numbers.balances() && numbers.pending() == 0, "{numbers:?}");
    let () = server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert!(producer.put(message(99)).await.unwrap().outcome.is_accepted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_flushed_under_load_lose_and_repeat_nothing() {
    const COUNT: u32 = 600;
    let Deployment { server, client, producer, admin } =
        Deployment::on(RedisServer::private().await, 1).await;
    let topic = Topic::new("t").unwrap();
    let over = AtomicBool::new(false);
    let flush = async {
        while !over.load(Ordering::Relaxed) {
            let () = server.command(&["SCRIPT", "FLUSH"]).await;
        }
    };
    let load = async {
        let (mut put, mut delivered) = (0, std::collections::HashSet::new());
        while (delivered.len() as u32) < COUNT {
            if put < COUNT {
                let message = Message::new(topic.clone(), put.to_string());
                assert!(producer.put(message).await.unwrap().outcome.is_accepted());
                put += 1;
            }
            for message in Holder::new(client.clone())
                .reserve(&[(SHARD, request(&topic))])
                .await
                .remove(0)
                .unwrap()
                .messages
            {
                assert_eq!(
                    Holder::new(client.clone()).ack(&[message.receipt]).await[0].clone().unwrap(),
                    Settled::Delivered
                );
                assert!(delivered.insert(message.envelope.payload));
            }
        }
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(flush, load);
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.delivered), (u64::from(COUNT), u64::from(COUNT)));
}

#[tokio::test]
async fn a_broken_topic_takes_no_message_of_another_with_it() {
    let server = RedisServer::private().await;
    let mut shard = bare(&server).await;
    for topic in ["good", "bad"] {
        let items = vec![Item::new(b"x", NOW)];
        run(&mut shard, &Action::Put { topic: topic.into(), items }).await;
    }
    shard.command(&[b"DEL", b"~r:2"]).await;
    shard.command(&[b"SADD", b"~r:2", b"x"]).await;
    let topics = vec!["good".into(), "bad".into()];
    let both = Action::Reserve(Reserve { topics, most: 10, max_bytes: 0, lease: None });
    let answer = shard.call(Verb::Reserve, &both.args()).await.unwrap();
    assert_eq!(answer[9 + 1], [b"1:x", &shard.snapshot().await.bodies[&(1, b"x".to_vec())][4..8]].concat());
    let why = shard.call(Verb::Reserve, &both.args()).await;
    assert!(why.is_ok_and(|answer| answer[8] == b"0"));
    let alone = Action::Reserve(Reserve::from("bad", 10, None));
    let why = shard.call(Verb::Reserve, &alone.args()).await.unwrap_err();
    assert!(why.starts_with("WRONGTYPE"), "{why}");
}

#[tokio::test]
async fn a_message_that_cannot_be_decoded_is_buried_and_keeps_no_other_back() {
    let Deployment { server, client, producer, admin } =
        Deployment::on(RedisServer::private().await, 1).await;
    let topic = Topic::new("t").unwrap();
    for id in ["good-1", "bad", "good-2"] {
        producer.put(Message::new(topic.clone(), "x").id(id).unwrap().header("name", "v")).await.unwrap();
    }
    // A header value that is not UTF-8, as a client in another language may write.
    let mut body: Vec<u8> = server.command(&["GET", "{dq:0}:m:1:bad"]).await;
    let at = body.len() - 2;
    body[at] = 0xff;
    let mut connection = server.connect().await;
    let () = redis::cmd("SET").arg("{dq:0}:m:1:bad").arg(body).query_async(&mut connection).await.unwrap();
    let report = Holder::new(client.clone()).reserve(&[(SHARD, request(&topic))]).await.remove(0).unwrap();
    assert_eq!((report.messages.len(), report.buried), (2, 1), "{report:?}");
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert_eq!((numbers.leased, numbers.dead, numbers.balances()), (2, 1, true), "{numbers:?}");
}
