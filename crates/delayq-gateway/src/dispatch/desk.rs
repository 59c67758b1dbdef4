//! A desk: the requests that wait for the same topics under the same lease, and the shards that may have something for them.
//! Pure: decides which shards to ask, and for how many messages, and assigns the messages.

use super::giving_back::Lost;
use super::handed::Handed;
use crate::server::Peer;
use crate::tenant::Tenant;
use delayq::protocol::{Reservation, ReserveRequest, ShardId};
use delayq::{Error, Topic};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

const MAX_MESSAGES: usize = 500;
/// Of one call for a tenant: Redis copies so much in less than a millisecond.
const MAX_TENANT_BYTES: u32 = 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: WantedKind,
    /// 1 to 500.
    pub(crate) max: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WantedKind {
    /// In order of preference.
    pub(crate) topics: Vec<Topic>,
    /// The shards that have nearly all of the messages, in order of preference: each is asked for all that is wanted, and before
    /// any other. Empty: every shard is as likely.
    pub(crate) homes: Vec<ShardId>,
    pub(crate) lease: Duration,
    /// Maximum stored bytes for each request, which the last message may exceed.
    pub(crate) max_bytes: u32,
    /// Which limits what is under way; `None`: no tenant.
    pub(crate) tenant: Option<Tenant>,
}

#[derive(Debug)]
pub(crate) struct Waiter {
    wanted: Wanted,
    /// False: the request wants an answer at once.
    waits: bool,
    peer: Peer,
    answer: oneshot::Sender<Result<Option<Handed>, Error>>,
    /// While more shards are to be asked.
    held: Option<Handed>,
    held_bytes: usize,
}

#[derive(Debug)]
pub(super) struct Desk {
    kind: WantedKind,
    waiters: VecDeque<Waiter>,
    /// The shards to ask, in turn.
    turn: VecDeque<ShardId>,
    in_turn: HashSet<ShardId>,
    /// Those in turn that a request with some messages waits for.
    worth: HashSet<ShardId>,
    /// Those that are being asked, and that such a request waits for.
    further: HashSet<ShardId>,
    /// Messages that reserves on their way may bring.
    out: usize,
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
        Self { wanted, waits, peer, answer, held: None, held_bytes: 0 }
    }

    pub(super) fn kind(&self) -> &WantedKind {
        &self.wanted.kind
    }

    fn is_gone(&self) -> bool {
        self.answer.is_closed() || self.peer.is_gone()
    }

    fn lacks(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.messages().len());
        let is_full = self.held_bytes >= self.wanted.kind.max_bytes as usize;
        if is_full { 0 } else { usize::from(self.wanted.max).saturating_sub(held) }
    }

    /// Up to the wanted number or bytes.
    fn take(&mut self, messages: &mut VecDeque<Reservation>, back: &mpsc::UnboundedSender<Lost>) {
        let mut taken = Vec::new();
        while taken.len() < self.lacks()
            && let Some(message) = messages.pop_front()
        {
            self.held_bytes += message.stored_bytes;
            taken.push(message);
        }
        self.held.get_or_insert_with(|| Handed::new(Vec::new(), back.clone())).extend(taken);
    }

    /// Without messages, answers `otherwise`. Returns the messages if the client is gone.
    fn leave(self, otherwise: Result<Option<Handed>, Error>) -> Option<Handed> {
        let answer = self.held.map_or(otherwise, |held| Ok(Some(held)));
        self.answer.send(answer).err()?.ok()?
    }
}

// === impl Desk ===

impl Desk {
    /// The desk asks every shard first.
    pub(super) fn new(kind: WantedKind, shards: &[ShardId]) -> Self {
        let mut desk = Self {
            kind,
            waiters: VecDeque::new(),
            turn: VecDeque::new(),
            in_turn: HashSet::new(),
            worth: HashSet::new(),
            further: HashSet::new(),
            out: 0,
            failing: BTreeSet::new(),
        };
        shards.iter().for_each(|&shard| desk.ask(shard));
        desk
    }

    pub(super) fn wants(&self, topic: &Topic) -> bool {
        self.kind.topics.contains(topic)
    }

    /// This shard may have something. A request that has some messages already does not wait for news: under a steady trickle it
    /// would wait until it is full.
    pub(super) fn ask(&mut self, shard: ShardId) {
        if self.in_turn.insert(shard) {
            self.turn.push_back(shard);
            if !self.holds_some() {
                self.worth.insert(shard);
            }
        }
    }

    pub(super) fn ask_again(&mut self, shard: ShardId) {
        if self.in_turn.insert(shard) {
            self.turn.push_back(shard);
        }
        self.worth.insert(shard);
    }

    /// A request without a wait has its homes asked, or else every shard: a message that the sender has just put may not be
    /// published yet.
    pub(super) fn join(&mut self, waiter: Waiter, shards: &[ShardId]) {
        if !waiter.waits {
            let likely = if self.kind.homes.is_empty() { shards } else { &waiter.wanted.kind.homes };
            likely.iter().for_each(|&shard| self.ask(shard));
        }
        self.waiters.push_back(waiter);
    }

    /// Forgets absent clients. True if a request is left, or a reserve is in flight.
    pub(super) fn tidy(&mut self) -> bool {
        self.waiters.retain(|waiter| !waiter.is_gone());
        !self.waiters.is_empty() || self.out > 0
    }

