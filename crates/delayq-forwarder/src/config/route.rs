//! `[[routes]]`: which topics go where.

use crate::pattern::Pattern;
use crate::template::Template;
use delayq_service::config::{Faults, Section};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// `[[routes]]`: which topics go where. The first route that matches a topic applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteConfig {
    /// A topic, or a pattern: `?`, `*` within a `/`, `**` across.
    pub topic: Pattern,
    /// The name of a sink.
    pub sink: String,
    /// The destination as a template; unset: the default of the sink's kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Template>,
    /// The partitioning or ordering key of the destination, as a template; unset: the group, else the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Template>,
    /// The partition, for Kafka: a number from 0, or a template; unset: chosen by the key. A message whose value is not
    /// a number is buried; a message whose partition does not exist uses up its attempts.
    #[serde(deserialize_with = "number_or_text", skip_serializing_if = "Option::is_none")]
    pub partition: Option<Template>,
    /// Headers to add, as templates; a header with missing values is left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Template>,
}

// === impl RouteConfig ===

impl Section for RouteConfig {
    fn validate(&self, at: &mut Faults) {
        // Serde would stop at this fault and hide the faults in the rest of the route.
        if self.topic == Pattern::default() {
            at.refuse("topic", "a route needs a topic or a pattern of topics");
        }
        if self.sink.is_empty() {
            at.refuse("sink", "a route needs the name of a sink");
        }
        let fixed = self.partition.as_ref().and_then(Template::fixed);
        if let Some(Err(message)) = fixed.map(partition) {
            at.refuse("partition", message);
        }
        for name in self.headers.keys() {
            let key = format!("headers.{name}");
            if name.is_empty() || name.len() > 255 || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                at.refuse(&key, "a header's name is 1 to 255 printable ASCII characters without spaces");
            } else if name.to_ascii_lowercase().starts_with("delayq-") {
                at.refuse(&key, "headers that begin with delayq- are reserved");
            }
        }
    }
}

pub(crate) fn partition(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number: &i32| *number >= 0);
    number.ok_or_else(|| format!("`{text}` is not a partition; expected a number from 0"))
}

fn number_or_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Template>, D::Error> {
    from.deserialize_any(NumberOrText).map(Some)
}

struct NumberOrText;

impl Visitor<'_> for NumberOrText {
    type Value = Template;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number, or a template in quotes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Template, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Template, E> {
        number.to_string().parse().map_err(E::custom)
    }
}
