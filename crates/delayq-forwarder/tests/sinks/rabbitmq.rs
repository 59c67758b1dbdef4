//! The sink `rabbitmq` against a broker shared by the tests of this process.

use crate::conformance::{
    Deletable, Guarded, Mortal, Networked, Subject, conforms, tls_refuses_an_expired_certificate,
    tls_shows_the_certificate_that_is_asked_for, tls_takes_the_private_authority_and_no_other_name,
};
use crate::stage::{Seen, Stage, route};
use delayq_forwarder::{RabbitmqConfig, SinkConfig};
use delayq_service::brokers::RabbitmqAccess;
use delayq_service::config::{Login, Secret};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::Proxy;
use delayq_tests::rabbitmq_server::RabbitmqServer;
use delayq_tests::shared::namespace;
use lapin::options::{BasicGetOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};
use std::sync::Mutex;
use tokio::sync::OnceCell;

static SERVER: OnceCell<(RabbitmqServer, Authority)> = OnceCell::const_new();
/// The only name in the shared server's certificate: the address does not match.
const NAME: &str = "localhost";

struct Queue {
    proxy: Proxy,
    name: String,
}

async fn start() -> (RabbitmqServer, Authority) {
    let authority = Authority::new();
    let server = RabbitmqServer::start_with_tls(&authority.sign("broker", &[NAME])).await;
    (server, authority)
}

async fn server() -> &'static RabbitmqServer {
    &SERVER.get_or_init(start).await.0
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
    let config = RabbitmqConfig {
        access: RabbitmqAccess { server: address.parse().unwrap(), ..RabbitmqAccess::default() },
        ..RabbitmqConfig::default()
    };
    SinkConfig { rabbitmq: Some(config), ..SinkConfig::default() }
}

async fn read(url: &str, name: &str) -> Vec<Seen> {
    read_by(&channel(url).await, name).await
}

async fn read_by(channel: &Channel, name: &str) -> Vec<Seen> {
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
            ready_ms: text("delayq-ready").parse().unwrap(),
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

    fn destination(&self) -> String {
        self.name.clone()
    }

    async fn seen(&self) -> Vec<Seen> {
        read(&server().await.url(), &self.name).await
    }
}

impl Mortal for Queue {
    // The server is shared: a refusing proxy stands for a server that is down.
    async fn stop(&mut self) {
        self.proxy.refuse().await;
    }

    async fn resume(&mut self) {
        self.proxy.accept().await;
    }
}

impl Networked for Queue {
    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

impl Deletable for Queue {
    async fn delete(&self) {
        let channel = channel(&server().await.url()).await;
        channel.queue_delete(self.name.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    }

    async fn create(&self) {
        declare(&server().await.url(), &self.name, &[]).await;
    }
}

impl Guarded for Queue {
    const PASSWORD: &str = "guest";
    const REFUSAL: &str = "ACCESS_REFUSED";

    async fn start_guarded() -> Self {
        Self::start().await
    }

