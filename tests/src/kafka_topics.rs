//! The request that creates a Kafka topic (`CreateTopics`, version 2), written out to avoid a Kafka client.
//!
//! A frame is its length (4 bytes), then a header: API key, version, number, the client's name. Numbers are big-endian;
//! a text is its length (2 bytes, −1 for none) and its bytes, a list its length (4 bytes) and its elements.

use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const CREATE_TOPICS: i16 = 19;
/// The oldest version of Kafka 4.
const VERSION: i16 = 2;
/// Time limit of the broker.
const LIMIT_MS: i32 = 30_000;
/// Far larger than the answer about one topic.
const MAX_ANSWER_BYTES: u32 = 65_536;

#[derive(Debug, Clone, Copy)]
pub(crate) struct NewTopic<'a> {
    /// Letters, digits, dots, dashes, underscores.
    pub name: &'a str,
    /// From 1.
    pub partitions: i32,
    /// Such as `max.message.bytes`.
    pub settings: &'a [(&'a str, &'a str)],
}

/// Asks the broker to create the topic; the inner answer is Kafka's error code (0: created) and message.
pub(crate) async fn create(address: &str, topic: NewTopic<'_>) -> io::Result<(i16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&request(topic)).await?;
    let length = stream.read_u32().await?;
    if length > MAX_ANSWER_BYTES {
        return Err(io::Error::other("the answer is too long for one topic's"));
    }
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).await?;
    outcome(&answer).ok_or_else(|| io::Error::other("the answer ends too early"))
}

fn request(topic: NewTopic<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(CREATE_TOPICS.to_be_bytes());
    body.extend(VERSION.to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    text(&mut body, "delayq-tests");
    count(&mut body, 1);
    text(&mut body, topic.name);
    body.extend(topic.partitions.to_be_bytes());
    body.extend(1_i16.to_be_bytes());
    // No assignment of partitions to brokers: there is one broker.
    count(&mut body, 0);
    count(&mut body, topic.settings.len());
    for (name, value) in topic.settings {
        text(&mut body, name);
        text(&mut body, value);
    }
    body.extend(LIMIT_MS.to_be_bytes());
    // Creates the topic, rather than only validating.
    body.push(0);
    let mut frame = Vec::new();
    count(&mut frame, body.len());
    frame.extend(body);
    frame
}

/// The number, the throttling time, then the list of one element: name, code, words.
fn outcome(answer: &[u8]) -> Option<(i16, String)> {
    let rest = answer.get(4 + 4 + 4..)?;
    let (_, rest) = read_text(rest)?;
    let (code, rest) = rest.split_first_chunk()?;
    let (words, _) = read_text(rest)?;
    Some((i16::from_be_bytes(*code), words))
}

fn text(into: &mut Vec<u8>, text: &str) {
    let length = i16::try_from(text.len()).expect("a topic's words are short");
    into.extend(length.to_be_bytes());
    into.extend(text.as_bytes());
}

fn count(into: &mut Vec<u8>, count: usize) {
    into.extend(i32::try_from(count).expect("a request about one topic is short").to_be_bytes());
}

fn read_text(from: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = from.split_first_chunk()?;
    let length = usize::try_from(i16::from_be_bytes(*length)).unwrap_or(0);
    Some((String::from_utf8_lossy(rest.get(..length)?).into_owned(), &rest[length..]))
}
