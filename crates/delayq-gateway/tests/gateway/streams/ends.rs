//! Streams whose client or gateway ends: every message comes again, and an attempt counts if the client had the message.

use super::{LEASE, StreamClient, has_closed, has_streams, numbers, ready, reserve};
use crate::stage::{Stage, topic};
use delayq::Target;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::process::{Process, Signal};
use serde_json::{Value, json};
use std::process::Command;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Fin,
    Reset,
    HalfClose,
    CloseFrame,
}

impl End {
    const ALL: [Self; 4] = [Self::Fin, Self::Reset, Self::HalfClose, Self::CloseFrame];

    /// Returns the socket of a half-closed client.
    async fn of(self, stream: StreamClient) -> Option<TcpStream> {
        if self == Self::CloseFrame {
            stream.close().await;
            return None;
        }
        let mut socket = stream.into_socket();
        match self {
            Self::Reset => socket.set_zero_linger().unwrap(),
            Self::HalfClose => {
                socket.shutdown().await.unwrap();
                return Some(socket);
            }
            Self::Fin | Self::CloseFrame => {}
        }
        None
    }

    const fn code(self) -> u16 {
        if matches!(self, Self::CloseFrame) { 1000 } else { 1006 }
    }
}

fn poll(wait: &str) -> Value {
    json!({ "topics": ["mails"], "wait": wait, "lease": LEASE })
}

#[tokio::test]
async fn a_message_for_a_stream_that_has_ended_goes_to_the_next_with_its_attempt_kept() {
    for end in End::ALL {
        let stage = Stage::start("").await;
        let mut stream = StreamClient::open(&stage.gateway).await;
        stream.ask(reserve(10)).await;
        stream.told().await;
        has_streams(&stage, "waiting", 1).await;
        let kept = end.of(stream).await;
        stage.deployment.put([ready("a")]).await;
        let taken = stage.gateway.post("/v1/reserve", &poll("60s")).await.with(200);
        let message = &taken["messages"][0];
        assert_eq!((&message["id"], &message["attempt"]), (&json!("a"), &json!(1)), "{end:?}");
        has_closed(&stage, end.code(), 1).await;
        drop(kept);
    }
}

#[tokio::test]
async fn an_unsettled_message_of_a_stream_that_ends_is_tried_again_at_once_and_the_attempt_counts() {
    for end in End::ALL {
        let stage = Stage::start("").await;
        let _timer = stage.timer();
        stage.deployment.put([ready("a"), ready("b")]).await;
        let mut stream = StreamClient::open(&stage.gateway).await;
        stream.ask(reserve(2)).await;
        stream.told().await;
        let (first, second) = (stream.message().await, stream.message().await);
        // Settled as the last act before the end.
        stream.ask(json!({ "ack": { "receipt": first["receipt"] } })).await;
        stream.told().await;
        let kept = end.of(stream).await;
        let taken = stage.gateway.post("/v1/reserve", &poll("60s")).await.with(200);
        let message = &taken["messages"][0];
        assert_eq!((&message["id"], &message["attempt"]), (&second["id"], &json!(2)), "{end:?}");
        let counted = numbers(&stage).await;
        assert_eq!((counted.delivered, counted.leased), (1, 1), "{end:?}");
        drop(kept);
    }
}

#[tokio::test]
async fn what_a_client_asks_for_before_its_close_frame_is_carried_out() {
    let stage = Stage::start("").await;
    stage.deployment.put((0..50).map(|n| ready(&format!("m{n}")))).await;
    let mut stream = StreamClient::open(&stage.gateway).await;
    stream.ask(reserve(50)).await;
    stream.told().await;
    for _ in 0..50 {
        let receipt = stream.message().await["receipt"].clone();
        stream.feed(json!({ "ack": { "receipt": receipt } })).await;
    }
    stream.close().await;
    wait_until("the acknowledgements", SHORT, async || numbers(&stage).await.delivered == 50).await;
    let counted = numbers(&stage).await;
    assert_eq!((counted.ready, counted.leased, counted.delayed), (0, 0, 0));
}

