//! The sink `nats` against a private server.

use crate::conformance::{
    Deletable, Guarded, Mortal, Networked, Subject, conforms, text, tls_refuses_an_expired_certificate,
    tls_shows_the_certificate_that_is_asked_for, tls_takes_the_private_authority_and_no_other_name,
};
use crate::stage::{Seen, Stage, route};
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use async_nats::{ConnectOptions, jetstream};
use delayq_forwarder::{NatsConfig, SinkConfig};
use delayq_service::brokers::NatsAccess;
use delayq_service::config::{Login, Secret};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::nats_server::NatsServer;
use delayq_tests::proxy::Proxy;
use std::time::Duration;

struct Stream {
    server: NatsServer,
    proxy: Proxy,
}

const USER: &str = "forwarder";

/// A user accepted by guarded servers; other servers ignore the login.
async fn context(server: &NatsServer) -> jetstream::Context {
    let options = ConnectOptions::with_user_and_password(USER.to_owned(), Stream::PASSWORD.to_owned());
    jetstream::new(options.connect(server.url()).await.unwrap())
}

async fn create(server: &NatsServer) {
    create_in(context(server).await).await;
}

async fn create_in(context: jetstream::Context) {
    let config = Config { name: "S".to_owned(), subjects: vec!["out.>".to_owned()], ..Config::default() };
    context.create_stream(config).await.unwrap();
}

/// Creates the stream over TLS.
async fn create_encrypted(server: &NatsServer, options: ConnectOptions, authority: &Authority) {
    let options = options.add_root_certificates(authority.authority()).require_tls(true);
    create_in(jetstream::new(options.connect(server.url()).await.unwrap())).await;
}

fn sink(address: &str) -> SinkConfig {
    let config = NatsConfig {
        access: NatsAccess { servers: vec![format!("nats://{address}")], ..NatsAccess::default() },
        ..NatsConfig::default()
    };
    SinkConfig { nats: Some(config), ..SinkConfig::default() }
}

async fn read(server: &NatsServer, name: &str) -> Vec<Seen> {
    let mut stream = context(server).await.get_stream(name).await.unwrap();
    let state = stream.info().await.unwrap().state.clone();
    let mut seen = Vec::new();
    for sequence in state.first_sequence..=state.last_sequence {
        let Ok(message) = stream.get_raw_message(sequence).await else { continue };
        let text = |name: &str| message.headers.get(name).unwrap().as_str().to_owned();
        seen.push(Seen {
            destination: message.subject.to_string(),
            id: text("delayq-id"),
            delivery: text("delayq-delivery").parse().unwrap(),
            ready_ms: text("delayq-ready").parse().unwrap(),
            body: message.payload.to_vec(),
        });
    }
    seen
}

// === impl Stream ===

impl Stream {
    async fn start_with(arguments: &[&str]) -> Self {
        let server = NatsServer::start(arguments).await;
        create(&server).await;
        let proxy = Proxy::start(&server.address());
        Self { server, proxy }
    }
}

impl Subject for Stream {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    fn sink(&self) -> SinkConfig {
        sink(&self.proxy.address())
    }

    fn destination(&self) -> String {
        "out.x".to_owned()
    }

    async fn seen(&self) -> Vec<Seen> {
        read(&self.server, "S").await
    }
}

impl Mortal for Stream {
    async fn stop(&mut self) {
        self.proxy.refuse().await;
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
        self.proxy.accept().await;
    }
}

impl Networked for Stream {
    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

impl Deletable for Stream {
    async fn delete(&self) {
        context(&self.server).await.delete_stream("S").await.unwrap();
    }

    async fn create(&self) {
        create(&self.server).await;
    }
}

impl Guarded for Stream {
    const PASSWORD: &str = "open sesame";
    const REFUSAL: &str = "authorization violation";

    async fn start_guarded() -> Self {
        Self::start_with(&["--user", USER, "--pass", Self::PASSWORD]).await
    }

