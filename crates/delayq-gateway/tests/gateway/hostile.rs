//! Slow, hostile or too many clients: each limit of the guide.

use super::stage::{Stage, read_to_end, topic};
use delayq::Message;
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

const HEAD: &str = "GET /v1/topics HTTP/1.1\r\nHost: 127.0.0.1\r\n";

#[tokio::test]
async fn a_silent_client_and_one_that_drips_its_head_are_closed() {
    let stage = Stage::start("header_timeout = \"500ms\"\n").await;
    assert_eq!(stage.gateway.raw(b"").await, "");
    assert_eq!(stage.gateway.raw(b"G").await, "");
    let mut stream = stage.gateway.connect().await;
    let drip = async {
        for byte in HEAD.bytes().cycle() {
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
            let _ = tokio::time::timeout(Duration::from_millis(20), stream.readable()).await;
            if matches!(stream.try_read(&mut [0; 512]), Ok(0)) {
                return;
            }
        }
    };
    within("the end of a connection that drips", SHORT, drip).await;
    // An idle connection ends by the same limit, after its answer.
    let answer = stage.gateway.raw(format!("{HEAD}\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_body_that_stops_or_drips_is_refused_in_time() {
    let stage = Stage::start("body_timeout = \"500ms\"\n").await;
    let head = "PUT /v1/topics/t/messages/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n";
    let answer = stage.gateway.raw(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("not_applied"), "{answer}");
    let mut stream = stage.gateway.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let dripping = tokio::spawn(async move {
        while writer.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let mut answer = vec![0; 12];
    within("the answer", SHORT, reader.read_exact(&mut answer)).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 408");
    dripping.abort();
}

#[tokio::test]
async fn heads_and_bodies_that_are_too_large_are_refused() {
    let stage = Stage::start("body_timeout = \"1s\"\n").await;
    let long = format!("{HEAD}X: {}\r\n\r\n", "x".repeat(70_000));
    let many = format!("{HEAD}{}\r\n", "X: y\r\n".repeat(150));
    let path = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(70_000));
    for (head, status) in [(long, "431"), (many, "431"), (path, "414")] {
        let answer = stage.gateway.raw(head.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")) || answer.starts_with("HTTP/1.1 431"),
            "{answer}"
        );
    }
    let head = "PUT /v1/topics/t/messages/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10000000\r\n\r\n";
    let answer = stage.gateway.raw(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let payload = "x".repeat(300 * 1024);
    let refused = stage.gateway.put("/v1/topics/t/messages/a", &json!({ "payload": payload })).await;
    assert_eq!(refused.with(413)["code"], "DQ-G112");
}

#[tokio::test]
async fn two_lengths_leave_no_second_request_in_the_same_bytes() {
    let stage = Stage::start("").await;
    let smuggled = "0\r\n\r\nDELETE /v1/topics/t/messages/a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let far = Message::new(topic("t"), "x").after(Duration::from_secs(3600)).id("a").unwrap();
    stage.deployment.put([far]).await;
    let start = "POST /v1/topics/t/pause HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
    ] {
        let answer = stage.gateway.raw(format!("{start}{lengths}\r\n{smuggled}").as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{lengths}: {answer}");
    }
    assert_eq!(stage.gateway.get("/v1/topics/t/messages/a").await.with(200)["state"], "delayed");
}

#[tokio::test]
async fn a_request_without_a_host_or_for_another_is_refused() {
    let stage = Stage::start("").await;
    for (head, status) in [
        ("GET /v1/topics HTTP/1.0\r\n\r\n", "400"),
        ("GET /v1/topics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "421"),
        (
            "GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n",
            "403",
        ),
        ("GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "200"),
    ] {
        let answer = stage.gateway.raw(head.as_bytes()).await;
        assert!(
            answer.starts_with("HTTP/1") && answer[8..].starts_with(&format!(" {status}")),
            "{head}: {answer}"
        );
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused_and_make_room_when_they_end() {
    let stage = Stage::start("max_connections = 2\nmax_polls = 1\n").await;
    let held = [stage.gateway.connect().await, stage.gateway.connect().await];
    let answer = stage.gateway.raw(b"").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("Retry-After: 1"), "{answer}");
    drop(held);
    let request = format!("{HEAD}Connection: close\r\n\r\n");
    let is_served = async || stage.gateway.raw(request.as_bytes()).await.starts_with("HTTP/1.1 200");
    wait_until("a place", SHORT, is_served).await;
}

#[tokio::test]
async fn bodies_beyond_the_room_are_refused_until_another_has_ended() {
    let stage = Stage::start("max_bytes = \"4MiB\"\n").await;
    let mut holder = stage.gateway.connect().await;
    // A request of lines takes the room of two of the largest bodies.
    let head = "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n\
                Content-Length: 100\r\n\r\n";
    holder.write_all(head.as_bytes()).await.unwrap();
    let put = async || stage.gateway.put("/v1/topics/t/messages/a", &json!({ "due": "+1h" })).await;
    wait_until("a refusal", SHORT, async || put().await.status == 503).await;
    let refused = put().await;
    assert_eq!(
        (&refused.with(503)["code"], &refused.json()["fate"]),
        (&json!("DQ-G118"), &json!("not_applied"))
    );
    drop(holder);
    wait_until("the room", SHORT, async || [200, 201].contains(&put().await.status)).await;
}

#[tokio::test]
async fn a_client_that_leaves_its_answer_unread_is_closed_and_its_messages_come_back() {
    let stage = Stage::start("write_timeout = \"500ms\"\n").await;
    let large = |n: u32| Message::new(topic("large"), "x".repeat(250_000)).id(format!("m{n}")).unwrap();
    stage.deployment.put((0..60).map(large)).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(stage.gateway.address.parse().unwrap()).await.unwrap();
    // More than the buffers of both sockets hold.
    let body = json!({ "topics": ["large"], "max": 60, "max_bytes": 16_000_000, "lease": "10m" }).to_string();
    stream.write_all(&stage.gateway.bytes("POST /v1/reserve", &body)).await.unwrap();
    wait_until("messages are given back", LONG, async || {
        let (_, metrics) = stage.gateway.endpoint.get("/metrics").await;
        metrics.lines().any(|line| {
            line.strip_prefix("delayq_gateway_given_back_total ").is_some_and(|count| count != "0")
        })
    })
    .await;
    wait_until("all messages are ready", SHORT, async || {
        let numbers = stage.deployment.admin.topic(&topic("large")).count().await.unwrap();
        (numbers.ready, numbers.leased) == (60, 0)
    })
    .await;
    let answer = read_to_end(&mut stream).await;
    assert!(!answer.ends_with('}'), "the answer was cut off");
}

/// The part of the first polls in memory that is taken once is left out.
#[tokio::test]
async fn a_waiting_reserve_takes_less_than_a_hundred_kilobytes_without_optimisations() {
    const POLLS: usize = 1_500;
    let stage = Stage::start("").await;
    let body = json!({ "topics": ["empty"], "wait": "60s" }).to_string();
    let request = stage.gateway.bytes("POST /v1/reserve", &body);
    let mut waiting = Vec::new();
    let mut memory = Vec::new();
    for polls in [POLLS / 3, POLLS] {
        while waiting.len() < polls {
            let mut stream = stage.gateway.connect().await;
            stream.write_all(&request).await.unwrap();
            waiting.push(stream);
        }
        stage.gateway.has_polls(polls).await;
        memory.push(stage.gateway.process.resident_kib().unwrap());
    }
    let a_poll = (memory[1] - memory[0]) * 1024 / (POLLS - POLLS / 3) as u64;
    assert!(a_poll < 100_000, "{a_poll} bytes");
}
