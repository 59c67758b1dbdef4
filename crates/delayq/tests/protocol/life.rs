//! The life of one message, step by step.

use delayq::admin::Numbers;
use delayq::protocol::{Holder, Owner, ReserveRequest, ShardId};
use delayq::{Message, PutOutcome, Settled, State, Target, Topic};
use delayq_tests::deployment::Deployment;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_put_pumped_reserved_and_acked() {
    let Deployment { server, client, producer, admin } = Deployment::new(1).await;
    admin.check_server().await.unwrap();
    let topic = Topic::new("orders").unwrap();
    let put = producer
        .put(Message::new(topic.clone(), "body").after(Duration::from_millis(30)).group("user-5").unwrap())
        .await
        .unwrap();
    let PutOutcome::Stored(due) = put.outcome else { panic!("{put:?}") };
    let listed = admin.topic(&topic).get(&Target::from(put.reference.clone())).await.unwrap().unwrap();
    assert_eq!(listed.envelope.unwrap().state, State::Delayed);
    let shard = ShardId::new(0);
    let report = loop {
        let report = Owner::new(client.clone()).pump(&[(shard, Some(1))], 500, None).await.remove(0).unwrap();
        if report.moved > 0 {
            break report;
        }
        assert!(report.now.millis() < due, "{report:?}");
    };
    assert_eq!(report.runs, [(due, 1)]);
    assert!(report.now.millis() >= due);
    let request = ReserveRequest { topics: vec![topic.clone()], most: 10, max_bytes: 0, lease: None };
    let holder = Holder::new(client);
    let reserved = holder.reserve(&[(shard, request)]).await.remove(0).unwrap();
    assert_eq!(reserved.messages.len(), 1, "{reserved:?}");
    assert_eq!(reserved.messages[0].id, put.reference.id);
    assert_eq!(reserved.messages[0].envelope.payload, b"body");
    let receipt = reserved.messages[0].receipt.clone();
    assert_eq!(holder.ack(std::slice::from_ref(&receipt)).await[0].clone().unwrap(), Settled::Delivered);
    assert_eq!(holder.ack(&[receipt]).await[0].clone().unwrap(), Settled::LeaseLost);
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert!(numbers.balances(), "{numbers:?}");
    assert_eq!(
        Numbers { accepted: 1, delivered: 1, ..Numbers::default() },
        Numbers { next_due: None, ..numbers }
    );
    let keys: Vec<String> = server.command(&["KEYS", "*"]).await;
    assert_eq!(keys.len(), 4, "{keys:?}");
}
