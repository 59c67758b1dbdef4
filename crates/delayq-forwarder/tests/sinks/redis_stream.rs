//! The sink `redis-stream` against a Redis of its own.

use std::collections::BTreeMap;

use delayq_forwarder::{RedisStreamConfig, SinkConfig};
use delayq_service::config::RedisConfig;
use delayq_tests::certs::Authority;
use delayq_tests::invariants::Permit;
use delayq_tests::ports::free_port;
use delayq_tests::proxy::Proxy;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

use crate::conformance::{Subject, conforms};
use crate::stage::{Seen, Stage, route};

struct Stream {
    server: RedisServer,
    proxy: Proxy,
}

type Entry = (String, BTreeMap<String, Vec<u8>>);

impl Subject for Stream {
    async fn start() -> Self {
        let server = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
        let proxy = Proxy::start(&server.address());
        Self { server, proxy }
    }

    fn sink(&self) -> SinkConfig {
        let url = format!("redis://{}", self.proxy.address()).parse().unwrap();
        let redis = RedisConfig { url, ..RedisConfig::default() };
        let config = RedisStreamConfig { redis: Some(redis), ..RedisStreamConfig::default() };
        SinkConfig { redis_stream: Some(config), ..SinkConfig::default() }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn destination(&self) -> String {
        "out".to_owned()
    }

    async fn seen(&self) -> Vec<Seen> {
        read(&self.server, "out").await
    }

    async fn stop(&mut self) {
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
    }
}

async fn read(server: &RedisServer, key: &str) -> Vec<Seen> {
    let entries: Vec<Entry> = server.command(&["XRANGE", key, "-", "+"]).await;
    let text =
        |fields: &BTreeMap<String, Vec<u8>>, name: &str| String::from_utf8(fields[name].clone()).unwrap();
    let seen = |(_, fields): Entry| Seen {
        destination: key.to_owned(),
        id: text(&fields, "delayq-id"),
        delivery: text(&fields, "delayq-delivery").parse().unwrap(),
        body: fields["payload"].clone(),
    };
    entries.into_iter().map(seen).collect()
}

conforms!(Stream);

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_carries_headers_and_mapped_fields() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let mut sink = subject.sink();
    sink.redis_stream.as_mut().unwrap().fields = BTreeMap::from([
        ("who".to_owned(), "{topic}/{id}".to_owned()),
        ("none".to_owned(), "{group}".to_owned()),
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
    delayq_tests::deadline::wait_until("seven deliveries", delayq_tests::deadline::SHORT, || async {
        stage.numbers("t").await.delivered == 7
    })
    .await;
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
async fn settings_that_lose_messages_are_refused_by_name() {
    let stage = Stage::new().await;
    let server =
        RedisServer::start_with(RedisOptions::default().set("maxmemory-policy", "allkeys-lru")).await;
    let redis = RedisConfig { url: server.url().parse().unwrap(), ..RedisConfig::default() };
    let config = RedisStreamConfig { redis: Some(redis), ..RedisStreamConfig::default() };
    let sink = SinkConfig { redis_stream: Some(config), ..SinkConfig::default() };
    let settings = stage.settings([("s", sink)], vec![route("t", "s", "out")]);
    let Err(fault) = stage.forward(settings.clone()).await else { panic!("it delivers into a cache") };
    assert!(fault.to_string().contains("maxmemory-policy allkeys-lru"), "{fault}");
    assert_eq!(fault.exit().code(), 78);
    let _: String = server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    let _: i64 = server.command(&["LPUSH", "out", "x"]).await;
    let Err(fault) = stage.forward(settings).await else { panic!("it delivers into a list") };
    assert!(fault.to_string().contains("the key `out` is a list, not a stream"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_refused_and_mended_costs_no_message() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let mut settings = stage.settings([("s", subject.sink())], vec![route("t", "s", "out")]);
    settings.sinks.get_mut("s").unwrap().required = false;
    let _: String = subject.server.command(&["CONFIG", "SET", "requirepass", "secret"]).await;
    let running = stage.forward(settings).await.unwrap();
    stage.put("t", 0, 50, 10).await;
    delayq_tests::deadline::wait_until("a refused login", delayq_tests::deadline::SHORT, || async {
        running.metric("delayq_forwarder_outcomes_total{sink=\"s\",outcome=\"unavailable\"}") >= 1.0
    })
    .await;
    let client = redis::Client::open(format!("redis://:secret@{}", subject.server.address())).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let set = redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("").to_owned();
    set.exec_async(&mut connection).await.unwrap();
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", subject.seen().await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_takes_the_private_authority_and_refuses_another_name() {
    let (stage, authority) = (Stage::new().await, Authority::new());
    for (certificate, trusted, expected) in [
        (authority.server(), true, None),
        (authority.server(), false, Some("UnknownIssuer")),
        (authority.wrong_name(), true, Some("not valid for")),
    ] {
        let port = free_port();
        let path = |path: &std::path::Path| path.display().to_string();
        let options = RedisOptions::default()
            .set("tls-port", &port.to_string())
            .set("tls-cert-file", &path(&certificate.certificate))
            .set("tls-key-file", &path(&certificate.key))
            .set("tls-ca-cert-file", &path(&authority.authority()))
            .set("tls-auth-clients", "no");
        let server = RedisServer::start_with(options).await;
        let url = format!("rediss://127.0.0.1:{port}").parse().unwrap();
        let ca = trusted.then(|| authority.authority());
        let redis = RedisConfig { url, ca, ..RedisConfig::default() };
        let config = RedisStreamConfig { redis: Some(redis), ..RedisStreamConfig::default() };
        let sink = SinkConfig { redis_stream: Some(config), ..SinkConfig::default() };
        match (stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "out")])).await, expected) {
            (Err(fault), Some(part)) => assert!(fault.to_string().contains(part), "{fault}"),
            (Ok(running), None) => {
                stage.put("t", 0, 10, 10).await;
                stage.drained("t").await;
                running.stop().await;
                assert_eq!(read(&server, "out").await.len(), 10);
            }
            (Ok(_), Some(part)) => panic!("it should have refused: {part}"),
            (Err(fault), None) => panic!("{fault}"),
        }
    }
}