    fn with_password(&self, password: Secret) -> SinkConfig {
        let mut sink = self.sink();
        let config = sink.nats.as_mut().unwrap();
        config.access.login = Login { username: Some(USER.to_owned()), password: Some(password) };
        sink
    }
}

conforms!(Stream:
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
async fn a_confirm_that_was_lost_leaves_one_copy_in_the_stream() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "out.x")])).await.unwrap();
    stage.put("t", 0, 10, 10).await;
    stage.drained("t").await;
    for round in 1..=5 {
        subject.proxy.cut_after(delayq_tests::proxy::Direction::Replies, 10);
        stage.put("t", round * 100, 50, 10).await;
        subject.proxy.wait_losses(round as u64).await;
        stage.drained("t").await;
    }
    running.stop().await;
    // The stream deduplicates by Nats-Msg-Id.
    stage.check("t", subject.seen().await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_used_again_is_not_dropped_as_a_duplicate() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let policy =
        delayq::admin::Policy { remember_own: Some(Duration::ZERO), ..delayq::admin::Policy::default() };
    delayq::Admin::new(stage.client.clone())
        .topic(&crate::stage::topic("t"))
        .set_policy(&policy)
        .await
        .unwrap();
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "out.x")])).await.unwrap();
    for _ in 0..2 {
        stage.put("t", 7, 1, 10).await;
        stage.drained("t").await;
    }
    running.stop().await;
    assert_eq!(subject.seen().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_acks_and_drops_is_refused_by_the_name_of_its_setting() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let config = Config {
        name: "D".to_owned(),
        subjects: vec!["drop".to_owned()],
        max_messages: 10,
        discard: DiscardPolicy::Old,
        ..Config::default()
    };
    context(&subject.server).await.create_stream(config).await.unwrap();
    let Err(fault) =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "drop")])).await
    else {
        panic!("it delivers into a stream that drops")
    };
    assert!(fault.to_string().contains("max_msgs=10 with discard=old"), "{fault}");
    let Err(fault) =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "none")])).await
    else {
        panic!("it delivers where no stream is")
    };
    assert!(fault.to_string().contains("no stream takes the subject `none`"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_can_never_take_is_buried_and_its_neighbours_pass() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let config = Config {
        name: "L".to_owned(),
        subjects: vec!["small".to_owned()],
        max_message_size: 2000,
        ..Config::default()
    };
    context(&subject.server).await.create_stream(config).await.unwrap();
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "small")])).await.unwrap();
    stage.put("t", 0, 20, 100).await;
    stage.put("t", 20, 1, 5000).await;
    stage.put("t", 21, 20, 100).await;
    stage.drained("t").await;
    running.stop().await;
    let permit =
        Permit { dead_reasons: vec!["message size exceeds maximum".to_owned()], ..Permit::default() };
    assert_eq!(stage.dead("t").await.keys().collect::<Vec<_>>(), ["20"]);
    stage.check("t", read(&subject.server, "L").await, &permit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_stream_keeps_the_rest_waiting_in_redis() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let config = Config {
        name: "F".to_owned(),
        subjects: vec!["full".to_owned()],
        max_messages: 10,
        discard: DiscardPolicy::New,
        ..Config::default()
    };
    let context = context(&subject.server).await;
    context.create_stream(config.clone()).await.unwrap();
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "full")])).await.unwrap();
    stage.put("t", 0, 30, 10).await;
    wait_until("an open circuit", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
    })
    .await;
    context.update_stream(Config { max_messages: 1000, ..config }).await.unwrap();
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", read(&subject.server, "F").await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producers_id_or_header_reaches_nothing_of_the_servers_own() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let context = context(&subject.server).await;
    let config = Config {
        name: "R".to_owned(),
        subjects: vec!["rolled.>".to_owned()],
        allow_rollup: true,
        ..Config::default()
    };
    context.create_stream(config).await.unwrap();
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "{id}")])).await.unwrap();
    for id in ["rolled.1", "rolled.2", "$JS.API.STREAM.DELETE.S", "$JS.API.STREAM.PURGE.R", "_INBOX.x.1"] {
        let message = delayq::Message::new(crate::stage::topic("t"), "{}").id(id).unwrap();
        let message = message.header("Nats-Rollup", "all").header("nats-msg-id", "same");
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
    }
    stage.drained("t").await;
    running.stop().await;
    let dead = stage.dead("t").await;
    assert_eq!(dead.len(), 3, "{dead:?}");
    assert!(dead.values().all(|reason| reason.contains("is reserved for the server")), "{dead:?}");
    assert!(context.get_stream("S").await.is_ok());
    assert_eq!(read(&subject.server, "R").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_only_publish_starts_with_a_warning_and_delivers() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("server.conf");
    let users = format!(
        "authorization {{ users = [ {{ user: admin, password: admin }}, {{ user: {USER}, password: \"{}\", permissions: \
         {{ publish: [\"out.>\"], subscribe: [\"_INBOX.>\"] }} }} ] }}",
        Stream::PASSWORD
    );
    std::fs::write(&file, users).unwrap();
    let server = NatsServer::start(&["-c", &text(&file)]).await;
    let admin = ConnectOptions::with_user_and_password("admin".into(), "admin".into());
    let admin = jetstream::new(admin.connect(server.url()).await.unwrap());
    let config = Config { name: "S".to_owned(), subjects: vec!["out.>".to_owned()], ..Config::default() };
    let mut stream = admin.create_stream(config).await.unwrap();
    let mut sink = sink(&server.address());
    let nats = sink.nats.as_mut().unwrap();
    (nats.access.login.username, nats.access.login.password) =
        (Some(USER.to_owned()), Some(Secret::plain(Stream::PASSWORD)));
    let settings = stage.settings([("s", sink)], vec![route("t", "s", "out.x")]);
    let warnings = stage.look(settings.clone()).await.unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("cannot read the")), "{warnings:?}");
    let running = stage.forward(settings).await.unwrap();
    stage.put("t", 0, 50, 10).await;
    stage.drained("t").await;
    running.stop().await;
    assert_eq!(stream.info().await.unwrap().state.messages, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_names_a_certificate_that_has_expired() {
    let (stage, authority) = (Stage::new().await, Authority::new());
    let expired = authority.expired();
    let (cert, key) = (text(&expired.certificate), text(&expired.key));
    let server = NatsServer::start(&["--tls", "--tlscert", &cert, "--tlskey", &key]).await;
    let mut sink = sink(&server.address());
    sink.nats.as_mut().unwrap().access.files.ca = Some(authority.authority());
    tls_refuses_an_expired_certificate(&stage, "out", sink).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_takes_the_private_authority_and_refuses_another_name() {
    let (stage, authority, stranger) = (Stage::new().await, Authority::new(), Authority::new());
    let mut servers = Vec::new();
    for certificate in [authority.server(), authority.wrong_name()] {
        let (cert, key) = (text(&certificate.certificate), text(&certificate.key));
        servers.push(NatsServer::start(&["--tls", "--tlscert", &cert, "--tlskey", &key]).await);
    }
    let with = |server: &NatsServer, authority: &Authority| {
        let mut sink = sink(&server.address());
        sink.nats.as_mut().unwrap().access.files.ca = Some(authority.authority());
        sink
    };
    let sinks = [with(&servers[0], &authority), with(&servers[0], &stranger), with(&servers[1], &authority)];
    create_encrypted(&servers[0], ConnectOptions::new(), &authority).await;
    tls_takes_the_private_authority_and_no_other_name(&stage, "out.x", sinks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_shows_the_certificate_that_the_server_asks_for() {
    let (stage, authority) = (Stage::new().await, Authority::new());
    let (server, own) = (authority.server(), authority.sign("forwarder", &["forwarder.test"]));
    let [ca, cert, key] = [&authority.authority(), &server.certificate, &server.key].map(|file| text(file));
    let server =
        NatsServer::start(&["--tlsverify", "--tlscacert", &ca, "--tlscert", &cert, "--tlskey", &key]).await;
    let mut without = sink(&server.address());
    without.nats.as_mut().unwrap().access.files.ca = Some(authority.authority());
    let mut with = without.clone();
    let nats = with.nats.as_mut().unwrap();
    (nats.access.files.cert, nats.access.files.key) = (Some(own.certificate.clone()), Some(own.key.clone()));
    let options = ConnectOptions::new().add_client_certificate(own.certificate, own.key);
    create_encrypted(&server, options, &authority).await;
    tls_shows_the_certificate_that_is_asked_for(&stage, "out.x", [with, without]).await;
}
