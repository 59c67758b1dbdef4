//! Slow, silent, hostile or too many clients of streams: each limit of the guide.

use super::{LEASE, StreamClient, has_closed, has_streams, numbers, ready, reserve};
use crate::stage::{Stage, topic};
use delayq::Message as Stored;
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use futures_util::SinkExt as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// Of the guide.
const MAX_FRAME: usize = 128 * 1024;

#[tokio::test]
async fn a_client_that_reads_nothing_is_closed_and_what_it_did_not_get_keeps_its_attempt() {
    const MANY: u64 = 60;
    let stage = Stage::start("write_timeout = \"500ms\"\n").await;
    let large = |n| Stored::new(topic("mails"), "x".repeat(250_000)).id(format!("m{n}")).unwrap();
    stage.deployment.put((0..MANY).map(large)).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let socket = socket.connect(stage.gateway.address.parse().unwrap()).await.unwrap();
    let mut stream = StreamClient::over(socket, &stage.gateway.address, &[]).await.unwrap();
    let most = json!({ "topics": ["mails"], "credits": MANY, "max_bytes": 16_000_000, "lease": LEASE });
    stream.ask(json!({ "reserve": most })).await;
    has_closed(&stage, 1006, 1).await;
    wait_until("the messages", LONG, async || numbers(&stage).await.leased == 0).await;
    let counted = numbers(&stage).await;
    // The buffers of the sockets hold some messages.
    assert!(counted.ready > MANY / 2 && counted.ready + counted.delayed == MANY, "{counted:?}");
    let taken = stage.gateway.post("/v1/reserve", &json!({ "topics": ["mails"], "max": 5 })).await.with(200);
    assert!(taken["messages"].as_array().unwrap().iter().all(|message| message["attempt"] == 1), "{taken}");
}

/// A client of raw bytes, after the handshake.
async fn raw(stage: &Stage) -> TcpStream {
    StreamClient::open(&stage.gateway).await.into_socket()
}

async fn frame(socket: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    within("a frame", SHORT, socket.read_exact(&mut head)).await.unwrap();
    assert!(head[1] < 126, "a short frame without a mask: {head:?}");
    let mut rest = vec![0; head[1].into()];
    socket.read_exact(&mut rest).await.unwrap();
    (head[0] & 0x0f, rest)
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_closed_and_one_that_does_stays() {
    let stage = Stage::start("header_timeout = \"1s\"\n").await;
    let mut silent = raw(&stage).await;
    let mut live = StreamClient::open(&stage.gateway).await;
    live.ask(reserve(1)).await;
    live.told().await;
    let (message, ()) = tokio::join!(live.message(), async {
        // In whichever order, for the protocol and for the client.
        let mut seen = [frame(&mut silent).await, frame(&mut silent).await];
        seen.sort_by_key(|(code, _)| *code);
        assert_eq!(seen, [(1, b"{\"ping\":{}}".to_vec()), (9, Vec::new())]);
        let (code, rest) = frame(&mut silent).await;
        assert_eq!((code, &rest[..2]), (8, &1008_u16.to_be_bytes()[..]), "{rest:?}");
        assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0, "and the connection");
        has_closed(&stage, 1008, 1).await;
        // The live client has stayed longer by now.
        stage.deployment.put([ready("a")]).await;
    });
    assert_eq!(message["id"], "a");
    assert!(live.pings >= 1, "{} pings", live.pings);
}

#[tokio::test]
async fn a_frame_that_is_too_large_binary_no_text_or_malformed_ends_the_stream_with_its_code() {
    let stage = Stage::start("").await;
    let mut large = StreamClient::open(&stage.gateway).await;
    let just = json!({ "ack": { "receipt": "x".repeat(MAX_FRAME - 22) } });
    assert_eq!(just.to_string().len(), MAX_FRAME);
    large.ask(just).await;
    assert_eq!(large.told().await["error"]["code"], "DQ-G114");
    large.ask(json!({ "ack": { "receipt": "x".repeat(MAX_FRAME - 21) } })).await;
    assert_eq!(large.closed().await.0, 1009);
    let mut parts = StreamClient::open(&stage.gateway).await;
    for part in 0..3 {
        let code = if part == 0 { Data::Text } else { Data::Continue };
        let part = Frame::message(vec![b'x'; MAX_FRAME / 2], OpCode::Data(code), part == 2);
        parts.web.feed(Message::Frame(part)).await.unwrap();
    }
    parts.flush().await;
    assert_eq!(parts.closed().await.0, 1009);
    let mut binary = StreamClient::open(&stage.gateway).await;
    binary.web.send(Message::Binary(b"{}".as_slice().into())).await.unwrap();
    assert_eq!(binary.closed().await.0, 1003);
    let mut broken = StreamClient::open(&stage.gateway).await;
    let no_text = Frame::message(vec![0xff, 0xfe], OpCode::Data(Data::Text), true);
    broken.web.send(Message::Frame(no_text)).await.unwrap();
    assert_eq!(broken.closed().await.0, 1007);
    for bytes in [&b"\x81\x02{}"[..], b"\xf1\x80\0\0\0\0", b"\x83\x80\0\0\0\0"] {
        let mut malformed = raw(&stage).await;
        malformed.write_all(bytes).await.unwrap();
        let (code, rest) = frame(&mut malformed).await;
        assert_eq!((code, &rest[..2]), (8, &1002_u16.to_be_bytes()[..]), "{bytes:?}: {rest:?}");
    }
}

#[tokio::test]
async fn a_stream_takes_the_place_of_a_reserve_and_of_a_connection() {
    let stage = Stage::start("max_polls = 1\nmax_connections = 2\n").await;
    let stream = StreamClient::open(&stage.gateway).await;
    has_streams(&stage, "opening", 1).await;
    assert_eq!(StreamClient::opened(&stage.gateway, &[]).await.map(drop), Err(503));
    let held = stage.gateway.connect().await;
    let answer = stage.gateway.raw(b"").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "a stream is a connection: {answer}");
    drop(held);
    stream.close().await;
    let is_open = async || StreamClient::opened(&stage.gateway, &[]).await.is_ok();
    wait_until("the place", SHORT, is_open).await;
}

/// The first streams take memory once, and are left out.
#[tokio::test]
async fn an_idle_stream_takes_less_than_a_hundred_kilobytes_without_optimisations() {
    const STREAMS: usize = 1_200;
    let stage = Stage::start("").await;
    let (mut open, mut memory) = (Vec::new(), Vec::new());
    for streams in [STREAMS / 3, STREAMS] {
        while open.len() < streams {
            let mut stream = StreamClient::open(&stage.gateway).await;
            stream.ask(reserve(10)).await;
            stream.told().await;
            open.push(stream);
        }
        has_streams(&stage, "waiting", streams).await;
        memory.push(stage.gateway.process.resident_kib().unwrap());
    }
    let a_stream = (memory[1] - memory[0]) * 1024 / (STREAMS - STREAMS / 3) as u64;
    println!("{a_stream} bytes a stream");
    assert!(a_stream < 100_000, "{a_stream} bytes");
}
