//! `[[routes]]`: which topics go where.

use crate::{pattern::Pattern, template::Template};
use delayq_service::config::{Faults, Section};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Visitor},
};
use std::{collections::BTreeMap, fmt};

/// `[[routes]]`: which topics go where. The first that matches a topic is its route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// A topic, or a pattern: `?`, `*` within a `/`, `**` across.
    pub topic: String,
    /// The name of a sink.
    pub sink: String,
    /// The destination as a template; unset: what the sink's kind says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What the destination partitions or orders by, as a template; unset: the group, or the id where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The partition, for Kafka: a number from 0, or a template whose value is one; unset: the one that the key goes to.
    /// A message whose value is no number is buried, one whose partition does not exist pays with its attempts.
    #[serde(default, deserialize_with = "number_or_text", skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Headers to add, as templates; one whose values are missing is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

// === impl RouteConfig ===

impl Section for RouteConfig {
    fn validate(&self, at: &mut Faults) {
        if let Err(message) = Pattern::new(&self.topic) {
            at.refuse("topic", message);
        }
        for (key, template) in [("to", &self.to), ("key", &self.key), ("partition", &self.partition)] {
            if let Some(Err(message)) = template.as_deref().map(Template::new) {
                at.refuse(key, message);
            }
        }
        let fixed = self.partition.as_deref().map(Template::new).and_then(Result::ok);
        if let Some(Err(message)) = fixed.as_ref().and_then(Template::fixed).map(partition) {
            at.refuse("partition", message);
        }
        for (name, template) in &self.headers {
            let key = format!("headers.{name}");
            if name.is_empty() || name.len() > 255 || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                at.refuse(&key, "a header's name is 1 to 255 printable ASCII characters without spaces");
            } else if name.to_ascii_lowercase().starts_with("delayq-") {
                at.refuse(&key, "headers that begin with delayq- are delayq's own");
            }
            if let Err(message) = Template::new(template) {
                at.refuse(&key, message);
            }
        }
    }
}

/// Reads the number of a partition.
///
/// # Errors
/// A sentence.
pub(crate) fn partition(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number: &i32| *number >= 0);
    number.ok_or_else(|| format!("`{text}` is no partition; expected a number from 0"))
}

/// A key that is a number as often as it is a template.
fn number_or_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    from.deserialize_any(NumberOrText).map(Some)
}

struct NumberOrText;

impl Visitor<'_> for NumberOrText {
    type Value = String;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number, or a template in quotes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }
}
