//! The sink `nats` against a server of its own.

use std::time::Duration;

use async_nats::jetstream::{self, stream::Config, stream::DiscardPolicy};
use delayq_forwarder::{NatsConfig, NatsMode, SinkConfig};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::nats_server::NatsServer;
use delayq_tests::proxy::Proxy;
use futures_util::StreamExt;

use crate::conformance::{Subject, conforms};
use crate::stage::{Seen, Stage, route};

struct Stream {
    server: NatsServer,
    proxy: Proxy,
}

async fn context(server: &NatsServer) -> jetstream::Context {
    jetstream::new(async_nats::connect(server.url()).await.unwrap())
}

fn sink(address: &str) -> SinkConfig {
    let config = NatsConfig { servers: vec![format!("nats://{address}")], ..NatsConfig::default() };
    SinkConfig { nats: Some(config), ..SinkConfig::default() }
}

/// Everything that a stream holds, from its start.
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
            body: message.payload.to_vec(),
        });
    }
    seen
}

impl Subject for Stream {
    async fn start() -> Self {
        let server = NatsServer::start(&[]).await;
        let config = Config { name: "S".to_owned(), subjects: vec!["out.>".to_owned()], ..Config::default() };
        context(&server).await.create_stream(config).await.unwrap();
        let proxy = Proxy::start(&server.address());
        Self { server, proxy }
    }

    fn sink(&self) -> SinkConfig {
        sink(&self.proxy.address())
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn destination(&self) -> String {
        "out.x".to_owned()
    }

    async fn seen(&self) -> Vec<Seen> {
        read(&self.server, "S").await
    }

    async fn stop(&mut self) {
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
    }
}

conforms!(Stream);

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
    // The stream recognises the repeats by Nats-Msg-Id.
    stage.check("t", subject.seen().await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_used_again_is_not_dropped_as_a_duplicate() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let policy = delayq_core::Policy { remember_own: Some(Duration::ZERO), ..delayq_core::Policy::default() };
    delayq_core::Admin::new(stage.client.clone())
        .set_policy(&crate::stage::topic("t"), &policy)
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
async fn core_mode_sends_to_those_who_listen() {
    let (stage, subject) = (Stage::new().await, Stream::start().await);
    let client = async_nats::connect(subject.server.url()).await.unwrap();
    let mut heard = client.subscribe("plain.t").await.unwrap();
    client.flush().await.unwrap();
    let mut sink = subject.sink();
    sink.nats.as_mut().unwrap().mode = NatsMode::Core;
    let running =
        stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "plain.{topic}")])).await.unwrap();
    stage.put("t", 0, 20, 10).await;
    stage.drained("t").await;
    running.stop().await;
    for _ in 0..20 {
        let message = tokio::time::timeout(LONG, heard.next()).await.unwrap().unwrap();
        assert!(message.headers.unwrap().get("delayq-id").is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_takes_the_private_authority_and_refuses_another_name() {
    let (stage, authority) = (Stage::new().await, Authority::new());
    for (certificate, expected) in
        [(authority.server(), None), (authority.wrong_name(), Some("DQ-F002: sinks.s"))]
    {
        let path = |path: &std::path::Path| path.display().to_string();
        let (cert, key) = (path(&certificate.certificate), path(&certificate.key));
        let server = NatsServer::start(&["--tls", "--tlscert", &cert, "--tlskey", &key]).await;
        let mut sink = sink(&server.address());
        let nats = sink.nats.as_mut().unwrap();
        (nats.mode, nats.ca) = (NatsMode::Core, Some(authority.authority()));
        match (stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "out")])).await, expected) {
            (Err(fault), Some(part)) => assert!(fault.to_string().contains(part), "{fault}"),
            (Ok(running), None) => {
                stage.put("t", 0, 10, 10).await;
                stage.drained("t").await;
                running.stop().await;
            }
            (Ok(_), Some(part)) => panic!("it should have refused: {part}"),
            (Err(fault), None) => panic!("{fault}"),
        }
    }
}
