//! The contents of a request, and the limits on a producer's influence.

use super::endpoint::Endpoint;
use crate::conformance::Subject;
use crate::stage::{Stage, route, topic};
use delayq::Message;
use hmac::{Hmac, KeyInit, Mac};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_signed_and_carries_its_idempotency_key() {
    let (stage, subject) = (Stage::new().await, Endpoint::start().await);
    let running = stage
        .forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "{topic}")]))
        .await
        .unwrap();
    stage.put("t", 7, 1, 10).await;
    stage.drained("t").await;
    running.stop().await;
    let request = subject.requests.lock().unwrap()[0].clone();
    assert_eq!(request.path, "/hook/t");
    assert!(request.headers["idempotency-key"].starts_with("t/7/"));
    let (time, signature) = request.headers["delayq-signature"].split_once(",v1=").unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"hunter2").unwrap();
    mac.update(format!("{}.", time.strip_prefix("t=").unwrap()).as_bytes());
    mac.update(&request.body);
    assert_eq!(hex::encode(mac.finalize().into_bytes()), signature);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_neither_leaves_the_base_nor_sets_the_connections_headers() {
    let (stage, subject) = (Stage::new().await, Endpoint::start().await);
    let running = stage
        .forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "{header.to}")]))
        .await
        .unwrap();
    let ways_out = ["../hook-admin/x", "a?admin=1", "..%2fx", "..;/x"];
    for (id, to) in ways_out.iter().chain(&["a/b"]).enumerate() {
        let mut message = Message::new(topic("t"), "x").id(id.to_string()).unwrap().header("to", *to);
        for name in ["expect", "Cookie", "proxy-authorization", "te", "content-encoding", "x-kept"] {
            message = message.header(name, "100-continue");
        }
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
    }
    stage.drained("t").await;
    running.stop().await;
    let (dead, requests) = (stage.dead("t").await, subject.requests.lock().unwrap().clone());
    assert_eq!(dead.len(), ways_out.len(), "{dead:?}");
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.path, "/hook/a/b");
    for name in ["expect", "cookie", "proxy-authorization", "te", "content-encoding"] {
        assert!(!request.headers.contains_key(name), "{name}");
    }
    assert_eq!(request.headers["x-kept"], "100-continue");
}
