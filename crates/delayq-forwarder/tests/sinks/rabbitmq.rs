//! The sink `rabbitmq` against a broker that the tests of this process share.

use std::sync::Mutex;

use delayq_forwarder::{RabbitmqConfig, SinkConfig};
use delayq_service::config::Secret;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::Proxy;
use delayq_tests::rabbitmq_server::RabbitmqServer;
use delayq_tests::shared::namespace;
use lapin::options::{BasicGetOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};
use tokio::sync::OnceCell;

use crate::conformance::{Subject, conforms};
use crate::stage::{Seen, Stage, route};

static SERVER: OnceCell<RabbitmqServer> = OnceCell::const_new();

struct Queue {
    proxy: Proxy,
    name: String,
}

async fn server() -> &'static RabbitmqServer {
    SERVER.get_or_init(RabbitmqServer::start).await
}

async fn channel(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    connection.create_channel().await.unwrap()
}

async fn declare(url: &str, name: &str, arguments: &[(&str, AMQPValue)]) {
    let mut table = FieldTable::default();
    for (key, value) in arguments {
        table.insert((*key).into(), value.clone());
    }
    channel(url).await.queue_declare(name.into(), QueueDeclareOptions::durable(), table).await.unwrap();
}

fn sink(address: &str) -> SinkConfig {
    let config = RabbitmqConfig { server: address.parse().unwrap(), ..RabbitmqConfig::default() };
    SinkConfig { rabbitmq: Some(config), ..SinkConfig::default() }
}

/// Takes everything out of a queue.
async fn read(url: &str, name: &str) -> Vec<Seen> {
    let channel = channel(url).await;
    let mut seen = Vec::new();
    while let Some(got) = channel.basic_get(name.into(), BasicGetOptions { no_ack: true }).await.unwrap() {
        let headers = got.properties.headers().clone().unwrap();
        let text = |name: &str| match &headers.inner()[name] {
            AMQPValue::LongString(text) => text.to_string(),
            other => panic!("{name} is {other:?}"),
        };
        assert_eq!(got.properties.delivery_mode(), &Some(2), "not persistent");
        seen.push(Seen {
            destination: name.to_owned(),
            id: text("delayq-id"),
            delivery: text("delayq-delivery").parse().unwrap(),
            body: got.delivery.data.clone(),
        });
    }
    seen
}

impl Subject for Queue {
    async fn start() -> Self {
        let (server, name) = (server().await, namespace());
        declare(&server.url(), &name, &[]).await;
        Self { proxy: Proxy::start(&server.address()), name }
    }

    fn sink(&self) -> SinkConfig {
        sink(&self.proxy.address())
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn destination(&self) -> String {
        self.name.clone()
    }

    async fn seen(&self) -> Vec<Seen> {
        read(&server().await.url(), &self.name).await
    }

    // The server is shared: for this sink it is down when its proxy refuses.
    async fn stop(&mut self) {}

    async fn resume(&mut self) {}
}

conforms!(Queue);

#[tokio::test(flavor = "multi_thread")]
async fn unroutable_messages_are_not_taken_for_delivered_by_their_acks() {
    let (stage, url, name) = (Stage::new().await, server().await.url(), namespace());
    let queue = |n: usize| format!("{name}.{n}");
    for n in (0..40).step_by(2) {
        declare(&url, &queue(n), &[]).await;
    }
    let routes = vec![route("t", "s", &format!("{name}.{{id}}"))];
    let running =
        stage.forward(stage.settings([("s", sink(&server().await.address()))], routes)).await.unwrap();
    stage.put("t", 0, 40, 10).await;
    wait_until("all that has a queue", LONG, || async { stage.numbers("t").await.delivered == 20 }).await;
    // Their queues come late: nothing was lost meanwhile.
    for n in (1..40).step_by(2) {
        declare(&url, &queue(n), &[]).await;
    }
    stage.drained("t").await;
    running.stop().await;
    let mut seen = Vec::new();
    for n in 0..40 {
        seen.extend(read(&url, &queue(n)).await);
    }
    stage.check("t", seen, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_deleted_and_made_again_gets_what_waited() {
    let (stage, subject) = (Stage::new().await, Queue::start().await);
    let url = server().await.url();
    let running = stage
        .forward(stage.settings([("s", subject.sink())], vec![route("t", "s", &subject.name)]))
        .await
        .unwrap();
    stage.put("t", 0, 10, 10).await;
    stage.drained("t").await;
    let mut seen = subject.seen().await;
    channel(&url)
        .await
        .queue_delete(subject.name.as_str().into(), QueueDeleteOptions::default())
        .await
        .unwrap();
    stage.put("t", 10, 50, 10).await;
    wait_until("an open circuit", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
    })
    .await;
    declare(&url, &subject.name, &[]).await;
    stage.drained("t").await;
    running.stop().await;
    seen.extend(subject.seen().await);
    stage.check("t", seen, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_confirms_and_drops_is_refused_by_the_name_of_its_argument() {
    let (stage, url, name) = (Stage::new().await, server().await.url(), namespace());
    let ttl = ("x-message-ttl", AMQPValue::LongInt(60_000));
    for (bounds, expected) in [
        (vec![("x-max-length", AMQPValue::LongInt(10))], Some("x-max-length=10 with drop-head")),
        (
            vec![ttl.clone(), ("x-max-length-bytes", AMQPValue::LongInt(1000))],
            Some("x-max-length-bytes=1000 with drop-head"),
        ),
        (
            vec![
                ttl,
                ("x-max-length", AMQPValue::LongInt(10)),
                ("x-overflow", AMQPValue::LongString("reject-publish".into())),
            ],
            None,
        ),
    ] {
        let queue = format!("{name}.{}", namespace());
        declare(&url, &queue, &bounds).await;
        let settings =
            stage.settings([("s", sink(&server().await.address()))], vec![route("t", "s", &queue)]);
        match (stage.forward(settings).await, expected) {
            (Err(fault), Some(part)) => {
                assert!(fault.to_string().contains(part), "{fault}");
                assert_eq!(fault.exit().code(), 78);
            }
            (Ok(running), None) => running.stop().await,
            (other, _) => panic!("{expected:?}: {:?}", other.err()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_keeps_the_rest_waiting_in_redis() {
    let (stage, url, queue) = (Stage::new().await, server().await.url(), namespace());
    let bounds = [
        ("x-max-length", AMQPValue::LongInt(10)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    declare(&url, &queue, &bounds).await;
    let mut settings =
        stage.settings([("s", sink(&server().await.address()))], vec![route("t", "s", &queue)]);
    settings.sinks.get_mut("s").unwrap().batch = 5;
    let running = stage.forward(settings).await.unwrap();
    stage.put("t", 0, 40, 10).await;
    let seen = Mutex::new(Vec::new());
    wait_until("all of them through a queue of ten", LONG, || async {
        let some = read(&url, &queue).await;
        let mut seen = seen.lock().unwrap();
        seen.extend(some);
        seen.len() == 40
    })
    .await;
    let seen = seen.into_inner().unwrap();
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", seen, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_named_at_start() {
    let stage = Stage::new().await;
    let mut sink = sink(&server().await.address());
    sink.rabbitmq.as_mut().unwrap().password = Some(Secret::plain("hunter2"));
    let Err(fault) = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "q")])).await else {
        panic!("it logged in with a wrong password")
    };
    let text = fault.to_string();
    assert!(text.starts_with("DQ-F002: sinks.s") && text.contains("ACCESS_REFUSED"), "{text}");
    assert!(!text.contains("hunter2"));
}
