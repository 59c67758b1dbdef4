//! The sink `redis` against a private Redis.

use crate::conformance::{
    Guarded, Mortal, Networked, Subject, conforms, tls_refuses_an_expired_certificate,
    tls_shows_the_certificate_that_is_asked_for, tls_takes_the_private_authority_and_no_other_name,
};
use crate::stage::{Seen, Stage, record, route};
use delayq::protocol::Keys;
use delayq_forwarder::{Element, RedisForm, RedisSinkConfig, SinkConfig};
use delayq_service::config::{Login, PemFiles, RedisConfig, Secret};
use delayq_tests::certs::{Authority, Certificate};
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::Proxy;
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis};
use std::collections::BTreeMap;

struct Stream {
    server: RedisServer,
    proxy: Proxy,
}

type Entry = (String, BTreeMap<String, Vec<u8>>);

// === impl Stream ===

impl Stream {
    async fn start_with(options: RedisOptions) -> Self {
        let server = RedisServer::start_with(options.append_only("always")).await;
        let proxy = Proxy::start(&server.address());
        Self { server, proxy }
    }
}

fn sink(redis: RedisConfig) -> SinkConfig {
    let config = RedisSinkConfig { server: Some(redis), ..RedisSinkConfig::default() };
    SinkConfig { redis: Some(config), ..SinkConfig::default() }
}

impl Subject for Stream {
    async fn start() -> Self {
        Self::start_with(RedisOptions::default()).await
    }

    fn sink(&self) -> SinkConfig {
        sink(at(&self.proxy))
    }

    fn destination(&self) -> String {
        "out".to_owned()
    }

