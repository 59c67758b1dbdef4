//! A parcel: a message addressed to a destination, in the form that every sink receives.

use bytes::Bytes;
use delayq::UnixMillis;
use delayq::protocol::{Reservation, UnixMicros};
use delayq_service::events::EventOrigin;
use std::borrow::Cow;

/// A message with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The destination in the sink's own terms: a stream, a queue, a subject, a path of a URL.
    pub destination: String,
    /// The destination's ordering or partitioning key.
    pub key: Option<String>,
    /// The partition of the destination, if the route chose one.
    pub partition: Option<i32>,
    /// The message's headers, and the headers that the route adds.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// delayq's own data about the message.
    pub about: About,
}

/// delayq's own data about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The id as text.
    pub id: String,
    /// The topic.
    pub topic: String,
    /// The group.
    pub group: Option<String>,
    /// When it was due.
    pub due: UnixMillis,
    /// When it became ready.
    pub ready: UnixMicros,
    /// The number of this attempt, from 1.
    pub attempt: u16,
    /// The number of this delivery, from 1.
    pub delivery: u32,
    /// Identifies repeated deliveries at the destination: topic and id. An id of the producer's own may be reused and
    /// may appear in several groups, so a hash of the group and the content is added.
    pub identity: String,
}

// === impl Parcel ===

impl Parcel {
    /// All headers: delayq's own, then the message's and the route's.
    pub fn all_headers(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let own = self.about.headers().map(|(name, value)| -> (&str, _) { (name, value) });
        own.chain(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str().into())))
    }

    /// The value of a header of the message or its route; names are compared without case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

// === impl About ===

impl About {
    /// The data of a reservation.
    #[must_use]
    pub fn of(reservation: &Reservation) -> Self {
        let envelope = &reservation.envelope;
        Self {
            id: reservation.id.to_string(),
            topic: reservation.topic.to_string(),
            group: envelope.group.as_ref().map(ToString::to_string),
            due: envelope.due,
            ready: reservation.ready,
            attempt: envelope.attempt,
            delivery: envelope.delivery,
            identity: identity(reservation),
        }
    }

    /// Lateness (ready minus due) in milliseconds with three decimals.
    #[must_use]
    pub fn late_ms(&self) -> f64 {
        self.ready.since(self.due).as_micros() as f64 / 1000.0
    }

    /// What describes the message in an event.
    #[must_use]
    pub fn origin(&self) -> EventOrigin<'_> {
        EventOrigin { topic: &self.topic, id: &self.id, group: self.group.as_deref(), due: self.due }
    }

    /// delayq's own headers.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        let late_us = self.ready.since(self.due).as_micros();
        let number = |number: u64| Cow::Owned(number.to_string());
        let named = [("delayq-id", self.id.as_str().into()), ("delayq-topic", self.topic.as_str().into())];
        let group = self.origin().naming_group().map(|group| ("delayq-group", group.into()));
        let delivery = [
            ("delayq-attempt", number(self.attempt.into())),
            ("delayq-delivery", number(self.delivery.into())),
            ("delayq-due", number(self.due.get())),
            ("delayq-ready", number(self.ready.millis().get())),
            ("delayq-late-ms", Cow::Owned(format!("{}.{:03}", late_us / 1000, late_us % 1000))),
        ];
        named.into_iter().chain(group).chain(delivery)
    }
}

fn identity(reservation: &Reservation) -> String {
    let (topic, id) = (&reservation.topic, &reservation.id);
    match reservation.envelope.hash {
        None => format!("{topic}/{id}"),
        Some(hash) => format!("{topic}/{id}/{hash}"),
    }
}
