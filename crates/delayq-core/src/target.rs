//! What identifies a message in later calls.

use crate::id::{Group, MessageId};
use crate::shard::ShardId;

/// Where a message was put: identifies it in later calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The shard it lives in.
    pub shard: ShardId,
    /// Its id.
    pub id: MessageId,
}

/// The message by its id, and by its group if it has one and an own id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The id.
    pub id: MessageId,
    /// The group, which determines the shard.
    pub group: Option<Group>,
}

// === impl Target ===

impl From<MessageId> for Target {
    fn from(id: MessageId) -> Self {
        Self { id, group: None }
    }
}

impl From<Reference> for Target {
    /// An own id in a group does not name the group: add it with [`Target::in_group`].
    fn from(reference: Reference) -> Self {
        reference.id.into()
    }
}

impl Target {
    /// The message of this id in this group.
    pub fn in_group(id: MessageId, group: Group) -> Self {
        Self { id, group: Some(group) }
    }
}
