//! The sink `sqs`, against ElasticMQ.

use crate::conformance::{Deletable, Mortal, Networked, Subject, conforms};
use crate::stage::{Seen, Stage, route};
use delayq_forwarder::SinkConfig;
use delayq_service::brokers::SqsAccess;
use delayq_service::config::Secret;
use delayq_tests::invariants::Permit;
use delayq_tests::lent::Lent;
use delayq_tests::proxy::Proxy;
use delayq_tests::sqs_server::SqsServer;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

struct Queue {
    server: Lent<SqsServer>,
    proxy: Proxy,
}

const QUEUE: &str = "out";

fn sink(address: &str) -> SinkConfig {
    let config = SqsAccess {
        endpoint: Some(format!("http://{address}")),
        access_key: Some("x".to_owned()),
        secret_key: Some(Secret::plain("y")),
        ..SqsAccess::default()
    };
    SinkConfig { sqs: Some(config), ..SinkConfig::default() }
}

/// The headers of a message, in the form that the guide describes.
fn header(message: &Value, name: &str) -> Option<String> {
    let attributes = &message["MessageAttributes"];
    if let Some(text) = attributes[name]["StringValue"].as_str() {
        return Some(text.to_owned());
    }
    let rest: Vec<(String, String)> =
        serde_json::from_str(attributes["delayq-more-headers"]["StringValue"].as_str()?).unwrap();
    rest.into_iter().find(|(own, _)| own == name).map(|(_, value)| value)
}

fn body(message: &Value) -> Vec<u8> {
    use base64::Engine as _;
    let text = message["Body"].as_str().unwrap();
    match message["MessageAttributes"]["delayq-encoding"]["StringValue"].as_str() {
        None => text.into(),
        Some("empty") => Vec::new(),
        Some(encoding) => {
            assert_eq!(encoding, "base64");
            base64::engine::general_purpose::STANDARD.decode(text).unwrap()
        }
    }
}

async fn read(server: &SqsServer, queue: &str) -> Vec<Seen> {
    let mut seen = Vec::new();
    loop {
        let some = server.take(queue).await;
        if some.is_empty() {
            return seen;
        }
        seen.extend(some.iter().map(|message| Seen {
            destination: queue.to_owned(),
            id: header(message, "delayq-id").unwrap(),
            delivery: header(message, "delayq-delivery").unwrap().parse().unwrap(),
            ready_ms: header(message, "delayq-ready").unwrap().parse().unwrap(),
            body: body(message),
        }));
    }
}

// === impl Queue ===

impl Subject for Queue {
    async fn start() -> Self {
        let server = Lent::take(SqsServer::start).await;
        server.create_queue(QUEUE, json!({})).await;
        let proxy = Proxy::start(&server.address());
        Self { server, proxy }
    }

    fn sink(&self) -> SinkConfig {
        sink(&self.proxy.address())
    }

    fn destination(&self) -> String {
        QUEUE.to_owned()
    }

    async fn seen(&self) -> Vec<Seen> {
        read(&self.server, QUEUE).await
    }
}

impl Mortal for Queue {
    async fn stop(&mut self) {
        self.proxy.refuse().await;
    }

    async fn resume(&mut self) {
        self.proxy.accept().await;
    }
}

impl Networked for Queue {
    const PATIENCE: Duration = Duration::from_secs(2);

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

impl Deletable for Queue {
    async fn delete(&self) {
        self.server.delete_queue(QUEUE).await;
    }

    async fn create(&self) {
        self.server.create_queue(QUEUE, json!({})).await;
    }
}

conforms!(Queue:
    everything_arrives_once,
    a_server_that_is_down_at_start_is_named_or_waited_for,
    a_server_that_goes_down_midway_costs_no_message,
    a_lost_confirm_repeats_at_most_what_was_under_way,
    a_black_hole_is_left_behind_by_deadline,
    a_slow_server_keeps_its_leases,
    a_clean_stop_under_load_loses_and_repeats_nothing,
    a_missing_destination_is_named_or_waited_for,
    a_destination_that_is_deleted_and_made_again_gets_what_waited,
);

#[tokio::test(flavor = "multi_thread")]
async fn what_the_queue_can_never_take_is_buried_and_its_neighbours_pass() {
    let (stage, subject) = (Stage::new().await, Queue::start().await);
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", QUEUE)])).await.unwrap();
    stage.put("t", 0, 5, 100).await;
    // In Base64 it is larger than a queue takes.
    stage.put_bodies("t", vec![("5".into(), vec![0xff; 200_000])]).await;
    stage.put("t", 6, 5, 100).await;
    stage.drained("t").await;
    running.stop().await;
    let permit = Permit { dead_reasons: vec!["MessageTooLong".to_owned()], ..Permit::default() };
    assert_eq!(stage.dead("t").await.keys().collect::<Vec<_>>(), ["5"]);
    stage.check("t", subject.seen().await, &permit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_many_headers_keeps_all_of_them() {
    let (stage, subject) = (Stage::new().await, Queue::start().await);
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", QUEUE)])).await.unwrap();
    let mut message = delayq::Message::new(crate::stage::topic("t"), "{}").id("a").unwrap();
    for n in 0..20 {
        message = message.header(format!("x-{n}"), format!("value {n}"));
    }
    assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
    stage.drained("t").await;
    running.stop().await;
    let found = subject.server.take(QUEUE).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["MessageAttributes"].as_object().unwrap().len(), 10);
    assert_eq!(header(&found[0], "delayq-topic").as_deref(), Some("t"));
    for n in 0..20 {
        assert_eq!(header(&found[0], &format!("x-{n}")), Some(format!("value {n}")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_queue_takes_each_message_of_a_group_and_an_id_that_is_used_again() {
    let (stage, subject) = (Stage::new().await, Queue::start().await);
    subject.server.create_queue("out.fifo", json!({})).await;
    let running = stage
        .forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "out.fifo")]))
        .await
        .unwrap();
    let policy =
        delayq::admin::Policy { remember_own: Some(Duration::ZERO), ..delayq::admin::Policy::default() };
    let admin = delayq::Admin::new(stage.client.clone());
    admin.topic(&crate::stage::topic("t")).set_policy(&policy).await.unwrap();
    // The same id and body, put again after the end of the first.
    for _ in 0..2 {
        let message = delayq::Message::new(crate::stage::topic("t"), "{}").id("a").unwrap();
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
        stage.drained("t").await;
    }
    let grouped = |n: usize| {
        let mut message =
            delayq::Message::new(crate::stage::topic("t"), n.to_string()).id(n.to_string()).unwrap();
        message.group = Some(delayq::Group::new("one group").unwrap());
        message
    };
    for answer in stage.producer.put_many((0..20).map(grouped).collect()).await {
        assert!(answer.unwrap().outcome.is_accepted());
    }
    stage.drained("t").await;
    running.stop().await;
    let seen = read(&subject.server, "out.fifo").await;
    let bodies: BTreeSet<Vec<u8>> = seen.iter().map(|seen| seen.body.clone()).collect();
    assert_eq!((seen.len(), bodies.len()), (22, 21));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_lose_or_delay_are_warned_of() {
    let (stage, subject) = (Stage::new().await, Queue::start().await);
    subject.server.create_queue("late", json!({ "DelaySeconds": "5" })).await;
    let warnings =
        stage.look(stage.settings([("s", subject.sink())], vec![route("t", "s", "late")])).await.unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("DelaySeconds=5")), "{warnings:?}");
}
