//! The sink `kafka` against a broker of its own. Clients go where the broker says it is, around any proxy: so its faults
//! are those of the broker itself.

use std::process::Command;
use std::time::Duration;

use delayq_forwarder::{KafkaConfig, SinkConfig};
use delayq_service::config::HumanDuration;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::kafka_server::KafkaServer;
use delayq_tests::proxy::Proxy;
use delayq_tests::shared::namespace;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tokio::sync::OnceCell;

use crate::conformance::{Subject, conforms};
use crate::stage::{Seen, Stage, route};

static SERVER: OnceCell<KafkaServer> = OnceCell::const_new();

struct Records {
    proxy: Proxy,
    topic: String,
}

async fn server() -> &'static KafkaServer {
    SERVER.get_or_init(KafkaServer::start).await
}

fn admin(address: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", address).create().unwrap()
}

async fn create(address: &str, topic: &str, settings: &[(&str, &str)]) {
    let mut new = NewTopic::new(topic, 3, TopicReplication::Fixed(1));
    for (name, value) in settings {
        new = new.set(name, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(LONG)).request_timeout(Some(LONG));
    for result in admin(address).create_topics([&new], &options).await.unwrap() {
        result.unwrap();
    }
}

fn sink(address: &str) -> SinkConfig {
    let config = KafkaConfig { brokers: vec![address.to_owned()], ..KafkaConfig::default() };
    SinkConfig { kafka: Some(config), timeout: HumanDuration::from_secs(3), ..SinkConfig::default() }
}

/// Everything that a topic holds, read by kcat: headers, body in hex, one record a line.
fn read(address: &str, topic: &str) -> Vec<Seen> {
    let mut kcat = Command::new("kcat");
    kcat.args(["-b", address, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%h|%S|%s\\n"]);
    let output = kcat.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut rest, mut seen) = (output.stdout.as_slice(), Vec::new());
    while !rest.is_empty() {
        let bar = rest.iter().position(|&byte| byte == b'|').unwrap();
        let headers = String::from_utf8(rest[..bar].to_vec()).unwrap();
        rest = &rest[bar + 1..];
        let bar = rest.iter().position(|&byte| byte == b'|').unwrap();
        let size: usize = std::str::from_utf8(&rest[..bar]).unwrap().parse().unwrap();
        let body = rest[bar + 1..][..size].to_vec();
        rest = &rest[bar + 1 + size + 1..];
        let value = |wanted: &str| {
            let mut pairs = headers.split(',').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == wanted).unwrap().1.to_owned()
        };
        let (id, delivery) = (value("delayq-id"), value("delayq-delivery").parse().unwrap());
        seen.push(Seen { destination: topic.to_owned(), id, body, delivery });
    }
    seen
}

impl Subject for Records {
    async fn start() -> Self {
        let (server, topic) = (server().await, namespace());
        create(&server.address(), &topic, &[]).await;
        Self { proxy: Proxy::start(&server.address()), topic }
    }

    fn sink(&self) -> SinkConfig {
        let Some(server) = SERVER.get() else { panic!("the broker is started first") };
        sink(&server.address())
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn destination(&self) -> String {
        self.topic.clone()
    }

    async fn seen(&self) -> Vec<Seen> {
        read(&server().await.address(), &self.topic)
    }

    async fn stop(&mut self) {}

    async fn resume(&mut self) {}
}

conforms!(Records: everything_arrives_once, a_clean_stop_under_load_loses_and_repeats_nothing);

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_named_at_start_and_waited_for_by_one_who_may() {
    let (stage, address, topic) = (Stage::new().await, server().await.address(), namespace());
    let mut settings = stage.settings([("s", sink(&address))], vec![route("t", "s", &topic)]);
    let Err(fault) = stage.forward(settings.clone()).await else { panic!("it started without its topic") };
    assert!(fault.to_string().contains(&format!("the topic `{topic}` does not exist")), "{fault}");
    settings.sinks.get_mut("s").unwrap().required = false;
    let running = stage.forward(settings).await.unwrap();
    stage.put("t", 0, 50, 10).await;
    wait_until("a failed probe", LONG, || async {
        running.metric("delayq_forwarder_outcomes_total{sink=\"s\",outcome=\"unavailable\"}") >= 1.0
    })
    .await;
    create(&address, &topic, &[]).await;
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", read(&address, &topic), &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_can_never_take_is_buried_and_its_neighbours_pass() {
    let (stage, address, topic) = (Stage::new().await, server().await.address(), namespace());
    create(&address, &topic, &[("max.message.bytes", "2000")]).await;
    let running =
        stage.forward(stage.settings([("s", sink(&address))], vec![route("t", "s", &topic)])).await.unwrap();
    stage.put("t", 0, 20, 100).await;
    stage.drained("t").await;
    stage.put("t", 20, 1, 50_000).await;
    stage.put("t", 21, 20, 100).await;
    stage.drained("t").await;
    running.stop().await;
    let permit = Permit { dead_reasons: vec!["MessageSizeTooLarge".to_owned()], ..Permit::default() };
    assert!(stage.dead("t").await.contains_key("20"));
    stage.check("t", read(&address, &topic), &permit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_freezes_and_dies_loses_nothing_that_it_acked() {
    let (stage, mut server, topic) = (Stage::new().await, KafkaServer::start().await, namespace());
    create(&server.address(), &topic, &[]).await;
    let mut sink = sink(&server.address());
    (sink.in_flight, sink.batch) = (128, 64);
    let running = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", &topic)])).await.unwrap();
    stage.put("t", 0, 300, 100).await;
    stage.drained("t").await;
    server.freeze();
    stage.put("t", 300, 300, 100).await;
    wait_until("an open circuit", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
    })
    .await;
    server.thaw();
    stage.drained("t").await;
    server.kill().await;
    stage.put("t", 600, 300, 100).await;
    wait_until("an open circuit", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
    })
    .await;
    server.resume().await;
    tokio::time::timeout(Duration::from_secs(60), stage.drained("t")).await.unwrap();
    running.stop().await;
    let permit = Permit { duplicates: 4 * 128, ..Permit::default() };
    stage.check("t", read(&server.address(), &topic), &permit).await;
}
