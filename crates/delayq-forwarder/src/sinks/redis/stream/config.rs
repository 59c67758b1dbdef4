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
    /// Another Redis, with the keys of `[redis]`; unset: the deployment's own Redis, unless that is a cluster or
    /// several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisConfig>,
    /// The field that holds the payload; default `payload`.
    pub payload_field: String,
    /// Whether each header, including delayq's own, is a field too; default true.
    pub header_fields: bool,
    /// More fields, as templates; a field with missing values is left out.
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
            (Some(0), _) => at.refuse("max_len", "a stream of length 0 keeps no message"),
            (Some(_), false) => at.contradiction(
                &["max_len", "trimming_loses_messages"],
                "MAXLEN discards unread entries: omit max_len, or set trimming_loses_messages = true",
            ),
            _ => {}
        }
    }
}
