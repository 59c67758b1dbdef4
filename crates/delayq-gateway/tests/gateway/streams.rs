//! Reserving over WebSockets: credits, settlements, and no message is leased to nobody.

mod client;
mod drain;
mod ends;
mod limits;
mod rights;

pub(crate) use client::StreamClient;

use super::stage::{Stage, topic};
use delayq::Message;
use delayq::admin::Numbers;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Longer than any test: no message comes back by itself.
const LEASE: &str = "10m";

fn ready(id: &str) -> Message {
    Message::new(topic("mails"), "hello").id(id).unwrap()
}

fn reserve(credits: u16) -> Value {
    json!({ "reserve": { "topics": ["mails"], "credits": credits, "lease": LEASE } })
}

async fn numbers<S>(stage: &Stage<S>) -> Numbers {
    stage.deployment.admin.topic(&topic("mails")).count().await.unwrap()
}

/// Until so many streams are in this state.
async fn has_streams<S>(stage: &Stage<S>, state: &str, count: usize) {
    let line = format!("delayq_gateway_streams{{state=\"{state}\"}} {count}\n");
    let holds = async || stage.gateway.endpoint.get("/metrics").await.1.contains(&line);
    wait_until(&line, SHORT, holds).await;
}

/// Until so many streams have ended with this code.
async fn has_closed<S>(stage: &Stage<S>, code: u16, count: usize) {
    let line = format!("delayq_gateway_streams_closed_total{{code=\"{code}\"}} {count}\n");
    let holds = async || stage.gateway.endpoint.get("/metrics").await.1.contains(&line);
    wait_until(&line, LONG, holds).await;
}

#[tokio::test]
async fn a_client_has_as_many_unsettled_messages_as_credits_and_a_settlement_frees_one() {
    let stage = Stage::start("").await;
    let mut stream = StreamClient::open(&stage.gateway).await;
    stream.ask(reserve(2)).await;
    assert_eq!(stream.told().await, json!({ "credits": 2 }));
    has_streams(&stage, "waiting", 1).await;
    stage.deployment.put((0..6).map(|n| ready(&format!("m{n}")))).await;
    let first = stream.message().await;
    assert_eq!(
        (&first["payload"], &first["attempt"], &first["topic"]),
        (&json!("hello"), &json!(1), &json!("mails"))
    );
    assert!(first["lease_ends_ms"].is_u64() && first["due_at"].is_string(), "{first}");
    let second = stream.message().await;
    has_streams(&stage, "full", 1).await;
    assert_eq!(numbers(&stage).await.leased, 2);
    let receipt = first["receipt"].clone();
    stream.ask(json!({ "ack": { "receipt": receipt } })).await;
    assert_eq!(stream.told().await, json!({ "settled": { "outcome": "delivered", "receipt": receipt } }));
    let third = stream.message().await;
    stream.ask(json!({ "credit": 1 })).await;
    assert_eq!(stream.told().await, json!({ "credits": 3 }));
    let fourth = stream.message().await;
    let ids: BTreeSet<&str> =
        [&first, &second, &third, &fourth].iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), numbers(&stage).await.leased), (4, 3));
    // Without credits, a client works off the rest.
    stream.ask(json!({ "credit": -3 })).await;
    assert_eq!(stream.told().await, json!({ "credits": 0 }));
    for message in [second, third, fourth] {
        stream.ask(json!({ "ack": { "receipt": message["receipt"] } })).await;
        assert_eq!(stream.told().await["settled"]["outcome"], "delivered");
    }
    stream.close().await;
    let left = numbers(&stage).await;
    assert_eq!((left.ready, left.leased, left.delivered), (2, 0, 4));
    has_closed(&stage, 1000, 1).await;
}

#[tokio::test]
async fn frames_settle_with_the_words_of_settle_and_a_refused_one_ends_nothing() {
    let stage = Stage::start("").await;
    stage.deployment.put((0..4).map(|n| ready(&format!("m{n}")))).await;
    let mut stream = StreamClient::open(&stage.gateway).await;
    stream.ask(reserve(4)).await;
    stream.told().await;
    let mut receipts = Vec::new();
    for _ in 0..4 {
        receipts.push(stream.message().await["receipt"].clone());
    }
    for (frame, outcome) in [
        (json!({ "release": { "receipt": receipts[0], "delay": "1h", "reason": "busy" } }), "delayed"),
        (json!({ "bury": { "receipt": receipts[1], "reason": "broken" } }), "buried"),
        (json!({ "extend": { "receipt": receipts[2], "lease": "5m" } }), "extended"),
    ] {
        stream.ask(frame).await;
        assert_eq!(stream.told().await["settled"]["outcome"], outcome);
    }
    let frames = 5;
    for (at, (frame, code)) in [
        (json!({ "ack": { "receipt": receipts[1] } }), "DQ-G129"),
        (json!({ "ack": { "receipt": "AAA" } }), "DQ-G114"),
        (json!({ "ack": { "receipt": receipts[3], "delay": "1h" } }), "DQ-G114"),
        (json!({ "eat": { "receipt": receipts[3] } }), "DQ-G115"),
        (json!({ "ack": { "receipt": receipts[3], "later": true } }), "DQ-G114"),
        (json!({ "credit": 500 }), "DQ-G114"),
        (reserve(1), "DQ-G114"),
        (json!(7), "DQ-G114"),
    ]
    .into_iter()
    .enumerate()
    {
        stream.ask(frame.clone()).await;
        let error = stream.told().await["error"].clone();
        assert_eq!(
            (&error["code"], &error["frame"]),
            (&json!(code), &json!(frames + at)),
            "{frame}: {error}"
        );
        assert!(error["status"].is_u64() && error["title"].is_string(), "{error}");
    }
    stream.ask(json!({ "release": { "receipt": receipts[3], "delay": "0s", "keep_attempt": true } })).await;
    assert_eq!(stream.told().await["settled"]["outcome"], "ready");
    // The only ready message.
    assert_eq!(stream.message().await["attempt"], 1);
    let counted = numbers(&stage).await;
    assert_eq!((counted.delayed, counted.dead, counted.leased), (1, 1, 2));
}

