//! Learning the node of a shard from a refused call.
//!
//! A cluster node answers MOVED with the present node of the slot. Among several Redises, each shard records the
//! present node, both at the former node and at the new node. Until the promotion the new node is a replica and refuses
//! all writes: a call that a record sent there fails as *not applied*, and any other caller reads the shard's record.

use super::Nodes;
use crate::error::Error;
use crate::link::{Link, Node};
use delayq_core::layout::{LayoutWord, RecordedPlace};
use delayq_core::shard::ShardId;

/// The meaning of a refusal for the placement of the shard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lesson {
    Nothing,
    /// Another node of the cluster has the slot; the new node has been noted.
    Slot,
    /// Another Redis of several has the shard; the new node has been noted.
    Node,
    /// The shard has left the node, and the next node does not serve the shard yet.
    Between,
    /// The node is a replica: the shard may record another node.
    Replica,
}

// === impl Nodes ===

impl Nodes {
    pub(crate) fn learn_from(&self, link: &Link, shard: ShardId, error: &Error) -> Lesson {
        match error {
            Error::Redis { code, detail } if code == "MOVED" => self.redirected(link, shard, detail),
            Error::Redis { code, .. } if code == "READONLY" && link.name().is_some() => Lesson::Replica,
            Error::Layout { found, .. } => self.recorded(link, shard, found),
            _ => Lesson::Nothing,
        }
    }

    fn redirected(&self, link: &Link, shard: ShardId, detail: &str) -> Lesson {
        let to = detail.split_once(' ').and_then(|(_, to)| {
            let from = Node::parse(link.address(), 0)?;
            from.redirected(to).filter(|to| *to != from)
        });
        let Some(to) = to else { return Lesson::Nothing };
        self.moved(&[(self.keys().slot(shard), to)]);
        Lesson::Slot
    }

    fn recorded(&self, link: &Link, shard: ShardId, found: &str) -> Lesson {
        let Ok(LayoutWord { place, .. }) = found.parse() else { return Lesson::Nothing };
        match (place, link.name()) {
            (RecordedPlace::Moved(node, _), Some(here)) if node == *here => Lesson::Between,
            (RecordedPlace::Here(node) | RecordedPlace::Moved(node, _), Some(here)) if node != *here => {
                if self.learn(shard, &node) {
                    Lesson::Node
                } else {
                    Lesson::Nothing
                }
            }
            _ => Lesson::Nothing,
        }
    }
}
