//! What everybody who may read sees of a payload: size and type, and the values that the operators list by topic.
//!
//! Nothing else leaves the gateway: a topic without a list shows no value, a pointer to an object or an array shows its type, and
//! a payload that is no JSON shows its type alone.

use delayq::Topic;
use delayq::admin::Listed;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The JSON pointers of each topic. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown(Arc<BTreeMap<String, Vec<String>>>);

// === impl Shown ===

impl Shown {
    pub(crate) fn new(pointers: &BTreeMap<String, Vec<String>>) -> Self {
        Self(Arc::new(pointers.clone()))
    }

    /// `stored` is the topic's name as Redis has it.
    pub(crate) fn of(&self, stored: &Topic, listed: &Listed) -> Value {
        let Ok(envelope) = &listed.envelope else { return Value::Null };
        if envelope.zstd {
            return json!({ "type": "compressed", "values": {} });
        }
        match serde_json::from_slice::<Value>(&envelope.payload) {
            Ok(payload) => {
                let pointers = self.0.get(stored.as_str()).map_or(&[][..], Vec::as_slice);
                let values = pointers
                    .iter()
                    .filter_map(|pointer| Some((pointer, value_of(payload.pointer(pointer)?))));
                json!({ "type": type_of(&payload), "values": values.map(|(pointer, value)| (pointer.clone(), value)).collect::<BTreeMap<String, Value>>() })
            }
            Err(_) => {
                let is_text = std::str::from_utf8(&envelope.payload).is_ok();
                json!({ "type": if is_text { "text" } else { "bytes" }, "values": {} })
            }
        }
    }
}

/// A value without parts; of another its type, because parts may be added later.
fn value_of(value: &Value) -> Value {
    match value {
        Value::Object(_) | Value::Array(_) => json!({ "type": type_of(value) }),
        plain => plain.clone(),
    }
}

const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
