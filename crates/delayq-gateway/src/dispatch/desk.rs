//! A desk: the requests that wait for the same topics under the same lease, and the shards that may have something for them.
//! Pure: decides which shards to ask, and for how many messages, and assigns the messages.

use super::giving_back::Lost;
use super::handed::Handed;
use crate::server::Peer;
use delayq::protocol::{Reservation, ReserveRequest, ShardId};
use delayq::{Error, Topic};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Maximum messages of a reserve.
const MAX_MESSAGES: usize = 500;

/// The wish of a request.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: WantedKind,
    /// Maximum messages, 1 to 500.
    pub(crate) max: u16,
}

/// The common part of the requests of a desk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WantedKind {
    /// In order of preference.
    pub(crate) topics: Vec<Topic>,
    pub(crate) lease: Duration,
    /// Maximum stored bytes for each request, which the last message may exceed.
    pub(crate) max_bytes: u32,
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    wanted: Wanted,
    /// False: the request wants an answer at once.
    waits: bool,
    peer: Peer,
    answer: oneshot::Sender<Result<Option<Handed>, Error>>,
}

/// The requests of a kind.
#[derive(Debug)]
pub(super) struct Desk {
    kind: WantedKind,
    waiters: VecDeque<Waiter>,
    /// The shards to ask, in turn.
    turn: VecDeque<ShardId>,
    /// The same, for looking up.
    in_turn: HashSet<ShardId>,
    /// Messages that reserves on their way may bring.
    out: usize,
    /// Shards that could not be asked.
    failing: BTreeSet<ShardId>,
}

// === impl Waiter ===

impl Waiter {
    pub(super) fn new(
        wanted: Wanted,
        waits: bool,
        peer: Peer,
        answer: oneshot::Sender<Result<Option<Handed>, Error>>,
    ) -> Self {
        Self { wanted, waits, peer, answer }
    }

    pub(super) fn kind(&self) -> &WantedKind {
        &self.wanted.kind
    }

    fn is_gone(&self) -> bool {
        self.answer.is_closed() || self.peer.is_gone()
    }

    fn say(self, answer: Result<Option<Handed>, Error>) {
        // A request that is gone needs no answer; one with messages is never sent this way.
        let _ = self.answer.send(answer);
    }
}

// === impl Desk ===

impl Desk {
    /// A desk that asks every shard first.
    pub(super) fn new(kind: WantedKind, shards: &[ShardId]) -> Self {
        let (turn, in_turn) = (VecDeque::new(), HashSet::new());
        let mut desk =
            Self { kind, waiters: VecDeque::new(), turn, in_turn, out: 0, failing: BTreeSet::new() };
        shards.iter().for_each(|&shard| desk.ask(shard));
        desk
    }

    pub(super) fn wants(&self, topic: &Topic) -> bool {
        self.kind.topics.contains(topic)
    }

    /// This shard may have something.
    pub(super) fn ask(&mut self, shard: ShardId) {
        if self.in_turn.insert(shard) {
            self.turn.push_back(shard);
        }
    }

    /// A request without a wait has every shard asked: a message that the sender has just put may not be published yet.
    pub(super) fn join(&mut self, waiter: Waiter, shards: &[ShardId]) {
        if !waiter.waits {
            shards.iter().for_each(|&shard| self.ask(shard));
        }
        self.waiters.push_back(waiter);
    }

    /// Forgets the requests of absent clients. Returns true if a request is left, or a reserve is in flight.
    pub(super) fn tidy(&mut self) -> bool {
        self.waiters.retain(|waiter| !waiter.is_gone());
        !self.waiters.is_empty() || self.out > 0
    }

    pub(super) fn request(&self, most: usize) -> ReserveRequest {
        ReserveRequest {
            topics: self.kind.topics.clone(),
            most: u16::try_from(most).unwrap_or(u16::MAX),
            max_bytes: self.kind.max_bytes,
            lease: Some(self.kind.lease),
        }
    }

    /// The shards to ask now, and for how many messages: in all the wanted number without the messages in flight, in equal shares.
    pub(super) fn take(&mut self) -> Vec<(ShardId, usize)> {
        let mut taken = Vec::new();
        if self.turn.is_empty() {
            return taken;
        }
        let mut left = self.wanted().saturating_sub(self.out);
        while left > 0
            && let Some(shard) = self.turn.pop_front()
        {
            self.in_turn.remove(&shard);
            let most = left.div_ceil(self.turn.len() + 1).min(MAX_MESSAGES);
            left -= most;
            self.out += most;
            taken.push((shard, most));
        }
        taken
    }

    /// A reserve of so many has ended.
    pub(super) fn answered(&mut self, shard: ShardId, asked: usize, failed: Option<&Error>, shards: usize) {
        self.out -= asked;
        let Some(error) = failed else {
            self.failing.remove(&shard);
            return;
        };
        self.failing.insert(shard);
        if self.failing.len() >= shards {
            self.waiters.drain(..).for_each(|waiter| waiter.say(Err(error.clone())));
        }
    }

    /// Hands messages out to the first requests with a present client; the rest is given back.
    pub(super) fn hand_out(&mut self, messages: Vec<Reservation>, back: &mpsc::UnboundedSender<Lost>) {
        let mut messages = VecDeque::from(messages);
        while !messages.is_empty() {
            let Some(waiter) = self.next_waiter() else {
                drop(Handed::new(messages.into(), back.clone()));
                return;
            };
            let handed = Handed::new(share(&waiter.wanted, &mut messages), back.clone());
            if let Err(Ok(Some(returned))) = waiter.answer.send(Ok(Some(handed))) {
                for message in returned.into_messages().into_iter().rev() {
                    messages.push_front(message);
                }
            }
        }
    }

    /// Answers the requests that do not wait, if nothing is left to ask.
    pub(super) fn dismiss(&mut self) {
        if self.turn.is_empty() && self.out == 0 {
            let (waiting, leaving) = self.waiters.drain(..).partition(|waiter| waiter.waits);
            self.waiters = waiting;
            let leaving: VecDeque<Waiter> = leaving;
            leaving.into_iter().for_each(|waiter| waiter.say(Ok(None)));
        }
    }

    /// Answers every request: nothing comes any more.
    pub(super) fn close(&mut self) {
        self.waiters.drain(..).for_each(|waiter| waiter.say(Ok(None)));
    }

    /// The number of wanted messages, limited to a round.
    fn wanted(&self) -> usize {
        let mut wanted = 0;
        for waiter in self.waiters.iter().filter(|waiter| !waiter.is_gone()) {
            wanted += usize::from(waiter.wanted.max);
            if wanted >= self.out + MAX_MESSAGES {
                break;
            }
        }
        wanted
    }

    fn next_waiter(&mut self) -> Option<Waiter> {
        loop {
            let waiter = self.waiters.pop_front()?;
            if !waiter.is_gone() {
                return Some(waiter);
            }
        }
    }
}

/// The messages of a request: up to the wanted number or bytes.
fn share(wanted: &Wanted, messages: &mut VecDeque<Reservation>) -> Vec<Reservation> {
    let (mut share, mut bytes) = (Vec::new(), 0);
    while share.len() < usize::from(wanted.max)
        && bytes < wanted.kind.max_bytes as usize
        && let Some(message) = messages.pop_front()
    {
        bytes += message.stored_bytes;
        share.push(message);
    }
    share
}
