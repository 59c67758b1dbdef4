//! Refusals as `application/problem+json` (RFC 9457).

mod kind;
mod over;

pub(crate) use kind::Kind;
pub(crate) use over::{Over, Quota};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use delayq::protocol::EnvelopeError;
use delayq::{Advice, Error, Fate, MessageError, PutError};
use serde_json::{Value, json};
use std::time::Duration;

/// Pause before a write that the spool had no room for: the spool first has to be carried out.
const SPOOL_WAIT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: String,
    fate: Option<Fate>,
    /// The answer of the script.
    outcome: Option<Value>,
    pointer: Option<String>,
    over: Option<Over>,
    closes: bool,
}

// === impl Problem ===

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let closes = matches!(kind, Kind::TooSlow | Kind::TooLarge | Kind::Draining);
        Self { kind, detail: detail.into(), fate: None, outcome: None, pointer: None, over: None, closes }
    }

    /// Of a key, parameter or header.
    pub(crate) fn invalid(pointer: &str, why: impl std::fmt::Display) -> Self {
        Self::new(Kind::Invalid, format!("{pointer}: {why}")).at(pointer)
    }

    pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> Self {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Self::new(Kind::Unknown, format!("unknown {what} {name}; known: {known}")).at(name)
    }

    /// The state of the message or topic forbids the call; `outcome` is the answer of the script.
    pub(crate) fn outcome(kind: Kind, outcome: Value) -> Self {
        let word = outcome["outcome"].as_str().unwrap_or_default().to_owned();
        let reason = outcome["reason"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
        let state = outcome["state"].as_str().map(|state| format!(" ({state})")).unwrap_or_default();
        let detail = format!("{word}{state}{reason}");
        Self { outcome: Some(outcome), fate: Some(Fate::NotApplied), ..Self::new(kind, detail) }
    }

    pub(crate) fn at(self, pointer: &str) -> Self {
        Self { pointer: Some(pointer.to_owned()), ..self }
    }

    pub(crate) fn fate(self, fate: Fate) -> Self {
        Self { fate: Some(fate), ..self }
    }

    /// A quota of the tenant is used up.
    pub(crate) fn over(over: Over) -> Self {
        let problem = Self::new(Kind::OverQuota, over.to_string()).fate(Fate::NotApplied);
        // An open connection would take a place all the same.
        Self { over: Some(over), closes: over.quota == Quota::Connections, ..problem }
    }

    /// The tenant's share of the spool, of this many bytes, is used up. Redis may have carried the write out.
    pub(crate) fn over_spool(share: u64, fate: Fate) -> Self {
        let over = Over::new(Quota::Spool, share).wait(SPOOL_WAIT);
        let problem = Self::new(Kind::OverShare, over.to_string()).fate(fate);
        Self { over: Some(over), ..problem }
    }

    /// With another detail.
    pub(crate) fn because(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// For one item of many.
    pub(crate) fn item(&self) -> Value {
        let mut value = json!({ "code": self.kind.code(), "detail": self.detail });
        if let Some(fate) = self.fate {
            value["fate"] = word(fate).into();
        }
        if let Some(Value::Object(outcome)) = &self.outcome {
            outcome.iter().for_each(|(key, member)| value[key] = member.clone());
        }
        value
    }

    /// As [`Self::render`], without the id of a request.
    pub(crate) fn object(&self) -> Value {
        let mut value = self.item();
        value["type"] = format!("urn:delayq:problem:{}", self.kind.code()).into();
        value["title"] = self.kind.title().into();
        value["status"] = self.kind.status().as_u16().into();
        if let Some(pointer) = &self.pointer {
            value["errors"] = json!([{ "pointer": pointer, "detail": self.detail }]);
        }
        value
    }

    pub(crate) fn render(&self, request_id: &str) -> Response {
        let mut value = self.object();
        value["instance"] = request_id.into();
        let mut response = Response::new(Body::from(value.to_string()));
        *response.status_mut() = self.kind.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.kind.is_passing() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(over) = &self.over {
            headers.insert(header::RETRY_AFTER, over.retry_after().into());
            for (name, value) in [("ratelimit-policy", over.policy()), ("ratelimit", over.left())] {
                headers.insert(name, HeaderValue::from_str(&value).expect("it is made of words and numbers"));
            }
        }
        if self.kind == Kind::NoToken {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.kind == Kind::NoUpgrade {
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        if self.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

const fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::NotApplied => "not_applied",
        Fate::Unknown => "unknown",
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Message(MessageError::PayloadTooLarge(..) | MessageError::HeadersTooLarge(..)) => {
                Kind::TooLarge
            }
            Error::Message(_) | Error::Name(_) | Error::Option(_) | Error::Time(_) => Kind::Invalid,
            Error::Redis { code, .. } if code == "DQARG" => Kind::Invalid,
            Error::Uninitialised(_) | Error::Foreign { .. } => Kind::RedisAway,
            Error::Spool { .. } => Kind::SpoolRefused,
            error if error.advice() == Advice::Retry => Kind::RedisAway,
            _ => Kind::Fault,
        };
        let text = error.to_string();
        // Redis adds the hash of the script, which tells a client nothing.
        let detail = text.split_once(" script: ").map_or(text.as_str(), |(detail, _)| detail);
        let problem = Self::new(kind, detail).fate(error.fate());
        Self { closes: false, ..problem }
    }
}

impl From<PutError> for Problem {
    fn from(error: PutError) -> Self {
        Self::from(error.error)
    }
}

impl From<EnvelopeError> for Problem {
    fn from(error: EnvelopeError) -> Self {
        Self::new(Kind::Fault, error.to_string())
    }
}

/// Leaves the text to [`crate::guard`], which knows the request's id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.kind.status();
        response.extensions_mut().insert(self);
        response
    }
}
