//! The numbers and the policy of a topic.

use super::add_time;
use crate::policy_text::text;
use delayq::admin::{Numbers, PausedGroup, Policy, PolicySetting};
use serde_json::{Value, json};

/// The numbers of a topic as JSON.
pub fn numbers(numbers: &Numbers) -> Value {
    let mut value = json!(numbers);
    value.as_object_mut().expect("numbers are an object").remove("next_due");
    add_time(&mut value, "next_due", numbers.next_due);
    add_time(&mut value, "oldest_ready", numbers.oldest_ready);
    add_time(&mut value, "oldest_unhandled", numbers.oldest_unhandled);
    value
}

/// A paused group.
#[must_use]
pub fn paused_group(paused: &PausedGroup) -> Value {
    let mut value = json!({ "group": paused.group });
    add_time(&mut value, "since", Some(paused.since));
    value
}

/// Every setting in force by its name.
#[must_use]
pub fn policy(policy: &Policy) -> Value {
    let policy = policy.in_force();
    let entry = |setting: PolicySetting| (setting.name().replace('-', "_"), json!(text(&policy, setting)));
    PolicySetting::ALL.into_iter().map(entry).collect()
}
