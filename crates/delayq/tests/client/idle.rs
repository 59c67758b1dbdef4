//! A Redis that closes idle connections (`timeout`): no call notices.

use delayq::{Admin, Client, Message, Producer, ProducerOptions, Target, Topic, UnixMillis};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::settings;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);

async fn closed(server: &RedisServer) {
    wait_until("idle connections to be closed", LONG, async || {
        server.field("connected_clients").await == "1"
    })
    .await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_that_redis_closed_while_it_was_idle_fails_no_call() {
    let server = RedisServer::private_with(RedisOptions::default().set("timeout", "1")).await;
    let client = Client::new(settings(server.url(), 1));
    let (admin, topic) = (Admin::new(client.clone()), Topic::new("orders").unwrap());
    admin.init().await.unwrap();
    let producer = Producer::start(client, ProducerOptions::default());
    for n in 0..2 {
        let id = format!("own-{n}");
        closed(&server).await;
        producer.put(Message::new(topic.clone(), "x").at(FAR).id(&*id).unwrap()).await.unwrap();
        closed(&server).await;
        producer.cancel(&topic, &Target::from(id.parse::<delayq::MessageId>().unwrap())).await.unwrap();
        closed(&server).await;
        admin.check_server().await.unwrap();
        closed(&server).await;
        assert_eq!(admin.topic(&topic).count().await.unwrap().cancelled, n + 1);
        closed(&server).await;
        admin.audit().run(|_| {}).await.unwrap();
    }
}
