//! Records with headers that the client library cannot read: instead of handing such a record over, the library drops the
//! connection, each time. After several connections without progress, the unacked records are read in stored form, a text
//! that can always be read.

use super::config::NatsIntakeConfig;
use crate::intake::record::BrokerRecord;
use async_nats::HeaderName;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::Info;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::RawMessage;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq::UnixMillis;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;

/// Number of connections in a row without an ack; the last of them looks for unreadable records.
const IN_VAIN: u32 = 3;
/// The header of a dead record with the original headers in Base64.
const HEADERS: &str = "delayq-headers";
/// The server's answer for a message that the stream lacks.
const NOT_FOUND: usize = 404;

/// True if connections get anywhere.
#[derive(Debug, Default)]
pub(super) struct ConnectionProgress {
    /// Up to where all is acked.
    floor: u64,
    connections: u32,
    /// The unreadable records behind, each with true if acked.
    unreadable: BTreeMap<u64, bool>,
}

/// A record that cannot be read.
pub(super) struct Unreadable {
    pub(super) sequence: u64,
    pub(super) record: BrokerRecord,
    /// The subject for the ack.
    pub(super) reply: String,
}

#[derive(Deserialize)]
struct Stored {
    message: RawMessage,
}

// === impl ConnectionProgress ===

impl ConnectionProgress {
    /// Notes a new connection: the sequences to look through.
    pub(super) fn connected(&mut self, info: &Info) -> Range<u64> {
        let floor = info.ack_floor.stream_sequence;
        if floor != self.floor || info.num_ack_pending == 0 {
            *self = Self { floor, ..Self::default() };
        }
        self.connections += 1;
        match self.connections < IN_VAIN {
            true => 0..0,
            false => floor + 1..info.delivered.stream_sequence + 1,
        }
    }

    /// Notes that a record cannot be read: true if acked before.
    pub(super) fn found(&mut self, sequence: u64) -> bool {
        *self.unreadable.entry(sequence).or_default()
    }

    /// Notes that a record was acked.
    pub(super) fn acked(&mut self, sequence: u64) {
        self.unreadable.entry(sequence).and_modify(|is_acked| *is_acked = true);
    }
}

/// The first message within the range, `None` where there is none; and an unreadable one as a record. The range then begins
/// behind the message.
pub(super) async fn next(
    context: &Context,
    config: &NatsIntakeConfig,
    range: &mut Range<u64>,
) -> Result<Option<Unreadable>, String> {
    let NatsIntakeConfig { stream, consumer, subject, .. } = config;
    let asks = json!({ "seq": range.start, "next_by_subj": subject.as_deref().unwrap_or(">") });
    let get = format!("STREAM.MSG.GET.{stream}");
    let failed = |why: String| format!("cannot look for the unreadable record with $JS.API.{get}: {why}");
    let answer: Response<Stored> =
        context.request(get.clone(), &asks).await.map_err(|error| failed(error.to_string()))?;
    let message = match answer {
        Response::Ok(Stored { message }) if range.contains(&message.sequence) => message,
        Response::Err { error } if error.code() != NOT_FOUND => return Err(failed(error.to_string())),
        _ => {
            range.start = range.end;
            return Ok(None);
        }
    };
    let bytes = |text: &str| STANDARD.decode(text).map_err(|error| failed(error.to_string()));
    let headers = message.headers.as_deref().map(bytes).transpose()?;
    let (sequence, damage) = (message.sequence, headers.as_deref().and_then(damage));
    let unreadable = match damage {
        None => None,
        Some(damage) => Some(Unreadable {
            sequence,
            record: BrokerRecord {
                headers: vec![(HEADERS.to_owned(), message.headers.unwrap_or_default().into_bytes())],
                body: bytes(&message.payload)?,
                at: u64::try_from(message.time.unix_timestamp_nanos() / 1_000_000).ok().map(UnixMillis::new),
                is_repeat: true,
                damage: Some(damage),
                ..BrokerRecord::default()
            },
            reply: format!("$JS.ACK.{stream}.{consumer}.1.{sequence}.1.0.0"),
        }),
    };
    range.start = sequence + 1;
    Ok(unreadable)
}

/// Why the client cannot read these headers.
fn damage(headers: &[u8]) -> Option<&'static str> {
    let Ok(text) = str::from_utf8(headers) else { return Some("the headers are not UTF-8") };
    let mut lines = text.lines().filter(|line| !line.is_empty());
    if lines.next().is_none_or(|first| first.trim_end() != "NATS/1.0") {
        return Some("the headers do not begin with NATS/1.0");
    }
    let is_header =
        |line: &str| line.split_once(':').is_some_and(|(name, _)| HeaderName::from_str(name).is_ok());
    // A line that begins with a space continues the line before.
    let mut is_first = true;
    for line in lines {
        let goes_on = !is_first && line.starts_with(char::is_whitespace);
        if line.trim_end().contains('\r') || !goes_on && !is_header(line) {
            return Some("a header has an invalid name or value");
        }
        is_first = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_damaged_where_the_client_cannot_read_them() {
        for sound in [
            "NATS/1.0\r\n\r\n",
            "NATS/1.0\r\na: b\r\nc:d\r\n\r\n",
            "NATS/1.0\r\na: b\r\n more\r\n\r\n",
            "NATS/1.0\r\na:\r\n\r\n",
        ] {
            assert_eq!(damage(sound.as_bytes()), None, "{sound:?}");
        }
        let damaged: [&[u8]; 8] = [
            b"",
            b"NATS/1.0\r\na: \xff\r\n\r\n",
            b"NATS/2.0\r\na: b\r\n\r\n",
            b"NATS/1.0 503\r\n\r\n",
            b"NATS/1.0\r\nno colon\r\n\r\n",
            b"NATS/1.0\r\na b: c\r\n\r\n",
            b"NATS/1.0\r\na: b\rc\r\n\r\n",
            b"NATS/1.0\r\n a: b\r\n\r\n",
        ];
        for headers in damaged {
            assert!(damage(headers).is_some(), "{:?}", String::from_utf8_lossy(headers));
        }
    }
}