    fn with_password(&self, password: Secret) -> SinkConfig {
        let mut sink = self.sink();
        sink.rabbitmq.as_mut().unwrap().access.login.password = Some(password);
        sink
    }
}

conforms!(Queue:
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
    let (stage, authority) = (Stage::new().await, Authority::new());
    let server = RabbitmqServer::start_with_tls(&authority.expired()).await;
    let mut sink = sink(&format!("127.0.0.1:{}", server.tls_port()));
    let config = sink.rabbitmq.as_mut().unwrap();
    (config.access.tls, config.access.files.ca) = (true, Some(authority.authority()));
    tls_refuses_an_expired_certificate(&stage, "out", sink).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_takes_the_private_authority_and_refuses_another_name() {
    let (stage, (server, authority), queue) =
        (Stage::new().await, SERVER.get_or_init(start).await, namespace());
    declare(&server.url(), &queue, &[]).await;
    let stranger = Authority::new();
    let with = |host: &str, authority: &Authority| {
        let mut sink = sink(&format!("{host}:{}", server.tls_port()));
        let config = sink.rabbitmq.as_mut().unwrap();
        (config.access.tls, config.access.files.ca) = (true, Some(authority.authority()));
        sink
    };
    let sinks = [with(NAME, authority), with(NAME, &stranger), with("127.0.0.1", authority)];
    tls_takes_the_private_authority_and_no_other_name(&stage, &queue, sinks).await;
    stage.check("t", read(&server.url(), &queue).await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_restarts_midway_loses_nothing_that_it_confirmed() {
    let (stage, mut server, queue) = (Stage::new().await, RabbitmqServer::start().await, namespace());
    declare(&server.url(), &queue, &[]).await;
    server.keep_declared().await;
    let mut sink = sink(&server.address());
    (sink.in_flight, sink.batch) = (64, 16);
    let running = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", &queue)])).await.unwrap();
    for (round, kill) in [(0, true), (1, false)] {
        let first = stage.numbers("t").await.delivered;
        stage.put("t", round * 3000, 3000, 100).await;
        wait_until("some deliveries", LONG, || async { stage.numbers("t").await.delivered > first + 50 })
            .await;
        if kill {
            server.kill().await;
        } else {
            server.stop().await;
        }
        server.resume().await;
        // A freshly started broker is slow to log in and confirm on a busy machine.
        wait_until("an empty topic", 4 * LONG, || async { stage.numbers("t").await.pending() == 0 }).await;
    }
    running.stop().await;
    let permit = Permit { duplicates: 2 * 64, ..Permit::default() };
    stage.check("t", read(&server.url(), &queue).await, &permit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_can_never_take_is_buried_and_its_neighbours_pass() {
    let (stage, server, queue) =
        (Stage::new().await, RabbitmqServer::start_with_largest_message(2000).await, namespace());
    declare(&server.url(), &queue, &[]).await;
    let settings = stage.settings([("s", sink(&server.address()))], vec![route("t", "s", &queue)]);
    stage.put("t", 0, 20, 100).await;
    stage.put("t", 20, 1, 5000).await;
    stage.put("t", 21, 20, 100).await;
    let running = stage.forward(settings).await.unwrap();
    stage.drained("t").await;
    running.stop().await;
    let dead = stage.dead("t").await;
    assert_eq!(dead.keys().collect::<Vec<_>>(), ["20"]);
    // Messages published before the broker closed the channel may have arrived without a confirm.
    let permit = Permit { dead_reasons: vec!["larger than".to_owned()], duplicates: 40, ..Permit::default() };
    stage.check("t", read(&server.url(), &queue).await, &permit).await;
}

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
    // The queues appear late: no message was lost meanwhile.
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
async fn a_producers_headers_neither_route_a_message_nor_close_the_channel() {
    let (stage, url, name) = (Stage::new().await, server().await.url(), namespace());
    declare(&url, &name, &[]).await;
    let routes = vec![route("t", "s", "{header.to}")];
    let running =
        stage.forward(stage.settings([("s", sink(&server().await.address()))], routes)).await.unwrap();
    for (id, to) in [("1", name.as_str()), ("2", name.as_str()), ("bad", "amq.rabbitmq.reply-to.g1h2AA")] {
        let message = delayq::Message::new(crate::stage::topic("t"), "x").id(id).unwrap();
        let message = message.header("to", to).header("CC", &name).header("BCC", &name);
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
    }
    stage.drained("t").await;
    running.stop().await;
    assert!(stage.dead("t").await["bad"].contains("reserved for the broker"));
    assert_eq!(read(&url, &name).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_only_publish_starts_with_a_warning_and_delivers() {
    let (stage, server, queue) = (Stage::new().await, server().await, namespace());
    declare(&server.url(), &queue, &[]).await;
    server.add_user(&queue, "open sesame", ["^$", "^amq\\.default$", "^$"]).await;
    let mut sink = sink(&server.address());
    let rabbitmq = sink.rabbitmq.as_mut().unwrap();
    rabbitmq.access.login =
        Login { username: Some(queue.clone()), password: Some(Secret::plain("open sesame")) };
    let settings = stage.settings([("s", sink)], vec![route("t", "s", &queue)]);
    let warnings = stage.look(settings.clone()).await.unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("cannot read the")), "{warnings:?}");
    let running = stage.forward(settings).await.unwrap();
    stage.put("t", 0, 50, 10).await;
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", read(&server.url(), &queue).await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_queue_and_a_stream_of_defaults_are_delivered_to_without_a_warning() {
    let (stage, server) = (Stage::new().await, server().await);
    for kind in ["quorum", "stream"] {
        let queue = namespace();
        declare(&server.url(), &queue, &[("x-queue-type", AMQPValue::LongString(kind.into()))]).await;
        let settings = stage.settings([("s", sink(&server.address()))], vec![route(kind, "s", &queue)]);
        assert_eq!(stage.look(settings.clone()).await.unwrap(), Vec::<String>::new(), "{kind}");
        let running = stage.forward(settings).await.unwrap();
        stage.put(kind, 0, 20, 10).await;
        stage.drained(kind).await;
        running.stop().await;
        wait_until("all of it", LONG, async || server.messages(&queue).await == 20).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_declaration_that_looks_at_a_queue_cannot_make_one() {
    let (url, queue) = (server().await.url(), namespace());
    let mut table = FieldTable::default();
    table.insert("x-queue-leader-locator".into(), AMQPValue::LongString("nowhere".into()));
    let declared =
        channel(&url).await.queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), table).await;
    assert!(declared.is_err(), "{declared:?}");
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let found =
        channel(&url).await.queue_declare(queue.as_str().into(), passive, FieldTable::default()).await;
    assert!(found.is_err(), "it was made");
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
    let (reader, seen) = (channel(&url).await, Mutex::new(Vec::new()));
    wait_until("all of them through a queue of ten", LONG, || async {
        let some = read_by(&reader, &queue).await;
        let mut seen = seen.lock().unwrap();
        seen.extend(some);
        seen.len() >= 40
    })
    .await;
    let seen = seen.into_inner().unwrap();
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", seen, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_shows_the_certificate_that_the_server_asks_for() {
    let (stage, authority, queue) = (Stage::new().await, Authority::new(), namespace());
    let server = RabbitmqServer::start_asking(&authority.server(), &authority.authority()).await;
    declare(&server.url(), &queue, &[]).await;
    let own = authority.sign("forwarder", &["forwarder.test"]);
    let mut without = sink(&format!("127.0.0.1:{}", server.tls_port()));
    let config = without.rabbitmq.as_mut().unwrap();
    (config.access.tls, config.access.files.ca) = (true, Some(authority.authority()));
    let mut with = without.clone();
    let config = with.rabbitmq.as_mut().unwrap();
    (config.access.files.cert, config.access.files.key) = (Some(own.certificate), Some(own.key));
    tls_shows_the_certificate_that_is_asked_for(&stage, &queue, [with, without]).await;
    stage.check("t", read(&server.url(), &queue).await, &Permit::default()).await;
}
