//! The confirms of one call, each stored at its index on arrival.
//!
//! The client attaches a returned message to the next confirm of the channel, which may belong to another message. So
//! each call has a channel to itself, and matches returned parcels by topic, group and id. An ack alone proves nothing:
//! the return of its message may be attached to an earlier confirm that is read later. So acks are held back until
//! every confirm issued by then has been read.

use super::bound;
use crate::{Outcome, Outcomes, Parcel};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::message::BasicReturnMessage;
use lapin::types::AMQPValue;
use lapin::{Confirmation, PublisherConfirm};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep_until};

/// Minimum time to hold back an ack; the maximum is twice as long.
const HOLD: Duration = Duration::from_millis(50);

/// Topic, group and id of a message; the group is empty unless part of the name.
type MessageName = (String, String, String);

/// An error tells why the parcel was not sent.
pub(super) type Published = Result<PublisherConfirm, Outcome>;

pub(super) struct Confirms<'a> {
    parcels: &'a [Parcel],
    outcomes: &'a Outcomes,
    silent: Outcome,
    missing: Vec<bool>,
    held: Vec<usize>,
    sure: Vec<usize>,
    returned: HashMap<MessageName, Outcome>,
    failed: Vec<(usize, Outcome)>,
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
                    Some((index, Err(error))) => self.fail(index, Outcome::silent(error.to_string())),
                },
                _ = every.tick() => self.put_sure(),
                () = sleep_until(deadline) => break,
            }
        }
        self.end()
    }

    /// The attached message may be any parcel of this call.
    fn note(&mut self, index: usize, confirmation: Confirmation) {
        let back = match confirmation {
            Confirmation::Ack(back) => {
                self.missing[index] = false;
                self.held.push(index);
                back
            }
            Confirmation::Nack(back) => {
                self.missing[index] = false;
                let why = "the broker refused the message (nack): the queue is full or failing";
                self.failed.push((index, Outcome::down(why)));
                back
            }
            Confirmation::NotRequested => {
                self.fail(index, Outcome::down("the channel lost its confirms"));
                None
            }
        };
        if let Some(message) = back {
            let reason =
                format!("no queue accepts the message: {} {}", message.reply_code, message.reply_text);
            self.returned.insert(named(&message), Outcome::failed(reason));
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
            let about = &self.parcels[index].about;
            let group = about.naming_group().unwrap_or_default().to_owned();
            match self.returned.remove(&(about.topic.clone(), group, about.id.clone())) {
                None => self.outcomes.put(index, Outcome::Delivered),
                Some(unroutable) => self.outcomes.put(index, unroutable),
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
        bound::reject_larger(self.parcels, &mut self.failed);
        for (index, outcome) in self.failed {
            self.outcomes.put(index, outcome);
        }
        self.whole
    }
}

fn named(message: &BasicReturnMessage) -> MessageName {
    let text = |name: &str| match message.delivery.properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        _ => None,
    };
    let [topic, group, id] =
        ["delayq-topic", "delayq-group", "delayq-id"].map(|name| text(name).unwrap_or_default());
    (topic, group, id)
}
