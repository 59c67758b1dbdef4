//! The shape of a measurement: number of shards, kind of ids, and groups.

use delayq::protocol::NameError;
use delayq::{Group, Message, MessageId, ShardCount};
use serde::Serialize;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ids {
    /// The producer (`order-17`): the id decides the shard.
    Own,
    /// delayq: messages of one call share a shard.
    Generated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shape {
    pub(crate) shards: ShardCount,
    pub(crate) ids: Ids,
    pub(crate) groups: bool,
}

// === impl Shape ===

impl Shape {
    pub(crate) const fn own(shards: ShardCount) -> Self {
        Self { shards, ids: Ids::Own, groups: false }
    }

    pub(crate) const fn grouped(shards: ShardCount) -> Self {
        Self { groups: true, ..Self::own(shards) }
    }

    /// The shapes of the tables: own ids without and with groups, and generated ids.
    pub(crate) const fn all(shards: ShardCount) -> [Self; 3] {
        [Self::own(shards), Self::grouped(shards), Self { ids: Ids::Generated, ..Self::own(shards) }]
    }

    pub(crate) fn name(self, mut message: Message, number: u64) -> Result<Message, NameError> {
        if self.ids == Ids::Own {
            message = message.with_id(MessageId::own(format!("order-{number}"))?);
        }
        if self.groups {
            message = message.with_group(Group::new(format!("customer-{number}"))?);
        }
        Ok(message)
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Generated => "generated",
        })
    }
}
