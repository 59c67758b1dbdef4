//! The sink `redis-list` against a Redis of its own.

use delayq_forwarder::{Element, RedisListConfig, SinkConfig};
use delayq_service::config::RedisConfig;
use delayq_tests::proxy::Proxy;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

use crate::conformance::{Subject, conforms};
use crate::stage::Seen;

struct List {
    server: RedisServer,
    proxy: Proxy,
}

impl Subject for List {
    async fn start() -> Self {
        let server = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
        let proxy = Proxy::start(&server.address());
        Self { server, proxy }
    }

    fn sink(&self) -> SinkConfig {
        let url = format!("redis://{}", self.proxy.address()).parse().unwrap();
        let redis = RedisConfig { url, ..RedisConfig::default() };
        let config =
            RedisListConfig { redis: Some(redis), element: Element::Record, ..RedisListConfig::default() };
        SinkConfig { redis_list: Some(config), ..SinkConfig::default() }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn destination(&self) -> String {
        "out".to_owned()
    }

    async fn seen(&self) -> Vec<Seen> {
        let elements: Vec<String> = self.server.command(&["LRANGE", "out", "0", "-1"]).await;
        elements.iter().map(|line| record("out", line)).collect()
    }

    async fn stop(&mut self) {
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
    }
}

/// A delivery from its JSON record.
pub(crate) fn record(destination: &str, line: &str) -> Seen {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let record: serde_json::Value = serde_json::from_str(line).unwrap();
    let body = match record["payload"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => STANDARD.decode(record["payload_base64"].as_str().unwrap()).unwrap(),
    };
    Seen {
        destination: destination.to_owned(),
        id: record["id"].as_str().unwrap().to_owned(),
        body,
        delivery: u32::try_from(record["delivery"].as_u64().unwrap()).unwrap(),
    }
}

conforms!(List);
