//! Putting one message a line.

use super::stage::{Stage, topic};
use delayq_tests::deadline::{LONG, SHORT, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpSocket;

#[tokio::test]
async fn every_line_has_its_answer_in_order_and_the_last_line_the_totals() {
    let stage = Stage::start("").await;
    let line = |n: u32| match n % 10 {
        3 => "{\"topic\":\"mails\",\"dew\":1}\n".to_owned(),
        7 => "rubbish\n".to_owned(),
        _ => format!("{{\"topic\":\"mails\",\"id\":\"m{n}\",\"due\":\"+1h\"}}\n"),
    };
    let answer = stage.gateway.post_lines("/v1/messages", &(0..2_000).map(line).collect::<String>()).await;
    let mut lines = answer.lines();
    let last = lines.pop().unwrap();
    assert_eq!(last, json!({ "lines": 2_000, "outcomes": { "stored": 1_600, "failed": 400 } }));
    let numbers: Vec<u64> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=2_000).collect::<Vec<_>>());
    assert_eq!((&lines[0]["outcome"], &lines[3]["code"]), (&json!("stored"), &json!("DQ-G114")));
    assert_eq!(stage.deployment.admin.topic(&topic("mails")).count().await.unwrap().delayed, 1_600);
}

#[tokio::test]
async fn answers_come_while_lines_are_still_sent() {
    let stage = Stage::start("").await;
    let mut stream = stage.gateway.connect().await;
    let head = "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader).lines();
    for n in 1..=3 {
        let line = format!("{{\"topic\":\"mails\",\"id\":\"m{n}\"}}\n");
        writer.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes()).await.unwrap();
        let answer = within("the answer to a line", SHORT, async {
            loop {
                let line = reader.next_line().await.unwrap().expect("the connection is open");
                if let Ok(value) = serde_json::from_str::<Value>(&line)
                    && value.is_object()
                {
                    return value;
                }
            }
        });
        assert_eq!(answer.await["line"], n);
    }
}

#[tokio::test]
async fn a_line_that_is_too_long_or_does_not_end_ends_the_answers() {
    let stage = Stage::start("body_timeout = \"1s\"\n").await;
    let long = format!("{{\"topic\":\"t\",\"id\":\"a\"}}\n{}\n", "x".repeat(3 << 20));
    let answer = stage.gateway.post_lines("/v1/messages", &long).await;
    let last = answer.lines().pop().unwrap();
    assert_eq!((&last["code"], &last["outcomes"]), (&json!("DQ-G112"), &json!({ "ready": 1 })));
    let head = "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n{\"topic\"";
    let answer = stage.gateway.raw(head.as_bytes()).await;
    assert!(answer.contains("DQ-G109") && answer.contains("\"lines\":0"), "{answer}");
}

#[tokio::test]
async fn a_client_that_reads_no_answers_is_told_so_once_a_mebibyte_waits() {
    let stage = Stage::start("").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(stage.gateway.address.parse().unwrap()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let head = "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    writer.write_all(head.as_bytes()).await.unwrap();
    // Refused lines have answers too. The gateway has read all lines but the content of both sockets'
    // buffers; the answers exceed those buffers and a mebibyte.
    let lines = format!("{:99}\n", "rubbish").repeat(1_000);
    let chunk = format!("{:x}\r\n{lines}\r\n", lines.len());
    for _ in 0..400 {
        writer.write_all(chunk.as_bytes()).await.unwrap();
    }
    writer.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    within("the end of the answers", LONG, reader.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let last: Value =
        serde_json::from_str(answer.lines().rfind(|line| line.starts_with('{')).unwrap()).unwrap();
    assert_eq!(last["code"], "DQ-G109", "{last}");
    assert!(last["detail"].as_str().unwrap().contains("read while sending"), "{last}");
    assert!(last["lines"].as_u64().unwrap() < 400_000, "{last}");
}
