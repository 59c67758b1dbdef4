//! A message on the way to its shard, after the shards from before a growth of the deployment.

use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::layout::{CallerLayout, Placement};
use delayq_core::message::Message;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::put::PutItem;
use std::sync::Arc;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) message: Arc<Message>,
    pub(crate) place: Place,
    /// True if the message may go to any shard: a message without an own id and without a group, with an id that was
    /// generated here.
    pub(crate) is_free: bool,
    pub(crate) is_repeated: bool,
    /// Start of this process's first attempt, if the answer to that attempt was lost.
    pub(crate) lost: Option<Instant>,
    /// Start of the first attempt on Redis's clock, if the answer to that attempt was lost.
    pub(crate) first_try: Option<UnixMillis>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    layout: u32,
    /// The earlier shards that are still to be asked, the next shard last.
    earlier: Vec<ShardId>,
    home: ShardId,
}

/// The common properties of puts that share a call: shard, layout and topic.
pub(crate) type PutKey = (ShardId, u32, Topic);

// === impl Place ===

impl Place {
    pub(crate) fn new(known: &CallerLayout, places: Placement) -> Self {
        Self { layout: known.word(), earlier: places.earlier, home: places.home }
    }

    pub(crate) fn at(&self) -> ShardId {
        self.earlier.last().copied().unwrap_or(self.home)
    }

    pub(crate) fn home(&self) -> ShardId {
        self.home
    }

    /// Earlier shards are only asked.
    fn is_earlier(&self) -> bool {
        !self.earlier.is_empty()
    }
}

// === impl Placed ===

impl Placed {
    pub(crate) fn new(message: Message, place: Place, is_free: bool) -> Self {
        let message = Arc::new(message);
        Self { message, place, is_free, is_repeated: false, lost: None, first_try: None }
    }

    pub(crate) fn name(&self) -> (&MessageId, Option<&Group>) {
        let id = self.message.id.as_ref().expect("a message has its id once it is placed");
        (id, self.message.group.as_ref())
    }

    /// Approximate size in a call: payload and headers, and 512 for the rest, which rarely needs more.
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.message.headers.iter().map(|(name, value)| name.len() + value.len() + 3);
        self.message.payload.len() + headers.sum::<usize>() + 512
    }

    pub(crate) fn key(&self) -> PutKey {
        (self.place.at(), self.place.layout, self.message.topic.clone())
    }

    pub(crate) fn item(&self) -> PutItem<'_> {
        PutItem { message: &self.message, earlier: self.place.is_earlier(), first_try: self.first_try }
    }

    /// The present shard answered that the message is unknown.
    pub(crate) fn next_place(&mut self) {
        self.place.earlier.pop();
    }

    /// Starts over under the layout that is known now, if the layout has changed. Earlier shards are asked again:
    /// nothing was stored.
    pub(crate) fn place_again(&mut self, known: &CallerLayout) -> bool {
        let another = known.word() != self.place.layout;
        if another {
            let id = self.message.id.as_ref().expect("a message has its id once it is placed");
            let places = known.layout.placement_of(id, self.message.group.as_ref());
            self.place = Place::new(known, places);
        }
        another
    }
}
