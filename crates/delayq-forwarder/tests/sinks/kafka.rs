//! The sink `kafka` against a shared broker, a proxy for each test; and against a cluster of three.

use crate::conformance::{
    Deletable, Guarded, Mortal, Networked, Subject, conforms, tls_refuses_an_expired_certificate,
    tls_shows_the_certificate_that_is_asked_for, tls_takes_the_private_authority_and_no_other_name,
};
use crate::stage::{Seen, Stage, route, topic};
use delayq::Message;
use delayq_forwarder::{KafkaConfig, RouteConfig, SinkConfig};
use delayq_service::brokers::KafkaAccess;
use delayq_service::config::{HumanDuration, Login, Secret};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::kafka_listener::Listener;
use delayq_tests::kafka_server::KafkaServer;
use delayq_tests::proxy::Proxy;
use delayq_tests::shared::namespace;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;

/// Proxies created with the broker: at least one per test that starts a subject.
const PROXIES: usize = 14;
const USER: &str = "forwarder";

struct Stand {
    server: KafkaServer,
    proxies: Mutex<Vec<Proxy>>,
    authority: Authority,
    guarded: Listener,
    encrypted: Listener,
    misnamed: Listener,
    expired: Listener,
    asking: Listener,
}

struct Records {
    proxy: Proxy,
    topic: String,
    guarded: bool,
}

static STAND: OnceCell<Stand> = OnceCell::const_new();

// === impl Stand ===

impl Stand {
    async fn start() -> Self {
        let authority = Authority::new();
        let (mut listeners, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..PROXIES {
            let listener = Listener::plain();
            let proxy = Proxy::start(&listener.address());
            listeners.push(listener.advertised_as(&proxy.address()));
            proxies.push(proxy);
        }
        let guarded = Listener::plain().login(USER, Records::PASSWORD);
        let encrypted = Listener::plain().certificate(&authority.server());
        let misnamed = Listener::plain().certificate(&authority.wrong_name());
        let expired = Listener::plain().certificate(&authority.expired());
        let asking = Listener::plain().certificate(&authority.server()).asking(&authority.authority());
        listeners.extend([&guarded, &encrypted, &misnamed, &expired, &asking].map(Listener::clone));
        let server = KafkaServer::start_with(&listeners).await;
        Self {
            server,
            proxies: Mutex::new(proxies),
            authority,
            guarded,
            encrypted,
            misnamed,
            expired,
            asking,
        }
    }
}

async fn stand() -> &'static Stand {
    STAND.get_or_init(Stand::start).await
}

fn started() -> &'static Stand {
    STAND.get().expect("the broker is started first")
}

fn admin(address: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", address).create().unwrap()
}

fn patient() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(LONG)).request_timeout(Some(LONG))
}

async fn create(address: &str, topic: &str, replicas: i32, settings: &[(&str, &str)]) {
    let mut new = NewTopic::new(topic, 3, TopicReplication::Fixed(replicas));
    for (name, value) in settings {
        new = new.set(name, value);
    }
    for result in admin(address).create_topics([&new], &patient()).await.unwrap() {
        result.unwrap();
    }
}

fn config(address: &str) -> KafkaConfig {
    let access = KafkaAccess { brokers: vec![address.to_owned()], ..KafkaAccess::default() };
    KafkaConfig { access, ..KafkaConfig::default() }
}

/// A listener with TLS, whose certificate is one of this authority.
fn trusting(address: &str, authority: &Authority) -> KafkaConfig {
    let mut config = config(address);
    (config.access.tls, config.access.files.ca) = (true, Some(authority.authority()));
    config
}

fn sink(config: KafkaConfig) -> SinkConfig {
    SinkConfig { kafka: Some(config), timeout: HumanDuration::from_secs(3), ..SinkConfig::default() }
}

