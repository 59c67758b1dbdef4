//! How a message is named in a sentence.

use delayq::{Group, MessageId, Target};

/// A message's id, and its group if it has one, for a sentence.
pub fn named(id: &MessageId, group: Option<&Group>) -> String {
    group.map_or_else(|| id.to_string(), |group| format!("{id} in group {group}"))
}

/// Where else an unknown message may be, as the end of a sentence: an own id is another message in each group.
pub const fn elsewhere(target: &Target) -> &'static str {
    match target {
        Target { id: MessageId::Generated(_), .. } => "",
        Target { group: None, .. } => " without a group (if it has one, add --group)",
        Target { group: Some(_), .. } => " (an own id is another message in each group)",
    }
}
