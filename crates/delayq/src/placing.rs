//! Putting messages where they belong, after asking the places where they belonged before the deployment grew.
//!
//! An own id whose place is another one since a growth may still be pending, dead or remembered in its earlier place.
//! So that place is asked first, by a put that stores nothing but answers as a put would: `exists`, `conflict`,
//! `leased` …, or `moved` where it does not know the id. Only `moved` opens the next place. That answer stays true:
//! the shard was asked under the new layout, so it has been raised to it, and refuses a caller who still believes that the
//! id belongs there. All who know the new layout put it to its new place alone, where SET NX lets one of them win.

mod placed;

pub(crate) use placed::{Place, Placed, PutKey};

use crate::calls::Calls;
use crate::circuit::Circuit;
use crate::client::Client;
use crate::emptied::Emptied;
use crate::error::Error;
use crate::payloads::Payloads;
use crate::spread::Spread;
use delayq_core::id::MessageId;
use delayq_core::layout::{CallerLayout, Placement};
use delayq_core::message::{Message, MessageError};
use delayq_core::shard::{ShardCount, ShardId};
use delayq_core::time::UnixMillis;
use std::sync::Arc;

/// Chooses the shards of messages, and puts them there. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Placing {
    calls: Calls,
    payloads: Payloads,
    spread: Arc<Spread>,
    circuit: Circuit,
    emptied: Emptied,
}

// === impl Placing ===

impl Placing {
    pub(crate) fn new(client: &Client, circuit: Circuit) -> Self {
        let Client { calls, payloads, .. } = client.clone();
        let emptied = Emptied::new(calls.clone());
        Self { calls, payloads, spread: Arc::default(), circuit, emptied }
    }

    /// The shard for messages with generated ids, at a node that is known, and not known to be silent or to have lost
    /// shards. Those that go together share one, so that they share a call.
    pub(crate) fn present_shard(&self) -> ShardId {
        let (nodes, outages) = (self.calls.nodes(), self.circuit.outages());
        let avoid = |shard| !nodes.has_node(shard) || outages.of(shard).is_some() || self.emptied.has(shard);
        self.spread.present(self.calls.shards(), avoid)
    }

    /// A write to a shard failed: notes whether its node is silent, or has lost shards.
    pub(crate) fn note(&self, shard: ShardId, error: &Error) {
        self.circuit.note(shard, error);
        self.emptied.note(shard, error);
    }

    /// Whether several nodes have the shards.
    pub(crate) fn has_other_nodes(&self) -> bool {
        self.calls.nodes().only().is_none()
    }

    /// A message that its shard did not take because it is not there, or its node cannot be reached, under another id in a shard of another node; `None`:
    /// its shard is not of our choice, or no other node is known to be well.
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

    /// Goes on to the next shard for messages with generated ids. Now and then that asks shards how much they hold,
    /// in the background: no put waits for it.
    pub(crate) fn next_shard(&self) -> ShardId {
        let shards = self.calls.shards();
        let look = self.spread.advance(shards);
        if !look.is_empty() {
            let placing = self.clone();
            tokio::spawn(async move { placing.look_at_shards(shards, &look).await });
        }
        self.present_shard()
    }

    async fn look_at_shards(&self, shards: ShardCount, look: &[ShardId]) {
        let found = self.calls.shard_layouts(look).await;
        let mut holds = Vec::with_capacity(look.len());
        for (&shard, found) in look.iter().zip(found) {
            match found {
                Ok(Some(found)) => {
                    self.calls.shared_layout().learn(&found.layout);
                    holds.push((shard, found.messages));
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%shard, %error, "how much it holds is not known"),
            }
        }
        self.spread.saw(shards, holds.into_iter());
    }

    /// Why nothing is sent to a shard now, while its node is known to be silent.
    pub(crate) fn outage(&self, shard: ShardId) -> Option<Error> {
        self.circuit.outage(shard)
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(crate) fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    /// Finds the places of a message, and its id where it has none.
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

/// The places of a message, which is given an id there if it has none; in `fallback` where nothing else says the shard.
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
            // Where the group was before the deployment grew, its operations look as well.
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
