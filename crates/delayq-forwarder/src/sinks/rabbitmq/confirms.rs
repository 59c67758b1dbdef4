//! The confirms of one call, each put at its place as it comes.
//!
//! The client hands a returned message out with whichever confirm of the channel comes next, not with its own. So each call
//! has a channel to itself, and finds out by topic and id which of its parcels came back. An ack alone says nothing yet: the
//! return of its message may stand in a confirm that was given out before it and is read after it. It is held back until
//! everything that was given out by then has been read.

use super::bound;
use crate::{Outcome, Outcomes, Parcel};
use futures_util::{StreamExt, stream::FuturesUnordered};
use lapin::{Confirmation, PublisherConfirm, message::BasicReturnMessage, types::AMQPValue};
use std::{collections::HashMap, time::Duration};
use tokio::time::{Instant, interval, sleep_until};

/// How long an ack is held back, at least; at most twice as long.
const HOLD: Duration = Duration::from_millis(50);

/// A parcel that was published: its confirm, or why it was not sent.
pub(super) type Published = Result<PublisherConfirm, Outcome>;

/// The confirms of one call.
pub(super) struct Confirms<'a> {
    parcels: &'a [Parcel],
    outcomes: &'a Outcomes,
    /// What a parcel without a confirm comes to.
    silent: Outcome,
    /// Places without a confirm.
    missing: Vec<bool>,
    /// Acks that are held back, and those that were for the whole of the last time.
    held: Vec<usize>,
    sure: Vec<usize>,
    /// Messages that came back, by topic and id.
    returned: HashMap<(String, String), Outcome>,
    failed: Vec<(usize, Outcome)>,
    /// Whether the channel can be used again.
    whole: bool,
}

// === impl Confirms ===

impl<'a> Confirms<'a> {
    pub(super) fn new(parcels: &'a [Parcel], outcomes: &'a Outcomes, silent: Outcome) -> Self {
        Self {
            parcels,
            outcomes,
            silent,
            missing: vec![true; parcels.len()],
            held: Vec::new(),
            sure: Vec::new(),
            returned: HashMap::new(),
            failed: Vec::new(),
            whole: true,
        }
    }

    /// Collects them until all are there or the time is over. Returns whether the channel can be used again.
    pub(super) async fn collect(mut self, published: Vec<Published>, deadline: Instant) -> bool {
        let mut waiting = FuturesUnordered::new();
        for (place, published) in published.into_iter().enumerate() {
            match published {
                Ok(confirm) => waiting.push(async move { (place, confirm.await) }),
                Err(outcome) => self.fail(place, outcome),
            }
        }
        let mut every = interval(HOLD);
        loop {
            tokio::select! {
                biased;
                next = waiting.next() => match next {
                    None => break,
                    Some((place, Ok(confirmation))) => self.note(place, confirmation),
                    Some((place, Err(error))) => self.fail(place, Outcome::silent(error.to_string())),
                },
                _ = every.tick() => self.put_sure(),
                () = sleep_until(deadline) => break,
            }
        }
        self.end()
    }

    /// Notes a confirm, and the message that came back with it: of this call, but of any parcel.
    fn note(&mut self, place: usize, confirmation: Confirmation) {
        let back = match confirmation {
            Confirmation::Ack(back) => {
                self.missing[place] = false;
                self.held.push(place);
                back
            }
            Confirmation::Nack(back) => {
                self.missing[place] = false;
                let why = "the broker refused it (nack): the queue is full or failing";
                self.failed.push((place, Outcome::down(why)));
                back
            }
            Confirmation::NotRequested => {
                self.fail(place, Outcome::down("the channel lost its confirms"));
                None
            }
        };
        if let Some(message) = back {
            let reason = format!("no queue takes it: {} {}", message.reply_code, message.reply_text);
            self.returned.insert(named(&message), Outcome::failed(reason));
        }
    }

    fn fail(&mut self, place: usize, outcome: Outcome) {
        self.missing[place] = false;
        self.whole &= !matches!(outcome, Outcome::Unavailable { .. });
        self.failed.push((place, outcome));
    }

    /// Puts the acks that no return can belong to any more.
    fn put_sure(&mut self) {
        for place in std::mem::replace(&mut self.sure, std::mem::take(&mut self.held)) {
            let about = &self.parcels[place].about;
            match self.returned.remove(&(about.topic.clone(), about.id.clone())) {
                None => self.outcomes.put(place, Outcome::Delivered),
                Some(unroutable) => self.outcomes.put(place, unroutable),
            }
        }
    }

    /// Puts all that is left.
    fn end(mut self) -> bool {
        for place in 0..self.missing.len() {
            if self.missing[place] {
                self.fail(place, self.silent.clone());
            }
        }
        self.put_sure();
        self.put_sure();
        bound::reject_larger(self.parcels, &mut self.failed);
        for (place, outcome) in self.failed {
            self.outcomes.put(place, outcome);
        }
        self.whole
    }
}

/// Topic and id of a message that came back.
fn named(message: &BasicReturnMessage) -> (String, String) {
    let text = |name: &str| match message.delivery.properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        _ => None,
    };
    (text("delayq-topic").unwrap_or_default(), text("delayq-id").unwrap_or_default())
}
