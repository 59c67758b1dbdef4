//! `[sinks.NAME.redis]`.

use crate::template::Template;
use delayq_service::config::{Faults, RedisConfig, Section};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `[sinks.NAME.redis]`: streams or lists. The destination is the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisSinkConfig {
    /// Another Redis, with the keys of `[redis]`; unset: the deployment's own Redis, unless that is a cluster or
    /// several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<RedisConfig>,
    /// The form of a destination: `stream`, `list` for consumers that LPOP, or `list-left` for consumers that RPOP;
    /// default stream.
    #[serde(rename = "as")]
    pub form: RedisForm,
    /// The form of a list's element: `payload`, the bytes alone, or `record`, the JSON document of the sink `file`;
    /// default payload.
    pub element: Element,
    /// More fields of a stream's entry, as templates; a field with missing values is left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Template>,
    /// Whether a missing stream is created; default true.
    pub create: bool,
    /// The approximate length to trim a stream to with each entry; unset: never. Trimming discards unread entries, so
    /// `trimming_loses_messages` is required too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_len: Option<u64>,
    /// Confirms that trimming loses messages; default false.
    pub trimming_loses_messages: bool,
}

/// The form of a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedisForm {
    /// XADD
    #[default]
    Stream,
    /// RPUSH
    List,
    /// LPUSH
    ListLeft,
}

/// The form of a list element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Element {
    /// The payload alone. Without headers a consumer cannot detect a repeated delivery by id.
    #[default]
    Payload,
    /// A JSON document with headers and payload.
    Record,
}

// === impl RedisForm ===

impl RedisForm {
    /// The type of the key in Redis's words.
    pub(super) const fn key_type(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List | Self::ListLeft => "list",
        }
    }
}

// === impl RedisSinkConfig ===

impl RedisSinkConfig {
    /// Refuses keys that the form ignores.
    fn validate_form(&self, at: &mut Faults) {
        if self.form == RedisForm::Stream {
            if self.element != Element::default() {
                at.refuse("element", "a stream has fields: remove it, or set `as` to a list");
            }
            return;
        }
        for (key, is_set) in [
            ("fields", !self.fields.is_empty()),
            ("create", !self.create),
            ("max_len", self.max_len.is_some()),
            ("trimming_loses_messages", self.trimming_loses_messages),
        ] {
            if is_set {
                at.refuse(key, "only for streams: remove it, or set `as` to \"stream\"");
            }
        }
    }
}

impl Default for RedisSinkConfig {
    fn default() -> Self {
        Self {
            server: None,
            form: RedisForm::Stream,
            element: Element::Payload,
            fields: BTreeMap::new(),
            create: true,
            max_len: None,
            trimming_loses_messages: false,
        }
    }
}

impl Section for RedisSinkConfig {
    fn validate(&self, at: &mut Faults) {
        if let Some(server) = &self.server {
            at.section("server", server);
            if !server.nodes.is_empty() {
                at.refuse("server.nodes", "a sink delivers into a single Redis");
            }
        }
        self.validate_form(at);
        match (self.max_len, self.trimming_loses_messages) {
            (Some(0), _) => at.refuse("max_len", "a stream of length 0 keeps no message"),
            (Some(_), false) => at.contradiction(
                &["max_len", "trimming_loses_messages"],
                "MAXLEN discards unread entries: omit max_len, or set trimming_loses_messages = true",
            ),
            _ => {}
        }
    }
}