fn read_from(address: &str, topic: &str, more: &[&str]) -> Vec<Seen> {
    let mut kcat = Command::new("kcat");
    kcat.args(["-b", address, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%h|%S|%s\\n"]);
    let output = kcat.args(more).output().unwrap();
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
        let ready_ms = value("delayq-ready").parse().unwrap();
        seen.push(Seen { destination: topic.to_owned(), id, body, delivery, ready_ms });
    }
    seen
}

fn read(address: &str, topic: &str) -> Vec<Seen> {
    read_from(address, topic, &[])
}

impl Subject for Records {
    async fn start() -> Self {
        let (stand, topic) = (stand().await, namespace());
        create(&stand.server.address(), &topic, 1, &[]).await;
        let mut proxies = stand.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        let proxy = proxies.pop().expect("there are proxies for as many tests");
        Self { proxy, topic, guarded: false }
    }

    fn sink(&self) -> SinkConfig {
        sink(config(&self.proxy.address()))
    }

    fn destination(&self) -> String {
        self.topic.clone()
    }

    async fn seen(&self) -> Vec<Seen> {
        read(&started().server.address(), &self.topic)
    }
}

impl Mortal for Records {
    // The broker is shared: a refusing proxy stands for a broker that is down.
    async fn stop(&mut self) {
        self.proxy.refuse().await;
    }

    async fn resume(&mut self) {
        self.proxy.accept().await;
    }
}

impl Networked for Records {
    // The client checks for expired messages once a second.
    const PATIENCE: Duration = Duration::from_secs(2);

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

impl Deletable for Records {
    async fn delete(&self) {
        let admin = admin(&started().server.address());
        for result in admin.delete_topics(&[&self.topic], &patient()).await.unwrap() {
            result.unwrap();
        }
        // The broker answers before forgetting the topic.
        wait_until("the topic to be gone", LONG, || async {
            let metadata = admin.inner().fetch_metadata(None, LONG).unwrap();
            metadata.topics().iter().all(|topic| topic.name() != self.topic)
        })
        .await;
    }

    async fn create(&self) {
        create(&started().server.address(), &self.topic, 1, &[]).await;
    }
}

impl Guarded for Records {
    const PASSWORD: &str = "open sesame";
    const REFUSAL: &str = "Authentication failed";

    async fn start_guarded() -> Self {
        Self { guarded: true, ..Self::start().await }
    }

    fn with_password(&self, password: Secret) -> SinkConfig {
        assert!(self.guarded);
        let mut config = config(&started().guarded.address());
        config.access.mechanism = Some("PLAIN".to_owned());
        config.access.login = Login { username: Some(USER.to_owned()), password: Some(password) };
        sink(config)
    }
}

conforms!(Records:
    everything_arrives_once,
    a_server_that_is_down_at_start_is_named_or_waited_for,
    a_server_that_goes_down_midway_costs_no_message,
    a_lost_confirm_repeats_at_most_what_was_under_way,
    a_group_keeps_its_order_across_failures,
    a_black_hole_is_left_behind_by_deadline,
    a_slow_server_keeps_its_leases,
    a_clean_stop_under_load_loses_and_repeats_nothing,
    a_missing_destination_is_named_or_waited_for,
    a_destination_that_is_deleted_and_made_again_gets_what_waited,
    a_refused_login_is_named_and_mended_without_a_loss,
);

#[tokio::test(flavor = "multi_thread")]
async fn tls_names_a_certificate_that_has_expired() {
    let (stage, stand, topic) = (Stage::new().await, stand().await, namespace());
    create(&stand.server.address(), &topic, 1, &[]).await;
    let config = trusting(&stand.expired.address(), &stand.authority);
    tls_refuses_an_expired_certificate(&stage, &topic, sink(config)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_takes_the_private_authority_and_refuses_another_name() {
    let (stage, stand, topic) = (Stage::new().await, stand().await, namespace());
    create(&stand.server.address(), &topic, 1, &[]).await;
    let stranger = Authority::new();
    let with = |listener: &Listener, authority: &Authority| sink(trusting(&listener.address(), authority));
    let sinks = [
        with(&stand.encrypted, &stand.authority),
        with(&stand.encrypted, &stranger),
        with(&stand.misnamed, &stand.authority),
    ];
    tls_takes_the_private_authority_and_no_other_name(&stage, &topic, sinks).await;
    stage.check("t", read(&stand.server.address(), &topic), &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_can_never_take_is_buried_and_its_neighbours_pass() {
    let (stage, address, topic) = (Stage::new().await, stand().await.server.address(), namespace());
    create(&address, &topic, 1, &[("max.message.bytes", "2000")]).await;
    let settings = stage.settings([("s", sink(config(&address)))], vec![route("t", "s", &topic)]);
    let running = stage.forward(settings).await.unwrap();
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
async fn a_route_says_the_partition_by_number_or_by_a_header() {
    let (stage, address, name) = (Stage::new().await, stand().await.server.address(), namespace());
    create(&address, &name, 1, &[]).await;
    let by = |pattern: &str, partition: &str| RouteConfig {
        partition: Some(partition.parse().unwrap()),
        ..route(pattern, "s", &name)
    };
    let routes = vec![by("fixed", "2"), by("told", "{header.p}"), by("none", "7")];
    let running = stage.forward(stage.settings([("s", sink(config(&address)))], routes)).await.unwrap();
    stage.put("fixed", 0, 10, 10).await;
    for (id, partition) in [("a", Some("0")), ("b", Some("1")), ("c", None), ("d", Some("x"))] {
        let message = Message::new(topic("told"), "body").id(id).unwrap();
        let message = partition.into_iter().fold(message, |message, p| message.header("p", p));
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
    }
    let once = Message::new(topic("none"), "body").id("e").unwrap().max_attempts(1);
    assert!(stage.producer.put(once).await.unwrap().outcome.is_accepted());
    for name in ["fixed", "told", "none"] {
        stage.drained(name).await;
    }
    running.stop().await;
    let in_partition = |n: &str| -> Vec<String> {
        let mut ids: Vec<String> =
            read_from(&address, &name, &["-p", n]).into_iter().map(|seen| seen.id).collect();
        ids.sort();
        ids
    };
    assert_eq!((in_partition("0"), in_partition("1")), (vec!["a".to_owned()], vec!["b".to_owned()]));
    assert_eq!(in_partition("2"), (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    let dead: BTreeMap<String, String> =
        stage.dead("told").await.into_iter().chain(stage.dead("none").await).collect();
    assert_eq!(
        dead["c"],
        "the route's partition `{header.p}` needs {header.p}, which the message does not have"
    );
    assert_eq!(dead["d"], "`x` is not a partition; expected a number from 0");
    assert!(dead["e"].contains("UnknownPartition"), "{}", dead["e"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_freezes_and_dies_loses_nothing_that_it_acked() {
    let (stage, mut server, topic) = (Stage::new().await, KafkaServer::start().await, namespace());
    create(&server.address(), &topic, 1, &[]).await;
    let mut sink = sink(config(&server.address()));
    (sink.in_flight, sink.batch) = (128, 64);
    let running = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", &topic)])).await.unwrap();
    let open = || async { running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0 };
    stage.put("t", 0, 300, 100).await;
    stage.drained("t").await;
    server.freeze();
    stage.put("t", 300, 300, 100).await;
    wait_until("an open circuit", LONG, open).await;
    server.thaw();
    stage.drained("t").await;
    server.kill().await;
    stage.put("t", 600, 300, 100).await;
    wait_until("an open circuit", LONG, open).await;
    server.resume().await;
    stage.drained("t").await;
    running.stop().await;
    let permit = Permit { duplicates: 4 * 128, ..Permit::default() };
    stage.check("t", read(&server.address(), &topic), &permit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_replicas_in_sync_are_waited_for_and_cost_no_message() {
    let (stage, mut cluster, topic) = (Stage::new().await, KafkaServer::start_cluster(3).await, namespace());
    let address = cluster[0].address();
    create(&address, &topic, 3, &[("min.insync.replicas", "3")]).await;
    let mut sink = sink(config(&address));
    (sink.in_flight, sink.batch) = (64, 32);
    let running = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", &topic)])).await.unwrap();
    stage.put("t", 0, 100, 100).await;
    stage.drained("t").await;
    cluster[2].kill().await;
    stage.put("t", 100, 100, 100).await;
    wait_until("an open circuit", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
    })
    .await;
    // Rules out a transient error of the kill: two replicas are in sync, and the topic requires three.
    wait_until("the replicas to be too few", LONG, || async { refused_for_replicas(&address, &topic).await })
        .await;
    assert_eq!((stage.numbers("t").await.pending(), stage.dead("t").await.len()), (100, 0));
    cluster[2].resume().await;
    stage.drained("t").await;
    running.stop().await;
    let permit = Permit { duplicates: 4 * 64, ..Permit::default() };
    stage
        .check("t", read(&address, &topic).into_iter().filter(|seen| seen.id != PROBE).collect(), &permit)
        .await;
}

const PROBE: &str = "probe";

async fn refused_for_replicas(address: &str, topic: &str) -> bool {
    let mut kcat = tokio::process::Command::new("sh");
    let script = format!(
        "echo probe | kcat -b {address} -P -t {topic} -H delayq-id={PROBE} -H delayq-delivery=1 -H delayq-ready=0 -X acks=all -X retries=0"
    );
    let output = kcat.args(["-c", &script]).output().await.unwrap();
    String::from_utf8_lossy(&output.stderr).contains("Not enough in-sync replicas")
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_lose_messages_are_warned_of_by_name() {
    let (address, name) = (stand().await.server.address(), namespace());
    create(&address, &name, 1, &[("cleanup.policy", "compact")]).await;
    let stage = Stage::new().await;
    let settings = stage.settings([("s", sink(config(&address)))], vec![route("t", "s", &name)]);
    let warnings = stage.look(settings).await.unwrap();
    for part in ["has a single replica", "cleanup.policy=compact"] {
        assert!(warnings.iter().any(|warning| warning.contains(part)), "{part}: {warnings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_shows_the_certificate_that_the_server_asks_for() {
    let (stage, stand, topic) = (Stage::new().await, stand().await, namespace());
    create(&stand.server.address(), &topic, 1, &[]).await;
    let own = stand.authority.sign("forwarder", &["forwarder.test"]);
    let without = trusting(&stand.asking.address(), &stand.authority);
    let mut with = without.clone();
    (with.access.files.cert, with.access.files.key) = (Some(own.certificate), Some(own.key));
    tls_shows_the_certificate_that_is_asked_for(&stage, &topic, [with, without].map(sink)).await;
    stage.check("t", read(&stand.server.address(), &topic), &Permit::default()).await;
}