    pub(super) fn request(&self, most: usize) -> ReserveRequest {
        ReserveRequest {
            topics: self.kind.topics.clone(),
            most: u16::try_from(most).unwrap_or(u16::MAX),
            max_bytes: if self.kind.tenant.is_some() {
                self.kind.max_bytes.min(MAX_TENANT_BYTES)
            } else {
                self.kind.max_bytes
            },
            lease: Some(self.kind.lease),
        }
    }

    /// The shards to ask now, and for how many messages: in all the wanted number without the messages in flight, in equal shares
    /// unless they are homes; and at most `most`.
    pub(super) fn take(&mut self, most: usize) -> Vec<(ShardId, usize)> {
        let mut taken = Vec::new();
        if self.turn.is_empty() {
            return taken;
        }
        let mut left = self.wanted().saturating_sub(self.out).min(most);
        while left > 0
            && let Some((shard, is_home)) = self.next_shard()
        {
            self.in_turn.remove(&shard);
            // A shard that could not be asked last time may take as long again.
            if self.worth.remove(&shard) && !self.failing.contains(&shard) {
                self.further.insert(shard);
            }
            let share = if is_home { left } else { left.div_ceil(self.turn.len() + 1) };
            let most = share.min(MAX_MESSAGES);
            left -= most;
            self.out += most;
            taken.push((shard, most));
        }
        taken
    }

    /// True for a home.
    fn next_shard(&mut self) -> Option<(ShardId, bool)> {
        let place = |home: &ShardId| self.turn.iter().position(|shard| shard == home);
        match self.kind.homes.iter().find_map(place) {
            Some(at) => self.turn.remove(at).map(|shard| (shard, true)),
            None => self.turn.pop_front().map(|shard| (shard, false)),
        }
    }

    pub(super) fn answered(&mut self, shard: ShardId, asked: usize, failed: Option<&Error>, shards: usize) {
        self.out -= asked;
        self.further.remove(&shard);
        let Some(error) = failed else {
            self.failing.remove(&shard);
            return;
        };
        self.failing.insert(shard);
        if self.failing.len() >= shards {
            self.waiters.drain(..).for_each(|waiter| drop(waiter.leave(Err(error.clone()))));
        }
    }

    /// Hands messages out to the first requests with a present client; the rest is given back.
    pub(super) fn hand_out(&mut self, messages: Vec<Reservation>, back: &mpsc::UnboundedSender<Lost>) {
        let mut messages = VecDeque::from(messages);
        while !messages.is_empty() {
            self.pass_over_absent(&mut messages);
            let Some(waiter) = self.waiters.front_mut() else {
                drop(Handed::new(messages.into(), back.clone()));
                return;
            };
            waiter.take(&mut messages, back);
            if waiter.lacks() == 0 {
                self.answer_first(&mut messages);
            }
        }
    }

    /// Answers the request that has some messages, unless a shard is being asked that it waits for. To be called once
    /// [`Self::take`] has taken what can be asked: a shard that cannot be asked now is not waited for.
    pub(super) fn settle(&mut self, back: &mpsc::UnboundedSender<Lost>) {
        // Only the first has some. Those of a client that is gone go to the next.
        while self.further.is_empty() && self.holds_some() {
            let mut returned = VecDeque::new();
            self.answer_first(&mut returned);
            self.hand_out(returned.into(), back);
        }
    }

    /// If nothing is left to ask.
    pub(super) fn dismiss(&mut self) {
        if self.turn.is_empty() && self.out == 0 {
            let (waiting, leaving) = self.waiters.drain(..).partition(|waiter| waiter.waits);
            self.waiters = waiting;
            let leaving: VecDeque<Waiter> = leaving;
            leaving.into_iter().for_each(|waiter| drop(waiter.leave(Ok(None))));
        }
    }

    fn holds_some(&self) -> bool {
        self.waiters.front().is_some_and(|waiter| waiter.held.is_some())
    }

    /// No message comes any more.
    pub(super) fn close(&mut self) {
        self.waiters.drain(..).for_each(|waiter| drop(waiter.leave(Ok(None))));
    }

    /// Answers the first request with its messages; they return to `messages` if the client is gone.
    fn answer_first(&mut self, messages: &mut VecDeque<Reservation>) {
        let returned = self.waiters.pop_front().and_then(|waiter| waiter.leave(Ok(None)));
        put_back(returned, messages);
    }

    /// Forgets the first requests while their clients are gone; their messages return to `messages`.
    fn pass_over_absent(&mut self, messages: &mut VecDeque<Reservation>) {
        while self.waiters.front().is_some_and(Waiter::is_gone) {
            put_back(self.waiters.pop_front().and_then(|waiter| waiter.held), messages);
        }
    }

    /// Limited to a round.
    fn wanted(&self) -> usize {
        let mut wanted = 0;
        for waiter in self.waiters.iter().filter(|waiter| !waiter.is_gone()) {
            wanted += waiter.lacks();
            if wanted >= self.out + MAX_MESSAGES {
                break;
            }
        }
        wanted
    }
}

/// The messages of a client that is gone, before all others.
fn put_back(returned: Option<Handed>, messages: &mut VecDeque<Reservation>) {
    let returned = returned.map(Handed::into_messages).unwrap_or_default();
    returned.into_iter().rev().for_each(|message| messages.push_front(message));
}
