//! A job as lmstfy shows it.

use super::ids;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use delayq::admin::Listed;
use delayq::protocol::{Envelope, Reservation};
use delayq::{MessageId, State, Target, Topic, UnixMillis};
use delayq_service::host_now;
use serde::Serialize;
use std::collections::BTreeMap;

/// In the order in which it is written.
#[derive(Debug, Serialize)]
pub(super) struct Job<'m> {
    attributes: Option<BTreeMap<&'m str, &'m str>>,
    data: String,
    elapsed_ms: u64,
    job_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'static str>,
    namespace: &'m str,
    queue: &'m str,
    remain_tries: u16,
    ttl: u64,
}

// === impl Job ===

impl<'m> Job<'m> {
    /// `job_id` settles the job.
    pub(super) fn taken(message: &'m Reservation, job_id: String) -> Self {
        let envelope = &message.envelope;
        let job = Self::of(&message.topic, &message.id, envelope, job_id);
        Self { msg: Some("new job"), remain_tries: left(envelope), ..job }
    }

    pub(super) fn first(listed: &'m Listed, envelope: &'m Envelope) -> Self {
        let job = Self::of(&listed.topic, &listed.id, envelope, shown(&listed.id));
        Self { remain_tries: left(envelope), ..job }
    }

    pub(super) fn found(listed: &'m Listed, envelope: &'m Envelope) -> Self {
        Self::of(&listed.topic, &listed.id, envelope, shown(&listed.id))
    }

    fn of(topic: &'m Topic, id: &MessageId, envelope: &'m Envelope, job_id: String) -> Self {
        let (namespace, queue) = topic.as_str().split_once('/').unwrap_or_default();
        let now = host_now().get();
        let attributes = envelope.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Self {
            attributes: ids::is_version_1(id).then(|| attributes.collect()),
            data: STANDARD.encode(&envelope.payload),
            elapsed_ms: ids::time_of(id).map_or(0, |put| now.saturating_sub(put)),
            job_id,
            msg: None,
            namespace,
            queue,
            remain_tries: 0,
            ttl: ttl(envelope, now),
        }
    }
}

/// The remaining seconds, rounded as Redis rounds a TTL; 0: no end. A dead letter has none.
fn ttl(envelope: &Envelope, now: u64) -> u64 {
    let end = envelope.expires.filter(|_| envelope.state != State::Dead);
    end.filter(|&end| end < UnixMillis::MAX).map_or(0, |end| seconds(end.get().saturating_sub(now)))
}

const fn seconds(ms: u64) -> u64 {
    (ms + 500) / 1000
}

fn left(envelope: &Envelope) -> u16 {
    envelope.max_attempts.saturating_sub(envelope.attempt)
}

/// An own id stands for itself.
pub(super) fn shown(id: &MessageId) -> String {
    ids::text(id).unwrap_or_else(|| id.to_string())
}

/// Of lmstfy's form, or an own id.
pub(super) fn target(job_id: &str) -> Option<Target> {
    let id = ids::read(job_id).map_or_else(|| job_id.parse().ok().filter(is_own), Some)?;
    Some(Target { id, group: None })
}

fn is_own(id: &MessageId) -> bool {
    matches!(id, MessageId::Own(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_to_the_nearest_second() {
        for (ms, wanted) in [(0, 0), (499, 0), (500, 1), (9_990, 10), (9_499, 9)] {
            assert_eq!(seconds(ms), wanted, "{ms} ms");
        }
    }

    #[test]
    fn an_own_id_names_its_message_unless_it_looks_like_a_generated_one() {
        let own = |id: &str| MessageId::own(id).unwrap();
        assert_eq!(target("order 17").unwrap().id, own("order 17"));
        assert_ne!(target("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap().id, own("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
        assert_eq!(target("~019a9f2c-7b00-7001-8000-000000000001"), None);
        assert_eq!(target(""), None);
    }
}