    async fn seen(&self) -> Vec<Seen> {
        read(&self.server, "out").await
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

impl Guarded for Stream {
    const PASSWORD: &str = PASSWORD;
    const REFUSAL: &str = "Password authentication failed";

    async fn start_guarded() -> Self {
        Self::start_with(RedisOptions::default().password(PASSWORD)).await
    }

    fn with_password(&self, password: Secret) -> SinkConfig {
        sink(RedisConfig { login: Login { password: Some(password), ..Login::default() }, ..at(&self.proxy) })
    }
}

const PASSWORD: &str = "open-sesame";

fn at(proxy: &Proxy) -> RedisConfig {
    RedisConfig { url: format!("redis://{}", proxy.address()).parse().unwrap(), ..RedisConfig::default() }
}

/// A Redis with this certificate, which may require client certificates, and its URL.
async fn encrypted(
    certificate: &Certificate,
    authority: &Authority,
    asks: bool,
) -> (RedisServer, RedisConfig) {
    let server = RedisServer::start_with(RedisOptions::default().tls(certificate, authority, asks)).await;
    let url = server.tls_url().parse().unwrap();
    let files = PemFiles { ca: Some(authority.authority()), ..PemFiles::default() };
    let config = RedisConfig { url, files, ..RedisConfig::default() };
    (server, config)
}

async fn read(server: &SharedRedis, key: &str) -> Vec<Seen> {
    let entries: Vec<Entry> = server.command(&["XRANGE", key, "-", "+"]).await;
    let text =
        |fields: &BTreeMap<String, Vec<u8>>, name: &str| String::from_utf8(fields[name].clone()).unwrap();
    let seen = |(_, fields): Entry| Seen {
        destination: key.to_owned(),
        id: text(&fields, "delayq-id"),
        delivery: text(&fields, "delayq-delivery").parse().unwrap(),
        ready_ms: text(&fields, "delayq-ready").parse().unwrap(),
        body: fields["payload"].clone(),
    };
    entries.into_iter().map(seen).collect()
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
    a_refused_login_is_named_and_mended_without_a_loss,
);

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_carries_headers_and_mapped_fields() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let mut sink = subject.sink();
    sink.redis.as_mut().unwrap().fields = BTreeMap::from([
        ("who".to_owned(), "{topic}/{id}".parse().unwrap()),
        ("none".to_owned(), "{group}".parse().unwrap()),
    ]);
    let running =
        stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "{topic}.out")])).await.unwrap();
    stage.put("t", 7, 1, 10).await;
    stage.drained("t").await;
    running.stop().await;
    let entries: Vec<Entry> = subject.server.command(&["XRANGE", "t.out", "-", "+"]).await;
    let (_, fields) = &entries[0];
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "delayq-attempt",
            "delayq-delivery",
            "delayq-due",
            "delayq-id",
            "delayq-late-ms",
            "delayq-ready",
            "delayq-topic",
            "payload",
            "traceparent",
            "who"
        ]
    );
    assert_eq!((&fields["who"][..], &fields["traceparent"][..]), (&b"t/7"[..], &b"00-trace"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_the_wrong_type_does_not_keep_its_neighbours() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let _: String = subject.server.command(&["SET", "s.3", "a string"]).await;
    let running = stage
        .forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "s.{id}")]))
        .await
        .unwrap();
    stage.put("t", 0, 8, 10).await;
    wait_until("seven deliveries", SHORT, || async { stage.numbers("t").await.delivered == 7 }).await;
    let _: i64 = subject.server.command(&["DEL", "s.3"]).await;
    stage.drained("t").await;
    running.stop().await;
    let mut seen = Vec::new();
    for n in 0..8 {
        seen.extend(read(&subject.server, &format!("s.{n}")).await);
    }
    stage.check("t", seen, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_takes_records_or_payloads_at_the_end_that_consumers_wait_at() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let _: String = subject.server.command(&["SET", "list.3", "a string"]).await;
    let sink = |form, element| {
        let config =
            RedisSinkConfig { server: Some(at(&subject.proxy)), form, element, ..RedisSinkConfig::default() };
        SinkConfig { redis: Some(config), ..SinkConfig::default() }
    };
    let sinks = [
        ("records", sink(RedisForm::List, Element::Record)),
        ("left", sink(RedisForm::ListLeft, Element::Payload)),
    ];
    let routes = vec![route("t", "records", "list.{id}"), route("left", "left", "left")];
    let running = stage.forward(stage.settings(sinks, routes)).await.unwrap();
    stage.put("t", 0, 8, 10).await;
    wait_until("seven deliveries", SHORT, || async { stage.numbers("t").await.delivered == 7 }).await;
    let _: i64 = subject.server.command(&["DEL", "list.3"]).await;
    stage.drained("t").await;
    let mut seen = Vec::new();
    for n in 0..8 {
        let key = format!("list.{n}");
        let elements: Vec<String> = subject.server.command(&["LRANGE", &key, "0", "-1"]).await;
        seen.extend(elements.iter().map(|line| record(&key, line)));
    }
    stage.check("t", seen, &Permit::default()).await;
    for body in ["first", "second"] {
        stage.put_bodies("left", vec![(body.to_owned(), body.as_bytes().to_vec())]).await;
        stage.drained("left").await;
    }
    running.stop().await;
    let left: Vec<String> = subject.server.command(&["LRANGE", "left", "0", "-1"]).await;
    assert_eq!(left, ["second", "first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_master_does_not_keep_its_connection() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "out")])).await.unwrap();
    stage.put("t", 0, 10, 10).await;
    stage.drained("t").await;
    let before = subject.proxy.taken();
    let _: String = subject.server.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    stage.put("t", 10, 10, 10).await;
    // By then the same name may lead to another server.
    wait_until("a new connection", LONG, || async { subject.proxy.taken() > before }).await;
    let _: String = subject.server.command(&["REPLICAOF", "NO", "ONE"]).await;
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", subject.seen().await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_password_is_read_again_from_its_file() {
    let options = RedisOptions::default().password(PASSWORD);
    let (stage, subject) = (Stage::new().await, Stream::start_with(options).await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, PASSWORD).unwrap();
    let sink = subject.with_password(Secret::file(&file));
    let running = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "out")])).await.unwrap();
    stage.put("t", 0, 10, 10).await;
    stage.drained("t").await;
    let _: String = subject.server.command(&["CONFIG", "SET", "requirepass", "rotated"]).await;
    subject.proxy.reset_open();
    stage.put("t", 10, 10, 10).await;
    wait_until("a refused login", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
    })
    .await;
    std::fs::write(&file, "rotated").unwrap();
    stage.drained("t").await;
    running.stop().await;
    let mut reader = ::redis::Client::open(format!("redis://:rotated@{}", subject.server.address())).unwrap();
    let length: usize = ::redis::cmd("XLEN").arg("out").query(&mut reader).unwrap();
    assert_eq!(length, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_only_append_starts_with_a_warning_and_delivers() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let rights: &[&str] = &["ACL", "SETUSER", "forwarder", "on", ">sesame", "~out", "+xadd"];
    let _: String = subject.server.command(rights).await;
    let login = Login { username: Some("forwarder".to_owned()), password: Some(Secret::plain("sesame")) };
    let redis = RedisConfig { login, ..at(&subject.proxy) };
    let settings = stage.settings([("s", sink(redis))], vec![route("t", "s", "out")]);
    let warnings = stage.look(settings.clone()).await.unwrap();
    for part in ["lacks the command INFO", "lacks the command TYPE"] {
        assert!(warnings.iter().any(|warning| warning.contains(part)), "{warnings:?}");
    }
    let running = stage.forward(settings).await.unwrap();
    stage.put("t", 0, 50, 10).await;
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", subject.seen().await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_cannot_name_a_key_of_the_deployment() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let running = stage
        .forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "{header.to}")]))
        .await
        .unwrap();
    let key = Keys::new(stage.client.namespace().clone()).base(delayq::protocol::ShardId::new(0)) + "r:9";
    for (id, to) in [("bad", key.as_str()), ("good", "out")] {
        let message = delayq::Message::new(crate::stage::topic("t"), "x").id(id).unwrap().header("to", to);
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
    }
    stage.drained("t").await;
    running.stop().await;
    assert!(stage.dead("t").await["bad"].contains("belongs to a delayq deployment"));
    assert_eq!(subject.seen().await.len(), 1);
    assert_eq!(subject.server.command::<i64>(&["EXISTS", &key]).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_lose_messages_are_refused_by_name() {
    let stage = Stage::new().await;
    let server =
        RedisServer::start_with(RedisOptions::default().set("maxmemory-policy", "allkeys-lru")).await;
    let redis = RedisConfig { url: server.url().parse().unwrap(), ..RedisConfig::default() };
    let config = RedisSinkConfig { server: Some(redis), ..RedisSinkConfig::default() };
    let sink = SinkConfig { redis: Some(config), ..SinkConfig::default() };
    let settings = stage.settings([("s", sink)], vec![route("t", "s", "out")]);
    let Err(fault) = stage.forward(settings.clone()).await else { panic!("it delivers into a cache") };
    assert!(fault.to_string().contains("maxmemory-policy allkeys-lru"), "{fault}");
    assert_eq!(fault.exit().code(), 78);
    let _: String = server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    let _: i64 = server.command(&["LPUSH", "out", "x"]).await;
    let Err(fault) = stage.forward(settings.clone()).await else { panic!("it delivers into a list") };
    assert!(fault.to_string().contains("the key `out` is a list, not a stream"), "{fault}");
    let mut settings = settings;
    settings.sinks.get_mut("s").unwrap().redis.as_mut().unwrap().form = RedisForm::List;
    let warnings = stage.look(settings).await.unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("carries no id")), "{warnings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_must_not_be_made_is_waited_for_also_when_it_is_deleted() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let mut sink = subject.sink();
    sink.redis.as_mut().unwrap().create = false;
    let mut settings = stage.settings([("s", sink)], vec![route("t", "s", "out")]);
    let Err(fault) = stage.forward(settings.clone()).await else { panic!("it started without its stream") };
    let refusal = "DQ-F002: sinks.s, destination `out`: the stream `out` does not exist";
    assert_eq!(fault.to_string(), refusal);
    settings.sinks.get_mut("s").unwrap().required = false;
    let make: &[&str] = &["XGROUP", "CREATE", "out", "readers", "$", "MKSTREAM"];
    let running = stage.forward(settings).await.unwrap();
    let mut seen = Vec::new();
    for round in 0..2 {
        stage.put("t", round * 50, 50, 10).await;
        wait_until("an open circuit", LONG, || async {
            running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
        })
        .await;
        let _: String = subject.server.command(make).await;
        stage.drained("t").await;
        seen.extend(subject.seen().await);
        let _: i64 = subject.server.command(&["DEL", "out"]).await;
    }
    running.stop().await;
    stage.check("t", seen, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_names_a_certificate_that_has_expired() {
    let (stage, authority) = (Stage::new().await, Authority::new());
    let (_server, expired) = encrypted(&authority.expired(), &authority, false).await;
    tls_refuses_an_expired_certificate(&stage, "out", sink(expired)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_takes_the_private_authority_and_refuses_another_name() {
    let (stage, authority, stranger) = (Stage::new().await, Authority::new(), Authority::new());
    let (server, right) = encrypted(&authority.server(), &authority, false).await;
    let (_other, misnamed) = encrypted(&authority.wrong_name(), &authority, false).await;
    let files = PemFiles { ca: Some(stranger.authority()), ..PemFiles::default() };
    let untrusting = RedisConfig { files, ..right.clone() };
    let sinks = [right, untrusting, misnamed].map(sink);
    tls_takes_the_private_authority_and_no_other_name(&stage, "out", sinks).await;
    stage.check("t", read(&server, "out").await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_shows_the_certificate_that_the_server_asks_for() {
    let (stage, authority) = (Stage::new().await, Authority::new());
    let (server, without) = encrypted(&authority.server(), &authority, true).await;
    let own = authority.sign("forwarder", &["forwarder.test"]);
    let mut with = without.clone();
    (with.files.cert, with.files.key) = (Some(own.certificate), Some(own.key));
    tls_shows_the_certificate_that_is_asked_for(&stage, "out", [with, without].map(sink)).await;
    stage.check("t", read(&server, "out").await, &Permit::default()).await;
}
