//! `[sinks.NAME.redis-list]`.

use crate::sinks::redis::validate_redis;
use delayq_service::config::{Faults, RedisConfig, Section};
use serde::{Deserialize, Serialize};

/// `[sinks.NAME.redis-list]`: lists. The destination is the list's key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisListConfig {
    /// Another Redis, with the keys of `[redis]`; unset: the deployment's own Redis, unless that is a cluster or
    /// several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisConfig>,
    /// The end to push to: `right` for consumers that LPOP, `left` for consumers that RPOP; default right.
    pub end: End,
    /// The form of an element: `payload`, the bytes alone, or `record`, the JSON document of the sink `file`; default
    /// payload.
    pub element: Element,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// RPUSH
    #[default]
    Right,
    /// LPUSH
    Left,
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

impl Section for RedisListConfig {
    fn validate(&self, at: &mut Faults) {
        validate_redis(self.redis.as_ref(), at);
    }
}
