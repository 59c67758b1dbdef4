//! The confirms of one call, each stored at its index on arrival.
//!
//! The client attaches a returned message to the next confirm of the channel, which may belong to another message. So
//! each call has a channel to itself, and matches returned messages by key, headers and body: equal messages have equal
//! outcomes. An ack alone proves nothing: the return of its message may be attached to an earlier confirm that is
//! read later. So acks are held back until every confirm issued by then has been read.

use super::letter::RabbitmqLetter;
use super::{bound, rabbitmq_words};
use crate::brokers::{Outcome, Outcomes};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::message::BasicReturnMessage;
use lapin::{Confirmation, PublisherConfirm};
use std::time::Duration;
use tokio::time::{Instant, interval, sleep_until};

/// Minimum time to hold back an ack; the maximum is twice as long.
const HOLD: Duration = Duration::from_millis(50);

/// An error tells why the message was not sent.
pub(super) type Published = Result<PublisherConfirm, Outcome>;

pub(super) struct Confirms<'a> {
    letters: &'a [RabbitmqLetter<'a>],
    outcomes: &'a Outcomes,
    silent: Outcome,
    missing: Vec<bool>,
    held: Vec<usize>,
    sure: Vec<usize>,
    returned: Vec<BasicReturnMessage>,
    failed: Vec<(usize, Outcome)>,
    whole: bool,
}

// === impl Confirms ===

impl<'a> Confirms<'a> {
    pub(super) fn new(letters: &'a [RabbitmqLetter<'a>], outcomes: &'a Outcomes, silent: Outcome) -> Self {
        Self {
            letters,
            outcomes,
            silent,
            missing: vec![true; letters.len()],
            held: Vec::new(),
            sure: Vec::new(),
            returned: Vec::new(),
            failed: Vec::new(),
            whole: true,
        }
    }

    /// Until the last confirm or the deadline. Returns whether the channel is reusable.
    pub(super) async fn collect(mut self, published: Vec<Published>, deadline: Instant) -> bool {
        let mut waiting = FuturesUnordered::new();
        for (index, published) in published.into_iter().enumerate() {
            match published {
                Ok(confirm) => waiting.push(async move { (index, confirm.await) }),
                Err(outcome) => self.fail(index, outcome),
            }
        }
        let mut every = interval(HOLD);
        loop {
            tokio::select! {
                biased;
                next = waiting.next() => match next {
                    None => break,
                    Some((index, Ok(confirmation))) => self.note(index, confirmation),
                    Some((index, Err(error))) => self.fail(index, Outcome::silent(rabbitmq_words(&error))),
                },
                _ = every.tick() => self.put_sure(),
                () = sleep_until(deadline) => break,
            }
        }
        self.end()
    }

    /// The attached message may be any message of this call.
    fn note(&mut self, index: usize, confirmation: Confirmation) {
        match confirmation {
            Confirmation::Ack(back) => {
                self.missing[index] = false;
                self.held.push(index);
                self.returned.extend(back);
            }
            Confirmation::Nack(back) => {
                self.missing[index] = false;
                let why = "the broker refused the message (nack): the queue is full or failing";
                self.failed.push((index, Outcome::down(why)));
                self.returned.extend(back);
            }
            Confirmation::NotRequested => {
                self.fail(index, Outcome::down("the channel lost its confirms"));
            }
        }
    }

    fn fail(&mut self, index: usize, outcome: Outcome) {
        self.missing[index] = false;
        self.whole &= !matches!(outcome, Outcome::Unavailable { .. });
        self.failed.push((index, outcome));
    }

    /// These messages can no longer be returned.
    fn put_sure(&mut self) {
        for index in std::mem::replace(&mut self.sure, std::mem::take(&mut self.held)) {
            let letter = &self.letters[index];
            match self.returned.iter().position(|back| letter.is_returned(back)) {
                None => self.outcomes.put(index, Outcome::Delivered),
                Some(place) => self.outcomes.put(index, unroutable(&self.returned.swap_remove(place))),
            }
        }
    }

    fn end(mut self) -> bool {
        for index in 0..self.missing.len() {
            if self.missing[index] {
                self.fail(index, self.silent.clone());
            }
        }
        self.put_sure();
        self.put_sure();
        bound::reject_larger(self.letters, &mut self.failed);
        for (index, outcome) in self.failed {
            self.outcomes.put(index, outcome);
        }
        self.whole
    }
}

fn unroutable(back: &BasicReturnMessage) -> Outcome {
    Outcome::failed(format!("no queue accepts the message: {} {}", back.reply_code, back.reply_text))
}
