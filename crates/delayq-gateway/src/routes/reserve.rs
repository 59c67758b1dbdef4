//! Reserving: a long poll, whose answer is watched until the socket has taken all bytes.

mod event;

use super::answer::Answer;
use crate::dispatch::{Handed, Poll, Wanted, WantedKind, watched};
use crate::input::{Ask, EVENTS, JSON, wants_events};
use crate::problem::Problem;
use crate::receipts::Signer;
use crate::server::Outgoing;
use crate::state::App;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use delayq::Topic;
use delayq::protocol::Reservation;
use delayq_service::config::HumanDuration;
use delayq_service::json::add_time;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

const MAX_TOPICS: usize = 500;
pub(super) const MAX_MESSAGES: u16 = 500;
const MAX_WAIT: Duration = Duration::from_secs(60);
const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);
const DEFAULT_BYTES: u32 = 1024 * 1024;
const MAX_BYTES: u32 = 16 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reserve {
    topics: Vec<Topic>,
    #[serde(default = "one")]
    max: u16,
    #[serde(default = "default_bytes")]
    max_bytes: u32,
    #[serde(default)]
    wait: Option<HumanDuration>,
    #[serde(default)]
    lease: Option<HumanDuration>,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug)]
enum ReservedForm {
    Json,
    /// An array of events of CloudEvents 1.0.
    Events,
}

pub(super) const fn one() -> u16 {
    1
}

pub(super) const fn default_bytes() -> u32 {
    DEFAULT_BYTES
}

pub(super) async fn reserve(State(app): State<App>, mut ask: Ask) -> Answer {
    let connection = ask.connection.take();
    let (outgoing, peer) = connection.expect("the server gives every request its connection");
    let scope = ask.scope.clone();
    let form = if wants_events(&ask.headers) { ReservedForm::Events } else { ReservedForm::Json };
    // Boxed: a request that waits needs no room for the reading of its body.
    let asked: Reserve = Box::pin(ask.json()).await?;
    let (wanted, wait) = asked.wanted(app.lease)?;
    let _place = scope.place()?;
    let _counted = app.metrics.poll_began();
    // Before anything is leased: without the key, no receipt could be given.
    let signer = scope.signer().await?;
    let handed = scope.reserve(Poll { wanted, wait, peer }).await?;
    Ok(answer(handed, form, &signer, outgoing, app.is_stopping()))
}

fn answer(
    handed: Option<Handed>,
    form: ReservedForm,
    signer: &Signer,
    outgoing: Outgoing,
    closes: bool,
) -> Response {
    let messages = handed.as_ref().map_or(&[][..], Handed::messages);
    let (kind, bytes) = form.answer(messages, signer);
    let mut response = Response::new(watched(bytes, handed, outgoing));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if closes {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

pub(super) fn shown(message: &Reservation, signer: &Signer) -> Value {
    let envelope = &message.envelope;
    let mut value = json!({
        "receipt": signer.text(&message.receipt), "topic": message.topic, "id": message.id,
        "group": envelope.group.as_ref().map(delayq::Group::as_str),
        "attempt": envelope.attempt, "delivery": envelope.delivery,
        "headers": envelope.headers.iter().map(|(name, value)| json!([name, value])).collect::<Value>(),
    });
    add_time(&mut value, "due", Some(envelope.due));
    add_time(&mut value, "lease_ends", Some(message.lease_end));
    match std::str::from_utf8(&envelope.payload) {
        Ok(text) if !envelope.zstd => value["payload"] = text.into(),
        _ => {
            value["payload_base64"] = STANDARD.encode(&envelope.payload).into();
            value["payload_is_zstd"] = envelope.zstd.into();
        }
    }
    value
}

// === impl ReservedForm ===

impl ReservedForm {
    /// The content type, and the bytes.
    fn answer(self, messages: &[Reservation], signer: &Signer) -> (&'static str, Bytes) {
        match self {
            Self::Json => {
                let messages: Vec<Value> = messages.iter().map(|message| shown(message, signer)).collect();
                (JSON, json!({ "messages": messages }).to_string().into())
            }
            Self::Events => {
                let events: Vec<_> =
                    messages.iter().map(|message| event::document(message, signer)).collect();
                (EVENTS, [&b"["[..], &events.join(&b','), b"]"].concat().into())
            }
        }
    }
}

// === impl Reserve ===

impl Reserve {
    fn wanted(self, default_lease: Duration) -> Result<(Wanted, Duration), Problem> {
        let wait = self.wait.map_or(Duration::ZERO, |wait| *wait);
        if !(1..=MAX_MESSAGES).contains(&self.max) {
            return Err(Problem::invalid("max", format_args!("write 1 to {MAX_MESSAGES}")));
        }
        if wait > MAX_WAIT {
            return Err(Problem::invalid("wait", "write at most 60s"));
        }
        let kind = kind(self.topics, self.max_bytes, self.lease, default_lease)?;
        Ok((Wanted { kind, max: self.max }, wait))
    }
}

/// What a poll and a stream ask for, within the limits.
pub(super) fn kind(
    topics: Vec<Topic>,
    max_bytes: u32,
    lease: Option<HumanDuration>,
    default_lease: Duration,
) -> Result<WantedKind, Problem> {
    let lease = lease.map_or(default_lease, |lease| *lease);
    if !(1..=MAX_TOPICS).contains(&topics.len()) {
        return Err(Problem::invalid("topics", format_args!("write 1 to {MAX_TOPICS}")));
    }
    if !(1..=MAX_BYTES).contains(&max_bytes) {
        return Err(Problem::invalid("max_bytes", format_args!("write 1 to {MAX_BYTES}")));
    }
    if !(Duration::from_millis(1)..=MAX_LEASE).contains(&lease) {
        return Err(Problem::invalid("lease", "write 1ms to 24h"));
    }
    Ok(WantedKind { topics, homes: Vec::new(), lease, max_bytes, tenant: None })
}
