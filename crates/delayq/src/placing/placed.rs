//! A message on its way to where it belongs, after the places where it belonged before the deployment grew.

use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::layout::{CallerLayout, Placement};
use delayq_core::message::Message;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::put::PutItem;
use std::sync::Arc;
use tokio::time::Instant;

/// A message on its way to where it belongs.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) message: Arc<Message>,
    pub(crate) place: Place,
    /// Whether it may go to any shard: it has neither an own id nor a group, and its generated id was given here.
    pub(crate) is_free: bool,
    /// Whether an outage ended an attempt.
    pub(crate) is_repeated: bool,
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
    /// The places that are still to be asked, the next one last.
    earlier: Vec<ShardId>,
    home: ShardId,
}

/// What the messages of one call have in common: shard, layout and topic.
pub(crate) type PutKey = (ShardId, u32, Topic);

// === impl Place ===

impl Place {
    pub(crate) fn new(known: &CallerLayout, places: Placement) -> Self {
        Self { layout: known.word(), earlier: places.earlier, home: places.home }
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
    fn is_earlier(&self) -> bool {
        !self.earlier.is_empty()
    }
}

// === impl Placed ===

impl Placed {
    /// A message that was not tried yet.
    pub(crate) fn new(message: Message, place: Place, is_free: bool) -> Self {
        let message = Arc::new(message);
        Self { message, place, is_free, is_repeated: false, lost: None, first_try: None }
    }

    /// Its id and its group.
    pub(crate) fn name(&self) -> (&MessageId, Option<&Group>) {
        let id = self.message.id.as_ref().expect("a message has its id once it is placed");
        (id, self.message.group.as_ref())
    }

    /// What its call is about.
    pub(crate) fn key(&self) -> PutKey {
        (self.place.at(), self.place.layout, self.message.topic.clone())
    }

    pub(crate) fn item(&self) -> PutItem<'_> {
        PutItem { message: &self.message, earlier: self.place.is_earlier(), first_try: self.first_try }
    }

    /// Moves on to the next place: this one does not know the message.
    pub(crate) fn next_place(&mut self) {
        self.place.earlier.pop();
    }

    /// Begins again by the layout that is known now, if that is another one. What it was answered so far is asked
    /// again: nothing was stored.
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
