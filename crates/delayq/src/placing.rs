//! Putting messages where they belong, after asking the places where they belonged before the deployment grew.
//!
//! An own id whose place is another one since a growth may still be pending, dead or remembered in its earlier place.
//! So that place is asked first, by a put that stores nothing but answers as a put would: `exists`, `conflict`,
//! `leased` …, or `moved` where it does not know the id. Only `moved` opens the next place. That answer stays true:
//! the shard was asked under the new layout, so it has been raised to it, and refuses a caller who still believes that the
//! id belongs there. All who know the new layout put it to its new place alone, where SET NX lets one of them win.

use crate::calls::Calls;
use crate::circuit::Circuit;
use crate::client::Client;
use crate::emptied::Emptied;
use crate::error::Error;
use crate::payloads::Payloads;
use crate::scatter::{Batch, batches, in_order, scatter};
use crate::spread::Spread;
use delayq_core::durability::Waits;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::layout::{CallerLayout, Placement};
use delayq_core::message::{Message, MessageError};
use delayq_core::shard::{ShardCount, ShardId};
use delayq_core::time::UnixMillis;
use delayq_core::verbs::put::{self, PutItem, PutOutcome};
use std::sync::Arc;
use tokio::time::Instant;

/// How many growths one put follows while it is under way: far more than there can be.
const MOST_GROWTHS: u8 = 8;

/// Chooses the shards of messages, and puts them there. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Placing {
    calls: Calls,
    payloads: Payloads,
    spread: Arc<Spread>,
    circuit: Circuit,
    emptied: Emptied,
}

/// A message on its way to where it belongs.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) message: Arc<Message>,
    pub(crate) place: Place,
    /// Whether it may go to any shard: it has neither an own id nor a group, and its generated id was given here.
    pub(crate) is_free: bool,
    /// When this process first tried it, where that try's answer was lost.
    pub(crate) lost: Option<Instant>,
    /// When its first try began, on Redis's clock, where that try's answer was lost.
    pub(crate) first_try: Option<UnixMillis>,
}

/// How far a message has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The layout by which it is placed.
    layout: u32,
    /// How often it was placed again.
    growths: u8,
    /// The places that are still to be asked, the next one last.
    earlier: Vec<ShardId>,
    home: ShardId,
}

/// What the messages of one call have in common: shard, layout and topic.
type PutKey = (ShardId, u32, Topic);

/// The shard that a put was last sent to, and what became of it there.
pub(crate) type PutAnswer = (ShardId, Result<PutOutcome, Error>);

// === impl Place ===

impl Place {
    fn new(known: &CallerLayout, places: Placement) -> Self {
        Self { layout: known.word(), growths: 0, earlier: places.earlier, home: places.home }
    }

    /// The shard that comes next.
    pub(crate) fn at(&self) -> ShardId {
        self.earlier.last().copied().unwrap_or(self.home)
    }

    /// The shard that it belongs to.
    pub(crate) fn home(&self) -> ShardId {
        self.home
    }

    /// Whether that is an earlier place, which is only asked.
    pub(crate) fn is_earlier(&self) -> bool {
        !self.earlier.is_empty()
    }
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
        let nodes = self.calls.nodes();
        if nodes.only().is_some() {
            return self.spread.present(self.calls.shards(), |_| false);
        }
        let outages = self.circuit.outages();
        let avoid = |shard| !nodes.has_node(shard) || outages.of(shard).is_some() || self.emptied.has(shard);
        self.spread.present(self.calls.shards(), avoid)
    }

    /// A write to a shard failed: notes whether its node is silent, or has lost shards.
    pub(crate) fn note(&self, shard: ShardId, error: &Error) {
        self.circuit.note(shard, error);
        self.emptied.note(shard, error);
    }

    /// A message that its shard did not take because it is not there, under another id in a shard of another node; `None`:
    /// its shard is not of our choice, or no other node is known to be well.
    pub(crate) fn elsewhere(&self, put: &Placed, now: UnixMillis) -> Option<Placed> {
        let shard = put.is_free.then(|| self.present_shard()).filter(|&shard| !self.emptied.has(shard))?;
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

    /// Puts messages in their next places, those of one shard and topic in one call: one answer each, in order; `None`:
    /// it has to be put again, in the place that is next now.
    pub(crate) async fn put_placed(&self, puts: &mut [Placed], waits: &Waits) -> Vec<Option<PutAnswer>> {
        let batches = batches(puts.iter().enumerate().map(|(i, put)| (i, put.key(), put.message.bytes())));
        let request = |batch: &Batch<PutKey>| {
            let (shard, layout, topic) = &batch.key;
            let stored = |message: &Message| self.payloads.stored(message);
            let mut call = put::request(*shard, topic, &items(puts, &batch.items), stored).under(*layout);
            call.waits = waits.clone();
            call
        };
        let read = |batch: &Batch<PutKey>, reply| put::read(reply, &items(puts, &batch.items));
        let found = in_order(scatter(&self.calls, &batches, request, read).await);
        let known = self.calls.known();
        puts.iter_mut().zip(found).map(|(put, answer)| put.take_in(answer, &known)).collect()
    }
}

// === impl Placed ===

impl Placed {
    /// Its id and its group.
    pub(crate) fn name(&self) -> (&MessageId, Option<&Group>) {
        let id = self.message.id.as_ref().expect("a message has its id once it is placed");
        (id, self.message.group.as_ref())
    }

    /// What its call is about.
    fn key(&self) -> PutKey {
        (self.place.at(), self.place.layout, self.message.topic.clone())
    }

    /// What an answer comes to; `None`: it goes on, to its next place or by a newer layout.
    fn take_in(
        &mut self,
        answer: Result<Option<PutOutcome>, Error>,
        known: &CallerLayout,
    ) -> Option<PutAnswer> {
        match answer {
            Ok(Some(outcome)) => Some((self.place.at(), Ok(outcome))),
            Ok(None) => {
                self.place.earlier.pop();
                None
            }
            Err(Error::Layout { .. }) if self.place_again(known) => None,
            Err(error) => Some((self.place.at(), Err(error))),
        }
    }

    fn item(&self) -> PutItem<'_> {
        PutItem { message: &self.message, earlier: self.place.is_earlier(), first_try: self.first_try }
    }

    /// Begins again by the layout that is known now, if that is another one. What it was answered so far is asked
    /// again: nothing was stored.
    fn place_again(&mut self, known: &CallerLayout) -> bool {
        let growths = self.place.growths + 1;
        let another = known.word() != self.place.layout && growths <= MOST_GROWTHS;
        if another {
            let id = self.message.id.as_ref().expect("a message has its id once it is placed");
            let places = known.layout.placement_of(id, self.message.group.as_ref());
            self.place = Place { growths, ..Place::new(known, places) };
        }
        another
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

fn items<'m>(puts: &'m [Placed], call: &[usize]) -> Vec<PutItem<'m>> {
    call.iter().map(|&i| puts[i].item()).collect()
}
