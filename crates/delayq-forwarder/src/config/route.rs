//! `[[routes]]`: which topics go where.

use crate::{pattern::Pattern, template::Template};
use delayq_service::config::{Faults, Section};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `[[routes]]`: which topics go where. The first that matches a topic is its route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
        for (key, template) in [("to", &self.to), ("key", &self.key)] {
            if let Some(Err(message)) = template.as_deref().map(Template::new) {
                at.refuse(key, message);
            }
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
