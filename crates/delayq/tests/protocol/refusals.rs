//! An unwell Redis refuses calls: no refused call is applied, and the same client continues once Redis recovers.

use delayq::{Error, Fate, Message, MessageId, Producer, Target, Topic};
use delayq_tests::deadline::{LONG, wait_for};
use delayq_tests::deployment::Deployment;
use delayq_tests::environment::{RedisShape, redis_shape};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::remark::skipped;
use redis::aio::MultiplexedConnection;
use std::time::Duration;

/// `code` is the code of Redis's error.
struct Unwell {
    code: &'static str,
    begin: &'static [&'static [&'static str]],
    lasting: &'static [&'static str],
    end: &'static [&'static [&'static str]],
}

const UNWELL: [Unwell; 7] = [
    Unwell {
        code: "READONLY",
        begin: &[&["REPLICAOF", "127.0.0.1", "1"]],
        lasting: &[],
        end: &[&["REPLICAOF", "NO", "ONE"]],
    },
    Unwell {
        code: "NOREPLICAS",
        begin: &[&["CONFIG", "SET", "min-replicas-to-write", "1"]],
        lasting: &[],
        end: &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
    },
    Unwell {
        code: "OOM",
        begin: &[&["CONFIG", "SET", "maxmemory", "1"]],
        lasting: &[],
        end: &[&["CONFIG", "SET", "maxmemory", "0"]],
    },
    Unwell {
        code: "WRONGPASS",
        begin: &[&["CONFIG", "SET", "requirepass", "another"], &["CLIENT", "KILL", "TYPE", "normal"]],
        lasting: &[],
        end: &[&["CONFIG", "SET", "requirepass", PASSWORD]],
    },
    Unwell {
        code: "BUSY",
        begin: &[&["CONFIG", "SET", "busy-reply-threshold", "20"]],
        lasting: &["EVAL", "while true do end", "0"],
        end: &[&["SCRIPT", "KILL"]],
    },
    // Each key takes this many µs to load, while Redis answers other clients.
    Unwell {
        code: "LOADING",
        begin: &[
            &["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"],
            &["CONFIG", "SET", "key-load-delay", "100000"],
        ],
        lasting: &["DEBUG", "RELOAD"],
        end: &[&["CONFIG", "SET", "key-load-delay", "0"]],
    },
    // A folder that cannot be written stands for a full disk: Redis answers both alike. The last case, since
    // the fault stays.
    Unwell {
        code: "MISCONF",
        begin: &[&["CONFIG", "SET", "save", "3600 1"], &["CONFIG", "SET", "dir", "/proc/self"], &["BGSAVE"]],
        lasting: &[],
        end: &[&["CONFIG", "SET", "save", ""]],
    },
];

const PASSWORD: &str = "first";

fn is(error: &Error, wanted: &str) -> bool {
    matches!(error, Error::Redis { code, .. } if code == wanted)
}

async fn all(connection: &mut MultiplexedConnection, commands: &[&[&str]]) {
    for words in commands {
        let done = redis::cmd(words[0]).arg(&words[1..]).query_async::<()>(connection).await;
        done.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }
}

fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn order(id: &str) -> Message {
    let order = Message::new(topic(), vec![b'x'; 300]).id(id).unwrap();
    order.after(Duration::from_secs(3600))
}

/// Puts new messages until Redis refuses one with `code`; returns that message's id. A refused message is not applied.
async fn refused(producer: &Producer, code: &str) -> String {
    let mut number = 0;
    let mut next = || {
        number += 1;
        format!("{code}-{number}")
    };
    wait_for(&format!("a put to be refused with {code}"), LONG, || {
        let id = next();
        async move {
            // If the connection broke, the fate of the first put may be unknown.
            let error = producer.put(order(&id)).await.err()?.error;
            if !is(&error, code) {
                return None;
            }
            assert!(error.fate() == Fate::NotApplied && error.is_outage(), "{error}");
            Some(id)
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_unwell_redis_refuses_is_not_applied_and_the_same_client_goes_on_once_it_is_well() {
    let options = RedisOptions::default().password(PASSWORD).set("enable-protected-configs", "yes");
    let Deployment { server, client: _, producer, admin } =
        Deployment::on(RedisServer::private_with(options).await, 1).await;
    for answer in producer.put_many((0..100).map(|n| order(&n.to_string())).collect()).await {
        answer.unwrap();
    }
    let (mut operator, mut other) = (server.connect().await, server.connect().await);
    for Unwell { code, begin, lasting, end } in UNWELL {
        if code == "READONLY" && redis_shape() == RedisShape::Cluster {
            skipped("READONLY: no node of a Redis Cluster takes REPLICAOF");
            continue;
        }
        all(&mut operator, begin).await;
        let mut lasts = other.clone();
        let lasting = (!lasting.is_empty()).then(|| {
            tokio::spawn(async move {
                let _ = redis::cmd(lasting[0]).arg(&lasting[1..]).query_async::<()>(&mut lasts).await;
            })
        });
        let id = refused(&producer, code).await;
        all(&mut operator, end).await;
        let target = Target::from(MessageId::own(&id).unwrap());
        let there = wait_for(&format!("a look after {code}"), LONG, || async {
            admin.topic(&topic()).get(&target).await.ok()
        })
        .await;
        assert!(there.is_none(), "{code}: {there:?}");
        let put = || async { producer.put(order(&id)).await.ok() };
        let put = wait_for(&format!("a put after {code}"), LONG, put).await;
        assert!(put.outcome.is_accepted(), "{code}: {put:?}");
        if let Some(lasting) = lasting {
            lasting.await.unwrap();
        }
        other = server.connect().await;
    }
    let numbers = admin.topic(&topic()).count().await.unwrap();
    assert!(numbers.balances(), "{numbers:?}");
}
