//! Slots that move under load.

use crate::redis_cluster::scene::{FAR, SHARDS, elsewhere, id_in, message, put_on, slot, stored};
use delayq::{Error, Fate, Producer, ProducerOptions, PutOutcome};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_there_and_back_under_load_lose_nothing_and_double_nothing() {
    let cluster = RedisCluster::start().await;
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = (0..4)
        .map(|n| {
            let producer = if n == 0 {
                producer.clone()
            } else {
                Producer::start(client.apart(), ProducerOptions::default())
            };
            tokio::spawn(put_on(producer, Arc::clone(&stop)))
        })
        .collect();
    // All four producers put the same ids: three of four answers are `Exists`, or the message is doubled.
    for _ in 0..2 {
        for shard in 0..SHARDS {
            cluster.move_slot(slot(shard), elsewhere(&cluster, shard).await).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (mut put, mut stored_first) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for load in loads {
        let (accepted, refused) = within("the load to end", LONG, load).await.unwrap();
        for (id, outcome) in accepted {
            *stored_first.entry(id.clone()).or_default() += usize::from(outcome == PutOutcome::Stored(FAR));
            put.insert(id);
        }
        for error in refused {
            assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, true), "{error}");
        }
    }
    assert!(put.len() > 100, "only {} puts while slots moved", put.len());
    assert!(stored_first.values().all(|&count| count == 1), "one call of each id stores it");
    let found = stored(&cluster).await;
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), put);
    assert!(found.values().all(|&count| count == 1));
    let audit = admin.audit().run(|_| {}).await.unwrap();
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");
}

#[tokio::test]
async fn a_shard_on_the_move_is_refused_and_the_others_go_on() {
    let cluster = RedisCluster::start().await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let to = elsewhere(&cluster, 3).await;
    let from = cluster.begin_move(slot(3), to).await;
    let both = vec![message(&id_in(3, "a")), message(&id_in(4, "a"))];
    let answers = producer.put_many(both).await;
    let error = &answers[0].as_ref().unwrap_err().error;
    assert!(matches!(error, Error::Redis { code, .. } if code == "TRYAGAIN"), "{error}");
    assert_eq!(answers[1].as_ref().unwrap().outcome, PutOutcome::Stored(FAR));
    while cluster.carry(slot(3), from, to).await > 0 {}
    let error = producer.put(message(&id_in(3, "b"))).await.unwrap_err().error;
    assert!(matches!(&error, Error::Redis { code, .. } if code == "ASK"), "{error}");
    assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, true));
    cluster.end_move(slot(3), from, to).await;
    let put = producer.put(message(&id_in(3, "b"))).await.unwrap();
    assert_eq!(put.outcome, PutOutcome::Stored(FAR), "it follows the redirection");
}
