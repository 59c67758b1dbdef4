//! Mutated frames of a stream, behind a sound handshake.

use super::{PIECES, split};
use delayq_tests::mutation;
use fastrand::Rng;
use serde_json::Value;

const ASKED: [&str; 10] = [
    r#"{"reserve":{"topics":["t","u"],"credits":3,"lease":"1s","max_bytes":1000}}"#,
    r#"{"reserve":{"topics":["t"],"credits":0}}"#,
    r#"{"credit":5}"#,
    r#"{"credit":-5}"#,
    r#"{"ack":{"receipt":"AAAAAAAAAAAAAAAAAAAAAAAA"}}"#,
    r#"{"release":{"receipt":"AAAAAAAAAAAAAAAAAAAAAAAA","delay":"1s","keep_attempt":true,"reason":"r"}}"#,
    r#"{"bury":{"receipt":"AAAAAAAAAAAAAAAAAAAAAAAA","reason":"r"}}"#,
    r#"{"extend":{"receipt":"AAAAAAAAAAAAAAAAAAAAAAAA","lease":"5m"}}"#,
    "{}",
    "[]",
];

/// The keys of the gateway's frames.
const TOLD: [&str; 5] = ["message", "credits", "settled", "error", "ping"];

const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// A handshake, up to four frames of which some are mutated, and often the frame that closes.
pub(super) fn asked(rng: &mut Rng, address: &str, token: &str) -> Vec<u8> {
    let mut frames = Vec::new();
    for _ in 0..rng.usize(1..5) {
        let text = ASKED[rng.usize(..ASKED.len())];
        let text = if rng.bool() { mutation::text(rng, text, &PIECES) } else { text.to_owned() };
        frames.extend(frame(TEXT, text.as_bytes()));
    }
    if rng.u8(..4) == 0 {
        frames = mutation::bytes(rng, &frames);
    }
    if rng.u8(..8) > 0 {
        frames.extend(frame(CLOSE, &1000_u16.to_be_bytes()));
    }
    let head = format!(
        "GET /v1/stream HTTP/1.1\r\nHost: {address}\r\n{token}Connection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    [head.into_bytes(), frames].concat()
}

/// A frame of a client; its mask is zero.
fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut frame = vec![0x80 | kind];
    match u8::try_from(length) {
        Ok(length) if length < 126 => frame.push(0x80 | length),
        _ => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(length).expect("frames of the test are short").to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    [frame, content.to_vec()].concat()
}

/// What is wrong with the frames behind an answer that switches the protocol, if anything. The last one may be cut off.
pub(super) fn wrong(answer: &[u8]) -> Option<String> {
    let (head, mut rest) = split(answer)?;
    if !head.starts_with("http/1.1 101") {
        return None;
    }
    while let [kind, length, behind @ ..] = rest {
        let (length, behind) = match (length, behind) {
            (0..126, _) => (usize::from(*length), behind),
            (126, [high, low, behind @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), behind),
            _ => return (length & 0x80 != 0).then(|| "a masked frame of the gateway".to_owned()),
        };
        let (content, behind) = behind.split_at_checked(length)?;
        if kind & 0x0f == TEXT {
            let told: Option<Value> = serde_json::from_slice(content).ok();
            let keys = told.as_ref().and_then(Value::as_object).map(|told| told.keys().collect::<Vec<_>>());
            if !keys.is_some_and(|keys| matches!(keys.as_slice(), [key] if TOLD.contains(&key.as_str()))) {
                return Some(format!("a frame of no known form: {}", String::from_utf8_lossy(content)));
            }
        }
        rest = behind;
    }
    None
}
