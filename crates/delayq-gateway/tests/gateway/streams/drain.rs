//! Streams of a gateway that stops.

use super::{StreamClient, has_streams, numbers, ready, reserve};
use crate::stage::{Running, Stage};
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use delayq_tests::process::Signal;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn a_drain_closes_streams_and_another_gateway_settles_what_their_clients_have() {
    let mut stage = Stage::start("").await;
    let other = stage.another().await;
    stage.deployment.put([ready("a")]).await;
    let mut stream = StreamClient::open(&stage.gateway).await;
    stream.ask(reserve(5)).await;
    stream.told().await;
    let message = stream.message().await;
    let mut idle = StreamClient::open(&stage.gateway).await;
    has_streams(&stage, "opening", 1).await;
    stage.gateway.process.signal(Signal::TERM);
    for stream in [&mut stream, &mut idle] {
        assert_eq!(stream.closed().await, (1001, "DQ-G119: the gateway is stopping".to_owned()));
    }
    assert!(stage.gateway.process.wait_end(LONG).await.success(), "{}", stage.gateway.process.tail());
    assert_eq!(numbers(&stage).await.leased, 1, "the client still has it");
    let mut stream = StreamClient::open(&other).await;
    stream.ask(json!({ "ack": { "receipt": message["receipt"] } })).await;
    assert_eq!(stream.told().await["settled"]["outcome"], "delivered");
}

/// Acknowledges messages until the close frame; returns the settled receipts, and the others.
async fn work(gateway: &Running) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut stream = StreamClient::open(gateway).await;
    stream.ask(reserve(20)).await;
    let (mut settled, mut open) = (BTreeSet::new(), BTreeSet::new());
    loop {
        match within("a frame", SHORT, stream.web.next()).await {
            Some(Ok(Message::Text(text))) => {
                let told: Value = serde_json::from_str(&text).unwrap();
                if let Some(receipt) = told["message"]["receipt"].as_str() {
                    open.insert(receipt.to_owned());
                    let ack = json!({ "ack": { "receipt": receipt } }).to_string();
                    let _ = stream.web.send(Message::Text(ack.into())).await;
                }
                if let Some(receipt) = told["settled"]["receipt"].as_str() {
                    assert!(open.remove(receipt), "{told}");
                    settled.insert(receipt.to_owned());
                }
            }
            Some(Ok(Message::Close(Some(frame)))) => {
                assert_eq!(u16::from(frame.code), 1001);
                let _ = stream.web.flush().await;
                return (settled, open);
            }
            Some(Ok(_)) => {}
            end => panic!("{end:?}"),
        }
    }
}

#[tokio::test]
async fn frames_in_the_midst_of_a_drain_are_answered_or_settled_elsewhere_and_none_is_lost() {
    const ALL: u64 = 3_000;
    let mut stage = Stage::start("").await;
    let other = stage.another().await;
    stage.deployment.put((0..ALL).map(|n| ready(&format!("m{n}")))).await;
    let workers = futures_util::future::join_all((0..3).map(|_| work(&stage.gateway)));
    let stop = async {
        let some = async || numbers(&stage).await.delivered > ALL / 10;
        wait_until("some deliveries", SHORT, some).await;
        let pid = stage.gateway.process.id().to_string();
        let status = std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(status.success());
    };
    let (worked, ()) = tokio::join!(workers, stop);
    assert!(stage.gateway.process.wait_end(LONG).await.success(), "{}", stage.gateway.process.tail());
    let settled: usize = worked.iter().map(|(settled, _)| settled.len()).sum();
    let open: Vec<&String> = worked.iter().flat_map(|(_, open)| open).collect();
    let counted = numbers(&stage).await;
    // An acknowledgement without an answer may have been carried out.
    assert!(counted.delivered >= settled as u64, "{counted:?}, {settled}");
    assert_eq!(counted.leased as usize, settled + open.len() - counted.delivered as usize, "{counted:?}");
    assert_eq!(counted.ready + counted.leased + counted.delivered, ALL, "{counted:?}");
    for receipt in open {
        let item = json!([{ "receipt": receipt, "do": "ack" }]);
        other.post("/v1/settle", &item).await.with(200);
    }
    let left = numbers(&stage).await;
    assert_eq!((left.leased, left.ready + left.delivered), (0, ALL), "{left:?}");
}
