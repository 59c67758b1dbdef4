//! Learning the node of a shard from a refused call.
//!
//! A node of a cluster answers MOVED with the node that has the slot now. Of several Redises, each shard records which one
//! has it, at the node that it has left as at the new one. Before the new node is promoted it is a replica and refuses all
//! writes: a call that a record sent there fails as *not applied*, and any other caller asks what the shard records.

use super::Nodes;
use crate::error::Error;
use crate::link::{Link, Node};
use delayq_core::layout::{LayoutWord, RecordedPlace};
use delayq_core::shard::ShardId;

/// What a refusal says about the node of its shard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lesson {
    /// Nothing.
    Nothing,
    /// Another node of the cluster has the slot, which is known now.
    Slot,
    /// Another one of several Redises has the shard, which is known now.
    Node,
    /// The shard has left its node, and the next one does not serve it yet.
    Between,
    /// The node is a replica: the shard may record another node.
    Replica,
}

// === impl Nodes ===

impl Nodes {
    /// Learns from the error that this node answered to a call.
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
