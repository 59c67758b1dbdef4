//! The spans of a message with a recorded trace. All belong to the producer's span, whose id is in the header
//! `traceparent`; the delivered message names the span of its delivery instead. Times are by Redis's clock.

use crate::About;
use delayq::protocol::{Reservation, UnixMicros};
use delayq_service::brokers::Outcome;
use delayq_service::traces::Span;
use delayq_service::{TRACEPARENT, TraceParent, Traces};

/// A reserved message with a recorded trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traced {
    put: TraceParent,
    deliver: TraceParent,
}

pub(crate) struct Delivery<'d> {
    pub(crate) about: &'d About,
    /// `None` if the route yielded none.
    pub(crate) destination: Option<&'d str>,
    pub(crate) sink: &'d str,
    pub(crate) start: UnixMicros,
    pub(crate) end: UnixMicros,
}

// === impl Traced ===

impl Traced {
    /// Writes the span of the delivery into the header. `None`: the trace is not recorded, or no exporter is
    /// configured.
    pub(crate) fn of(traces: &Traces, message: &mut Reservation) -> Option<Self> {
        if !traces.is_on() {
            return None;
        }
        let headers = &mut message.envelope.headers;
        let (_, header) = headers.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT))?;
        let put = TraceParent::recorded(header)?;
        let traced = Self { put, deliver: put.another() };
        *header = traced.deliver.to_string();
        Some(traced)
    }

    /// Called once a delivery is certain to follow: a message released because its destination rests is
    /// reserved again.
    pub(crate) fn reserved(self, traces: &Traces, message: &Reservation, now: UnixMicros) {
        let Reservation { topic, id, ready, envelope, .. } = message;
        let due = UnixMicros(envelope.due.get().saturating_mul(1000));
        let attributes = attributes(topic.as_str(), &id.to_string(), envelope.delivery);
        traces.record(self.span("delayq.pump", due.min(*ready), *ready, attributes.clone()));
        traces.record(self.span("delayq.reserve", *ready, now.max(*ready), attributes));
    }

    pub(crate) fn delivered(self, traces: &Traces, delivery: &Delivery<'_>, outcome: &Outcome) {
        let &Delivery { about, destination, sink, start, end } = delivery;
        let mut attributes = attributes(&about.topic, &about.id, about.delivery);
        attributes.push(("delayq.sink", sink.to_owned()));
        attributes.extend(destination.map(|destination| ("delayq.destination", destination.to_owned())));
        attributes.push(("delayq.outcome", outcome.word().to_owned()));
        let failure = match outcome {
            Outcome::Delivered => None,
            Outcome::Rejected { reason } | Outcome::Unavailable { reason, .. } => Some(reason.clone()),
        };
        let span = self.span("delayq.deliver", start, end, attributes);
        traces.record(Span { own: self.deliver, sends: true, failure, ..span });
    }

    fn span(
        self,
        name: &'static str,
        start: UnixMicros,
        end: UnixMicros,
        attributes: Vec<(&'static str, String)>,
    ) -> Span {
        let (own, parent) = (self.put.another(), self.put.span);
        Span { name, own, parent, sends: false, start, end, attributes, failure: None }
    }
}

fn attributes(topic: &str, id: &str, delivery: u32) -> Vec<(&'static str, String)> {
    vec![
        ("messaging.system", "delayq".to_owned()),
        ("messaging.destination.name", topic.to_owned()),
        ("messaging.message.id", id.to_owned()),
        ("delayq.delivery", delivery.to_string()),
    ]
}
