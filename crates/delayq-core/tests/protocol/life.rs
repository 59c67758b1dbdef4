//! The life of one message, step by step.

use delayq_core::{
    Admin, Client, Message, Numbers, Producer, ProducerOptions, PutOutcome, ReserveRequest, Settings,
    Settled, ShardId, State, Target, Topic,
};
use delayq_tests::redis_server::RedisServer;
use std::time::Duration;

pub(crate) async fn deployment(server: &RedisServer) -> (Client, Producer, Admin) {
    let mut settings = Settings::new(server.url());
    settings.shards = delayq_core::ShardCount::new(1).unwrap();
    let client = Client::new(settings);
    assert_eq!(client.init().await.unwrap(), 1);
    client.check_server().await.unwrap();
    (client.clone(), Producer::start(client.clone(), ProducerOptions::default()), Admin::new(client))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_put_pumped_reserved_and_acked() {
    let server = RedisServer::start().await;
    let (client, producer, admin) = deployment(&server).await;
    let topic = Topic::new("orders").unwrap();
    let put = producer
        .put(Message::new(topic.clone(), "body").after(Duration::from_millis(30)).group("user-5").unwrap())
        .await
        .unwrap();
    let PutOutcome::Stored(due) = put.outcome else { panic!("{put:?}") };
    let listed = admin.get(&topic, &Target::from(put.reference.clone())).await.unwrap().unwrap();
    assert_eq!(listed.envelope.unwrap().state, State::Delayed);
    let shard = ShardId::new(0);
    let report = loop {
        let report = client.pump(shard, Some(1), 500).await.unwrap();
        if report.moved > 0 {
            break report;
        }
        assert!(report.now.millis() < due, "{report:?}");
    };
    assert_eq!(report.runs, [(due, 1)]);
    assert!(report.now.millis() >= due);
    let request = ReserveRequest { topics: vec![topic.clone()], most: 10, most_bytes: 0, lease: None };
    let reserved = client.reserve(shard, &request).await.unwrap();
    assert_eq!(reserved.messages.len(), 1, "{reserved:?}");
    assert_eq!(reserved.messages[0].id, put.reference.id);
    assert_eq!(reserved.messages[0].envelope.payload, b"body");
    let receipt = reserved.messages[0].receipt.clone();
    assert_eq!(client.ack(std::slice::from_ref(&receipt)).await[0].clone().unwrap(), Settled::Delivered);
    assert_eq!(client.ack(&[receipt]).await[0].clone().unwrap(), Settled::Expired);
    let numbers = admin.count(&topic).await.unwrap();
    assert!(numbers.balances(), "{numbers:?}");
    assert_eq!(
        Numbers { accepted: 1, delivered: 1, ..Numbers::default() },
        Numbers { next_due: None, ..numbers }
    );
    let keys: Vec<String> = server.command(&["KEYS", "*"]).await;
    assert_eq!(keys.len(), 4, "{keys:?}");
}