#[tokio::test]
async fn settlements_that_come_together_are_answered_in_order() {
    const ALL: usize = 300;
    let stage = Stage::start("").await;
    stage.deployment.put((0..ALL).map(|n| ready(&format!("m{n}")))).await;
    let mut stream = StreamClient::open(&stage.gateway).await;
    stream.ask(reserve(ALL.try_into().unwrap())).await;
    stream.told().await;
    let mut receipts = Vec::new();
    while receipts.len() < ALL {
        receipts.push(stream.message().await["receipt"].clone());
    }
    for receipt in &receipts {
        stream.feed(json!({ "ack": { "receipt": receipt } })).await;
    }
    stream.flush().await;
    for receipt in &receipts {
        let told = stream.told().await;
        assert_eq!(
            (&told["settled"]["receipt"], &told["settled"]["outcome"]),
            (receipt, &json!("delivered"))
        );
    }
}

#[tokio::test]
async fn a_stream_settles_what_a_reserve_took_and_a_reserve_gets_what_a_stream_released() {
    let stage = Stage::start("").await;
    stage.deployment.put([ready("a")]).await;
    let wait = json!({ "topics": ["mails"], "lease": LEASE, "wait": "60s" });
    let taken = stage.gateway.post("/v1/reserve", &wait).await.with(200);
    let other = stage.another().await;
    let mut stream = StreamClient::open(&other).await;
    stream.ask(json!({ "release": { "receipt": taken["messages"][0]["receipt"], "delay": "0s" } })).await;
    assert_eq!(stream.told().await["settled"]["outcome"], "ready");
    let again = stage.gateway.post("/v1/reserve", &wait).await.with(200);
    assert_eq!(again["messages"][0]["attempt"], 2);
}

#[tokio::test]
async fn a_stream_says_that_redis_is_away_and_continues_once_it_is_back() {
    let stage = Stage::private("").await;
    let mut stream = StreamClient::open(&stage.gateway).await;
    stream.ask(reserve(1)).await;
    stream.told().await;
    has_streams(&stage, "waiting", 1).await;
    stage.deployment.server.freeze();
    assert_eq!(stream.told().await["error"]["code"], "DQ-G117");
    stage.deployment.server.thaw();
    stage.deployment.put([ready("a")]).await;
    let id = loop {
        let told = stream.told().await;
        match &told["message"]["id"] {
            Value::Null => assert_eq!(told["error"]["code"], "DQ-G117"),
            id => break id.clone(),
        }
    };
    assert_eq!(id, "a");
}

#[tokio::test]
async fn a_handshake_that_is_none_or_offers_another_subprotocol_is_refused() {
    let stage = Stage::start("").await;
    let plain = stage.gateway.get("/v1/stream").await;
    assert_eq!(plain.with(426)["code"], "DQ-G135");
    assert_eq!((plain.header("upgrade"), plain.header("sec-websocket-version")), ("websocket", "13"));
    let with = |headers| StreamClient::opened(&stage.gateway, headers);
    assert_eq!(with(&[("sec-websocket-version", "8")]).await.unwrap_err(), 426);
    assert_eq!(with(&[("sec-websocket-protocol", "mqtt, delayq.v2")]).await.unwrap_err(), 400);
    let mut stream = with(&[("sec-websocket-protocol", "mqtt, delayq.v1")]).await.unwrap();
    assert_eq!(stream.protocol.as_deref(), Some("delayq.v1"));
    stream.ask(json!({ "credit": 0 })).await;
    assert_eq!(stream.told().await, json!({ "credits": 0 }));
    assert_eq!(StreamClient::open(&stage.gateway).await.protocol, None);
    let old = stage.gateway.raw(
        b"GET /v1/stream HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let old = old.await;
    assert!(old.contains(" 426 ") && old.contains("DQ-G135"), "{old}");
}
