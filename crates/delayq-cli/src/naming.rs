//! Names messages in sentences.

use delayq::{Group, MessageId, Target};

/// A message's id, with the group if any, for a sentence.
pub fn named(id: &MessageId, group: Option<&Group>) -> String {
    group.map_or_else(|| id.to_string(), |group| format!("{id} in group {group}"))
}

/// Other places of an unknown message, as the end of a sentence: an own id is another message in each group.
pub const fn elsewhere(target: &Target) -> &'static str {
    match target {
        Target { id: MessageId::Generated(_), .. } => "",
        Target { group: None, .. } => " without a group (if it has one, add --group)",
        Target { group: Some(_), .. } => " (each group has its own ids)",
    }
}