#[tokio::test]
async fn an_unsettled_message_is_buried_if_its_stream_ends_at_the_last_attempt() {
    let stage = Stage::start("").await;
    stage.deployment.put([ready("a").max_attempts(1)]).await;
    let mut stream = StreamClient::open(&stage.gateway).await;
    stream.ask(reserve(1)).await;
    stream.told().await;
    stream.message().await;
    End::Reset.of(stream).await;
    wait_until("the burial", SHORT, async || numbers(&stage).await.dead == 1).await;
    let target = Target { id: "a".parse().unwrap(), group: None };
    let found = stage.deployment.admin.topic(&topic("mails")).get(&target).await.unwrap().unwrap();
    assert!(format!("{found:?}").contains("the stream ended at the last attempt"), "{found:?}");
}

/// Messages are on their way while their streams end.
#[tokio::test]
async fn messages_on_their_way_to_streams_that_end_are_leased_to_nobody() {
    const ROUNDS: usize = 20;
    const STREAMS: usize = 5;
    let stage = Stage::start("").await;
    for round in 0..ROUNDS {
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            let mut stream = StreamClient::open(&stage.gateway).await;
            stream.ask(reserve(1)).await;
            stream.told().await;
            streams.push(stream);
        }
        let put = stage.deployment.put((0..STREAMS).map(|n| ready(&format!("r{round}-{n}"))));
        let end = async {
            for stream in streams {
                End::ALL[round % 3].of(stream).await;
            }
        };
        tokio::join!(put, end);
    }
    // Makes messages ready after the back-off.
    let _timer = stage.timer();
    let mut seen = 0;
    while seen < ROUNDS * STREAMS {
        let body = json!({ "topics": ["mails"], "max": 500, "wait": "60s", "lease": LEASE });
        let taken = stage.gateway.post("/v1/reserve", &body).await.with(200);
        let messages = taken["messages"].as_array().unwrap().clone();
        assert!(messages.iter().all(|message| message["attempt"].as_u64().unwrap() <= 2), "{messages:?}");
        seen += messages.len();
    }
    let left = numbers(&stage).await;
    assert_eq!((left.ready, left.delayed, left.leased), (0, 0, 100));
}

/// A client that is killed sends nothing more: the system closes its socket.
#[tokio::test]
async fn the_message_of_a_client_that_is_killed_comes_again() {
    let stage = Stage::start("").await;
    let _timer = stage.timer();
    stage.deployment.put([ready("a")]).await;
    let (host, port) = stage.gateway.address.rsplit_once(':').unwrap();
    let ask = json!({ "reserve": { "topics": ["mails"] } }).to_string();
    // A masked text frame under the mask 0.
    let length = 0x80 | ask.len();
    let script = format!(
        "exec 3<>/dev/tcp/{host}/{port}
         printf 'GET /v1/stream HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: upgrade\\r\\nUpgrade: websocket\\r\\n\
         Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n' >&3
         printf '\\x81\\x{length:x}\\x00\\x00\\x00\\x00{ask}' >&3
         while IFS= read -r -d , part <&3; do echo \"$part\"; done"
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]);
    let mut client = Process::spawn("a client", command);
    client.wait_for_line("\"payload\":\"hello\"", SHORT).await;
    assert_eq!(numbers(&stage).await.leased, 1);
    client.end_by(Signal::KILL, LONG).await;
    let taken = stage.gateway.post("/v1/reserve", &poll("60s")).await.with(200);
    assert_eq!((&taken["messages"][0]["id"], &taken["messages"][0]["attempt"]), (&json!("a"), &json!(2)));
}

#[tokio::test]
async fn a_gateway_that_is_killed_holds_the_messages_of_its_streams_no_longer_than_their_leases() {
    let mut stage = Stage::start("").await;
    stage.deployment.put([ready("a")]).await;
    let mut stream = StreamClient::open(&stage.gateway).await;
    stream.ask(json!({ "reserve": { "topics": ["mails"], "lease": "1s" } })).await;
    stream.told().await;
    stream.message().await;
    stage.gateway.process.end_by(Signal::KILL, LONG).await;
    let other = stage.another().await;
    let _timer = stage.timer();
    let mut stream = StreamClient::open(&other).await;
    stream.ask(reserve(1)).await;
    stream.told().await;
    let message = stream.message().await;
    assert_eq!((&message["id"], &message["attempt"]), (&json!("a"), &json!(2)));
}
