//! What is stored, and what became of a call, as JSON: the words of `delayq -o json` and of the gateway.

mod history;
mod message;
mod outcomes;
mod topic;

pub use history::{events, with_holders};
pub use message::message;
pub use outcomes::{cancel, cancel_word, put, put_word, reschedule, settled};
pub use topic::{numbers, paused_group, policy};

use crate::when::time;
use delayq::UnixMillis;
use serde_json::Value;

/// Adds a time to an object: `{name}_at` as RFC 3339 and `{name}_ms`; both are null where there is none.
pub fn add_time(value: &mut Value, name: &str, at: Option<UnixMillis>) {
    value[format!("{name}_at")] = at.map(time).into();
    value[format!("{name}_ms")] = at.map(UnixMillis::get).into();
}
