//! Following shards that move from one of several Redises to another.
//!
//! The record of a shard says who has it, at the node that it has left as at the new one, so a refusal says where to send a
//! call again: nothing was done by it. Before the new node is promoted it is a replica, and refuses all writes: who was sent
//! there by the record fails as *not applied* and tries again; who was not asks what it records.

use crate::error::Error;
use crate::link::{Link, Nodes};
use crate::wrong_node;
use delayq_core::id::NodeName;
use delayq_core::layout::{LayoutWord, RecordedPlace};
use delayq_core::reply::Value;
use delayq_core::shard::ShardId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is followed while some calls are sent.
#[derive(Default)]
pub(super) struct Following {
    /// Shards whose calls were sent to another node.
    followed: BTreeSet<ShardId>,
    /// Those that the last answer sent to another node.
    sent_on: BTreeSet<ShardId>,
    to_ask: Vec<(Arc<Link>, Vec<usize>)>,
}

// === impl Following ===

impl Following {
    /// Whether a call was refused by a shard that is at another node, which is known now.
    pub(super) fn follow(
        &mut self,
        nodes: &Nodes,
        link: &Link,
        shard: ShardId,
        answer: &Result<Value, Error>,
    ) -> bool {
        let follows = elsewhere(link, answer).is_some_and(|node| nodes.learn(shard, &node));
        match follows {
            true => {
                self.followed.insert(shard);
                self.sent_on.insert(shard)
            }
            false => self.sent_on.remove(&shard),
        };
        follows
    }

    /// Whether a replica refused a call that no record sent there.
    pub(super) fn is_to_be_asked(&self, link: &Link, shard: ShardId, answer: &Result<Value, Error>) -> bool {
        let is_replica = matches!(answer, Err(Error::Redis { code, .. }) if code == "READONLY");
        is_replica && link.name().is_some() && !self.followed.contains(&shard)
    }

    /// Notes a call whose shard is to be asked at this node what it records.
    pub(super) fn ask(&mut self, link: &Arc<Link>, call: usize) {
        match self.to_ask.iter_mut().find(|(node, _)| Arc::ptr_eq(node, link)) {
            Some((_, calls)) => calls.push(call),
            None => self.to_ask.push((Arc::clone(link), vec![call])),
        }
    }

    /// Those that were noted.
    pub(super) fn asked(&mut self) -> Vec<(Arc<Link>, Vec<usize>)> {
        std::mem::take(&mut self.to_ask)
    }

    /// The last answer of a call: a shard that is between two nodes is served again soon.
    pub(super) fn settle(
        &self,
        nodes: &Nodes,
        shard: ShardId,
        answer: Result<Value, Error>,
    ) -> Result<Value, Error> {
        let is_between = match refusing(&answer) {
            // It is not served by the node that it moves to yet.
            Some(RecordedPlace::Moved(node, _)) => nodes.name(shard) == Some(&node),
            Some(_) => self.sent_on.contains(&shard),
            None => false,
        };
        if is_between { Err(wrong_node::moving(shard)) } else { answer }
    }
}

/// What a shard records that refused a call.
fn refusing(answer: &Result<Value, Error>) -> Option<RecordedPlace> {
    let Err(Error::Layout { found, .. }) = answer else { return None };
    Some(found.parse::<LayoutWord>().ok()?.place)
}

/// The other node at which a shard says that it is.
fn elsewhere(link: &Link, answer: &Result<Value, Error>) -> Option<NodeName> {
    match refusing(answer)? {
        RecordedPlace::Here(node) | RecordedPlace::Moved(node, _) if link.name()? != &node => Some(node),
        _ => None,
    }
}
