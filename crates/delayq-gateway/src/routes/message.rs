//! Inspecting a message: state, payload and history.

use super::answer::{Answer, hash, json, tagged};
use crate::input::Ask;
use crate::problem::{Kind, Problem};
use crate::rights::Right;
use crate::sessions::Caller;
use crate::state::Scope;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use delayq::admin::{Listed, Tag};
use delayq::{Target, Topic};
use delayq_service::json::{events, message as json_of};
use serde_json::{Value, json};
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Payload {
    /// Only the size.
    #[default]
    None,
    /// As text; in base64 if the bytes are not UTF-8.
    Text,
    Base64,
    /// Type, size, and the values that the operators list.
    Shown,
}

// === impl Payload ===

impl FromStr for Payload {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "text" => Ok(Self::Text),
            "base64" => Ok(Self::Base64),
            "shown" => Ok(Self::Shown),
            _ => Err("must be none, shown, text or base64"),
        }
    }
}

impl Payload {
    pub(super) fn of(ask: &Ask) -> Result<Self, Problem> {
        ask.query.get::<Self>("payload")?.unwrap_or_default().for_caller(&ask.caller)
    }

    /// Refuses a caller without the right to see payloads.
    pub(super) fn for_caller(self, caller: &Caller) -> Result<Self, Problem> {
        match self {
            Self::None | Self::Shown => Ok(self),
            Self::Text | Self::Base64 => caller.must(Right::Payload, "payload").map(|()| self),
        }
    }

    pub(super) fn shown_in(self, scope: &Scope, listed: &Listed) -> Value {
        let mut value = self.shown(listed);
        if self == Self::Shown && listed.envelope.as_ref().is_ok_and(|envelope| !envelope.state.is_over()) {
            value["payload_shown"] = scope.shown_payload(listed);
        }
        value
    }

    pub(super) fn shown(self, listed: &Listed) -> Value {
        let mut value = json_of(listed, self == Self::Text);
        if let Ok(envelope) = &listed.envelope
            && !envelope.state.is_over()
        {
            value["tag"] = Tag::of(envelope).to_string().into();
        }
        if let (Self::Base64, Ok(envelope)) = (self, &listed.envelope)
            && !envelope.state.is_over()
        {
            value["payload_base64"] = STANDARD.encode(&envelope.payload).into();
            value["content_hash"] = envelope.hash.map(|hash| hash.to_string()).into();
            value["payload_is_zstd"] = envelope.zstd.into();
        }
        value
    }
}

pub(super) async fn get(ask: Ask) -> Answer {
    let payload = Payload::of(&ask)?;
    let listed = found(&ask.scope, &ask.topic()?, &ask.target()?).await?;
    let text = payload.shown_in(&ask.scope, &listed).to_string();
    let stay = listed.envelope.as_ref().map(|envelope| Tag::of(envelope).to_string()).unwrap_or_default();
    tagged(&ask, &format!("\"{stay}-{}\"", hash(&text)), text)
}

/// The bytes, which no browser takes for a page of the gateway's.
pub(super) async fn payload(ask: Ask) -> Answer {
    let listed = found(&ask.scope, &ask.topic()?, &ask.target()?).await?;
    let envelope = listed.envelope?;
    if envelope.state.is_over() {
        return Err(Problem::new(
            Kind::NoMessage,
            "the message has finished: its payload is no longer stored",
        ));
    }
    if envelope.zstd {
        return Err(Problem::new(Kind::Fault, "the dictionary of its payload is missing"));
    }
    let kind = envelope.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = kind.and_then(|(_, kind)| HeaderValue::from_str(kind).ok());
    let mut response = Response::new(Body::from(envelope.payload));
    let headers = response.headers_mut();
    let bytes = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind.unwrap_or(bytes));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    Ok(response)
}

pub(super) async fn history(ask: Ask) -> Answer {
    let (topic, target) = (ask.topic()?, ask.target()?);
    let history = ask.scope.history(&topic, &target).await?;
    let listed = ask.scope.get(&topic, &target).await?;
    if listed.is_none() && history.events.is_empty() {
        return Err(unknown(&topic, &target));
    }
    let group = target.group.as_ref().map(delayq::Group::as_str);
    let name = || json!({ "id": target.id, "topic": topic, "group": group });
    let mut value = listed.as_ref().map_or_else(name, |listed| json_of(listed, false));
    value["history_kept"] = history.kept.into();
    value["history_cut"] = history.is_cut().into();
    value["events"] = events(&history);
    Ok(json(StatusCode::OK, &value))
}

pub(super) async fn found(scope: &Scope, topic: &Topic, target: &Target) -> Result<Listed, Problem> {
    scope.get(topic, target).await?.ok_or_else(|| unknown(topic, target))
}

pub(super) fn unknown(topic: &Topic, target: &Target) -> Problem {
    let group = match &target.group {
        Some(group) => format!("in the group {group}"),
        None => "without a group; each group has its own ids".to_owned(),
    };
    Problem::new(Kind::NoMessage, format!("no {} of {topic} {group}", target.id))
}
