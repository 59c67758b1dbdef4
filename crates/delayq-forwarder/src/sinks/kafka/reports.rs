//! Delivery reports: the client's thread puts each at its place, and wakes the call when the last of them is there.

use super::words::Words;
use crate::sinks::answers::Answers;
use rdkafka::{ClientContext, error::KafkaError, message::DeliveryResult, producer::ProducerContext};
use std::sync::Arc;

/// What became of a record; an error of `None`: the producer ended before it was known.
pub(super) type Report = Result<(), Option<KafkaError>>;

/// What a producer calls back.
#[derive(Clone, Default)]
pub(super) struct Reports {
    pub(super) words: Words,
}

/// The place of a record's report. Dropped without one, it reports that there will be none.
pub(super) struct Place {
    answers: Arc<Answers<Report>>,
    place: usize,
}

// === impl Reports ===

impl ClientContext for Reports {
    fn error(&self, error: KafkaError, reason: &str) {
        self.words.error(error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Place>;

    fn delivery(&self, result: &DeliveryResult<'_>, place: Box<Place>) {
        place.report(result.as_ref().map(|_| ()).map_err(|(error, _)| Some(error.clone())));
    }
}

// === impl Place ===

impl Place {
    pub(super) fn new(answers: &Arc<Answers<Report>>, place: usize) -> Box<Self> {
        Box::new(Self { answers: Arc::clone(answers), place })
    }

    pub(super) fn report(&self, report: Report) {
        self.answers.put(self.place, report);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.report(Err(None));
    }
}
