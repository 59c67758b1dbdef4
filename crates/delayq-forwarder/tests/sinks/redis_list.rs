//! The sink `redis-list` against a private Redis.

use crate::conformance::{
    Guarded, Mortal, Networked, Subject, conforms, tls_takes_the_private_authority_and_no_other_name,
};
use crate::redis_stream::{PASSWORD, at, encrypted};
use crate::stage::{Seen, Stage, record, route};
use delayq_forwarder::{Element, RedisListConfig, SinkConfig};
use delayq_service::config::{Login, PemFiles, RedisConfig, Secret};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::Proxy;
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis};

struct List {
    server: RedisServer,
    proxy: Proxy,
}

fn sink(redis: RedisConfig) -> SinkConfig {
    let config =
        RedisListConfig { redis: Some(redis), element: Element::Record, ..RedisListConfig::default() };
    SinkConfig { redis_list: Some(config), ..SinkConfig::default() }
}

async fn read(server: &SharedRedis, key: &str) -> Vec<Seen> {
    let elements: Vec<String> = server.command(&["LRANGE", key, "0", "-1"]).await;
    elements.iter().map(|line| record(key, line)).collect()
}

// === impl List ===

impl List {
    async fn start_with(options: RedisOptions) -> Self {
        let server = RedisServer::start_with(options.append_only("always")).await;
        let proxy = Proxy::start(&server.address());
        Self { server, proxy }
    }
}

impl Subject for List {
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

impl Mortal for List {
    async fn stop(&mut self) {
        self.proxy.refuse().await;
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
        self.proxy.accept().await;
    }
}

impl Networked for List {
    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

impl Guarded for List {
    const PASSWORD: &str = PASSWORD;
    const REFUSAL: &str = "Password authentication failed";

    async fn start_guarded() -> Self {
        Self::start_with(RedisOptions::default().password(PASSWORD)).await
    }

    fn with_password(&self, password: Secret) -> SinkConfig {
        sink(RedisConfig { login: Login { password: Some(password), ..Login::default() }, ..at(&self.proxy) })
    }
}

conforms!(List:
    everything_arrives_once,
    a_server_that_is_down_at_start_is_named_or_waited_for,
    a_server_that_goes_down_midway_costs_no_message,
    a_lost_confirm_repeats_at_most_what_was_under_way,
    a_black_hole_is_left_behind_by_deadline,
    a_slow_server_keeps_its_leases,
    a_clean_stop_under_load_loses_and_repeats_nothing,
    a_refused_login_is_named_and_mended_without_a_loss,
);

#[tokio::test(flavor = "multi_thread")]
async fn one_of_the_wrong_type_does_not_keep_its_neighbours() {
    let (stage, subject) = (Stage::new().await, List::start().await);
    let _: String = subject.server.command(&["SET", "l.3", "a string"]).await;
    let settings = stage.settings([("s", subject.sink())], vec![route("t", "s", "l.{id}")]);
    let running = stage.forward(settings).await.unwrap();
    stage.put("t", 0, 8, 10).await;
    wait_until("seven deliveries", SHORT, || async { stage.numbers("t").await.delivered == 7 }).await;
    let _: i64 = subject.server.command(&["DEL", "l.3"]).await;
    stage.drained("t").await;
    running.stop().await;
    let mut seen = Vec::new();
    for n in 0..8 {
        seen.extend(read(&subject.server, &format!("l.{n}")).await);
    }
    stage.check("t", seen, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_lose_messages_are_refused_by_name() {
    let stage = Stage::new().await;
    let server =
        RedisServer::start_with(RedisOptions::default().set("maxmemory-policy", "allkeys-lfu")).await;
    let redis = RedisConfig { url: server.url().parse().unwrap(), ..RedisConfig::default() };
    let settings = stage.settings([("s", sink(redis))], vec![route("t", "s", "out")]);
    let Err(fault) = stage.look(settings.clone()).await else { panic!("it delivers into a cache") };
    assert!(fault.to_string().contains("maxmemory-policy allkeys-lfu"), "{fault}");
    assert_eq!(fault.exit().code(), 78);
    let _: String = server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    let _: String = server.command(&["XADD", "out", "*", "f", "v"]).await;
    let Err(fault) = stage.look(settings).await else { panic!("it delivers into a stream") };
    let refusal = "DQ-F001: sinks.s, destination `out`: the key `out` is a stream, not a list";
    assert_eq!(fault.to_string(), refusal);
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
