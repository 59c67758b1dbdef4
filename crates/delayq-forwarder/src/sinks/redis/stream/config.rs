//! `[sinks.NAME.redis-stream]`.

use crate::sinks::redis::validate_redis;
use crate::template::Template;
use delayq_service::config::{Faults, RedisConfig, Section};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `[sinks.NAME.redis-stream]`: streams. The destination is the stream's key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisStreamConfig {
    /// Another Redis, with the keys of `[redis]`; unset: the one that keeps the messages, unless that is a cluster or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisConfig>,
    /// The field that holds the payload; default `payload`.
    pub payload_field: String,
    /// Whether each header is a field too, delayq's own among them; default true.
    pub header_fields: bool,
    /// More fields, as templates; one whose values are missing is left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Template>,
    /// Whether a stream that does not exist is created; default true.
    pub create: bool,
    /// The length (about) that a stream is trimmed to with each entry; unset: never. Trimming discards entries
    /// that nobody has read yet, so it needs `trimming_loses_messages` too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_len: Option<u64>,
    /// Confirms that trimming loses messages; default false.
    pub trimming_loses_messages: bool,
}

impl Default for RedisStreamConfig {
    fn default() -> Self {
        Self {
            redis: None,
            payload_field: "payload".to_owned(),
            header_fields: true,
            fields: BTreeMap::new(),
            create: true,
            max_len: None,
            trimming_loses_messages: false,
        }
    }
}

impl Section for RedisStreamConfig {
    fn validate(&self, at: &mut Faults) {
        validate_redis(self.redis.as_ref(), at);
        if self.payload_field.is_empty() {
            at.refuse("payload_field", "a field needs a name");
        }
        match (self.max_len, self.trimming_loses_messages) {
            (Some(0), _) => at.refuse("max_len", "a stream of length 0 holds nothing"),
            (Some(_), false) => at.contradiction(
                &["max_len", "trimming_loses_messages"],
                "MAXLEN discards entries that nobody has read yet; leave it out, or set \
                 trimming_loses_messages = true",
            ),
            _ => {}
        }
    }
}
