//! Placing messages in shards, after asking the shards from before a growth of the deployment.
//!
//! An own id that belongs to another shard since a growth may still be pending, dead or remembered in the earlier
//! shard. The earlier shard is therefore asked first, by a put that stores nothing but answers as a put would:
//! `exists`, `conflict`, `leased` …, or `moved` for an unknown id. Only `moved` opens the next shard. That answer stays
//! true: the shard was asked under the new layout, so the shard has been raised to this layout, and refuses a caller
//! that still believes that the id belongs there. All callers with the new layout put the id to the new shard alone,
//! where SET NX lets one caller win.

mod placed;

pub(crate) use placed::{Place, Placed, PutKey};

use crate::calls::Calls;
use crate::client::Client;
use crate::emptied::Emptied;
use crate::error::Error;
use crate::payloads::Payloads;
use crate::silence::Silence;
use crate::spread::Spread;
use delayq_core::id::MessageId;
use delayq_core::layout::{CallerLayout, Placement};
use delayq_core::message::{Message, MessageError};
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Placing {
    calls: Calls,
    payloads: Payloads,
    spread: Arc<Spread>,
    silence: Silence,
    emptied: Emptied,
}

// === impl Placing ===

impl Placing {
    pub(crate) fn new(client: &Client, silence: Silence) -> Self {
        let Client { calls, payloads, .. } = client.clone();
        let emptied = Emptied::new(calls.clone());
        Self { calls, payloads, spread: Arc::default(), silence, emptied }
    }

    /// Its node is known, and not known to be silent or to have lost shards. Messages of one pipeline share a
    /// shard, so that they share a call.
    pub(crate) fn present_shard(&self) -> ShardId {
        let (nodes, outages) = (self.calls.nodes(), self.silence.outages());
        let avoid = |shard| !nodes.has_node(shard) || outages.of(shard).is_some() || self.emptied.has(shard);
        self.spread.present(self.calls.shards(), avoid)
    }

    /// The node may be silent, or may have lost shards.
    pub(crate) fn note(&self, shard: ShardId, error: &Error) {
        self.silence.note(shard, error);
        self.emptied.note(shard, error);
    }

    pub(crate) fn has_other_nodes(&self) -> bool {
        self.calls.nodes().only().is_none()
    }

    /// Places a message in a shard of another node, under another id, after the shard was missing or the node could not
    /// be reached. `None` if the shard of the message is fixed, or no other node is known to be healthy.
    pub(crate) fn elsewhere(&self, put: &Placed, now: UnixMillis) -> Option<Placed> {
        let nodes = self.calls.nodes();
        let is_elsewhere = |&shard: &ShardId| {
            !self.emptied.has(shard) && nodes.label(shard) != nodes.label(put.place.home())
        };
        let shard = put.is_free.then(|| self.present_shard()).filter(is_elsewhere)?;
        let mut message = Message::clone(&put.message);
        message.id = Some(MessageId::generate(shard, now.get()));
        let place = Place::new(&self.calls.known(), Placement { home: shard, earlier: Vec::new() });
        Some(Placed { message: Arc::new(message), place, ..put.clone() })
    }

    pub(crate) fn next_shard(&self) -> ShardId {
        self.spread.advance();
        self.present_shard()
    }

    pub(crate) fn outage(&self, shard: ShardId) -> Option<Error> {
        self.silence.outage(shard)
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(crate) fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    /// Also determines the id if there is none.
    pub(crate) fn place(
        &self,
        message: &mut Message,
        fallback: ShardId,
        now: UnixMillis,
    ) -> Result<Place, MessageError> {
        let known = self.calls.known();
        Ok(Place::new(&known, places(&known, message, fallback, now)?))
    }
}

/// Generates an id if there is none; `fallback` applies to a message without an id and a group.
fn places(
    known: &CallerLayout,
    message: &mut Message,
    fallback: ShardId,
    now: UnixMillis,
) -> Result<Placement, MessageError> {
    let group = message.group.as_ref().map(|group| known.layout.placement(group.as_str()));
    match (&message.id, group) {
        (Some(id @ MessageId::Generated(_)), Some(group)) => {
            let places = known.layout.placement_of(id, None);
            // Operations of the group also search the shards from before a growth.
            if !group.newest_first().any(|place| place == places.home) {
                return Err(MessageError::IdOutsideGroup { id: places.home, group: group.home });
            }
            Ok(places)
        }
        (Some(id), _) => Ok(known.layout.placement_of(id, message.group.as_ref())),
        (None, group) => {
            let home = group.map_or(fallback, |group| group.home);
            message.id = Some(MessageId::generate(home, now.get()));
            Ok(Placement { home, earlier: Vec::new() })
        }
    }
}
