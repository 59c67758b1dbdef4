//! Putting messages where they belong, after asking the places where they belonged before the deployment grew.
//!
//! An own id whose place is another one since a growth may still be pending, dead or remembered in its earlier place.
//! So that place is asked first, by a put that stores nothing but answers as a put would: `exists`, `conflict`,
//! `leased` …, or `moved` where it does not know the id. Only `moved` opens the next place. That answer stays true:
//! the shard was asked under the new layout, so it has been raised to it, and refuses whoever still believes that the
//! id belongs there. All who know the new layout put it to its new place alone, where SET NX lets one of them win.

use crate::{
    Client, Error, Message, MessageError, MessageId, PutOutcome, ShardId, Topic, UnixMillis,
    client::calls_worth,
    layout::{Known, Places},
    link::Call,
    verbs::put::{self, PutItem},
};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// How many growths one put follows while it is under way: far more than there can be.
const MOST_GROWTHS: u8 = 8;

/// A message on its way to where it belongs.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) message: Message,
    pub(crate) place: Place,
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
    /// How often it was placed anew.
    growths: u8,
    /// The places that are still to be asked, the next one last.
    earlier: Vec<ShardId>,
    home: ShardId,
}

/// What became of a put, and in which shard.
pub(crate) type PutAnswer = Result<(ShardId, PutOutcome), Error>;

// === impl Place ===

impl Place {
    fn new(known: &Known, places: Places) -> Self {
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

// === impl Client ===

impl Client {
    /// Finds the places of a message, and its id where it has none.
    pub(crate) fn place(
        &self,
        message: &mut Message,
        fallback: ShardId,
        now: UnixMillis,
    ) -> Result<Place, MessageError> {
        let known = self.known();
        Ok(Place::new(&known, places(&known, message, fallback, now)?))
    }

    /// Puts messages, those of one shard and topic together: one answer each, in order. What is repeated goes on
    /// where it was.
    pub(crate) async fn put_placed(&self, puts: &mut [Placed]) -> Vec<PutAnswer> {
        let mut answers: Vec<Option<PutAnswer>> = puts.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..puts.len()).collect();
        while !left.is_empty() {
            left = self.put_round(puts, &left, &mut answers).await;
        }
        answers.into_iter().map(|answer| answer.expect("nothing is left over")).collect()
    }

    /// One pipeline: the messages that have to go on, to their next place or by a newer layout.
    async fn put_round(
        &self,
        puts: &mut [Placed],
        left: &[usize],
        answers: &mut [Option<PutAnswer>],
    ) -> Vec<usize> {
        let groups = calls_of(puts, left);
        let request = |group: &Vec<usize>| {
            let Place { layout, .. } = puts[group[0]].place;
            self.put_request(puts[group[0]].place.at(), layout, &items(puts, group))
        };
        let calls: Vec<Call> = groups.iter().map(request).collect();
        let replies = self.send_all(calls).await;
        let mut again = Vec::new();
        for (group, reply) in groups.into_iter().zip(replies) {
            match reply.and_then(|reply| put::read(reply, &items(puts, &group))) {
                Ok(outcomes) => {
                    for (i, outcome) in group.into_iter().zip(outcomes) {
                        let place = &mut puts[i].place;
                        match outcome {
                            Some(outcome) => answers[i] = Some(Ok((place.at(), outcome))),
                            None => {
                                place.earlier.pop();
                                again.push(i);
                            }
                        }
                    }
                }
                Err(error) => {
                    let known = self.known();
                    for i in group {
                        if matches!(error, Error::Layout { .. }) && puts[i].place_anew(&known) {
                            again.push(i);
                        } else {
                            answers[i] = Some(Err(error.clone()));
                        }
                    }
                }
            }
        }
        again
    }
}

// === impl Placed ===

impl Placed {
    fn item(&self) -> PutItem<'_> {
        PutItem { message: &self.message, earlier: self.place.is_earlier(), first_try: self.first_try }
    }

    /// Begins again by the layout that is known now, if that is another one. What it was answered so far is asked
    /// again: nothing was stored.
    fn place_anew(&mut self, known: &Known) -> bool {
        let growths = self.place.growths + 1;
        let another = known.word() != self.place.layout && growths <= MOST_GROWTHS;
        if another {
            let id = self.message.id.as_ref().expect("a message has its id once it is placed");
            let places = known.layout.places_of(id, self.message.group.as_ref());
            self.place = Place { growths, ..Place::new(known, places) };
        }
        another
    }
}

/// The places of a message, which is given an id there if it has none; in `fallback` where nothing else says the shard.
fn places(
    known: &Known,
    message: &mut Message,
    fallback: ShardId,
    now: UnixMillis,
) -> Result<Places, MessageError> {
    let group = message.group.as_ref().map(|group| known.layout.places(group.as_str()));
    match (&message.id, group) {
        (Some(id @ MessageId::Generated(_)), Some(group)) => {
            let places = known.layout.places_of(id, None);
            // Where the group was before the deployment grew, its operations look as well.
            if !group.newest_first().any(|place| place == places.home) {
                return Err(MessageError::IdOutsideGroup { id: places.home, group: group.home });
            }
            Ok(places)
        }
        (Some(id), _) => Ok(known.layout.places_of(id, message.group.as_ref())),
        (None, group) => {
            let home = group.map_or(fallback, |group| group.home);
            message.id = Some(MessageId::generate(home, now.get()));
            Ok(Places { home, earlier: Vec::new() })
        }
    }
}

fn items<'m>(puts: &'m [Placed], call: &[usize]) -> Vec<PutItem<'m>> {
    call.iter().map(|&i| puts[i].item()).collect()
}

/// The messages of each call: of one shard, one layout and one topic, within the limits of a call.
fn calls_of(puts: &[Placed], left: &[usize]) -> Vec<Vec<usize>> {
    let mut batches: BTreeMap<(ShardId, u32, &Topic), Vec<usize>> = BTreeMap::new();
    for &i in left {
        let Placed { message, place, .. } = &puts[i];
        batches.entry((place.at(), place.layout, message.topic())).or_default().push(i);
    }
    let mut calls = Vec::new();
    for mut batch in batches.into_values() {
        while !batch.is_empty() {
            let rest = batch.split_off(calls_worth(batch.iter().map(|&i| &puts[i].message)));
            calls.push(std::mem::replace(&mut batch, rest));
        }
    }
    calls
}
