//! Publishing jobs: a job, many jobs, or a job in the place of another.

use super::ask::{CheckedCall, refused};
use super::end::finish;
use super::ids;
use super::job::shown;
use super::reply::{JobReply, Refusal, error, internal, said};
use crate::input::Whole;
use crate::problem::{Kind, Problem};
use crate::state::{App, Scope};
use axum::body::Body;
use axum::http::HeaderMap;
use delayq::{Backoff, Message, MessageId, Put, PutError, PutOutcome, Topic, UnixMillis};
use delayq_service::host_now;
use serde_json::json;
use serde_json::value::RawValue;
use std::time::Duration;

/// Seconds that a job lives unless asked otherwise.
const TTL: u32 = 86_400;
const TRIES: u32 = 1;
const MAX_JOB: usize = 1024 * 1024;
const MAX_JOBS: usize = 64;
const MAX_BULK: usize = 16 * 1024 * 1024;
const MAX_ATTRIBUTES: usize = 16;
/// Maximum bytes of an attribute's name, and of its value.
const MAX_NAME: usize = 32;
const MAX_VALUE: usize = 128;
const ATTRIBUTE: &str = "job-attr-";
/// After this, an expired lease makes its job ready again.
const BACKOFF: Backoff = Backoff::Fixed(Duration::from_millis(1));
/// How long a job lives at least behind its due time: clocks differ.
const MIN_LIFE: u64 = 1;
/// Tries of an id: another process may have given the same one to another job in the same millisecond.
const TRIES_OF_AN_ID: usize = 5;

struct Terms {
    delay: u32,
    ttl: u32,
    tries: u16,
    is_version_1: bool,
}

/// `None`: the job has version 0.
type Attributes = Option<Vec<(String, String)>>;

// === impl Terms ===

impl Terms {
    fn of(ask: &CheckedCall) -> Result<Self, Refusal> {
        let delay = ask.query.number("delay", 0)?;
        let ttl = ask.query.number("ttl", TTL)?;
        if ttl > 0 && ttl < delay {
            return Err(error(400, "ttl is shorter than delay"));
        }
        let tries = ask.query.number("tries", TRIES)?;
        let tries = u16::try_from(tries).map_err(|_| error(400, "invalid tries"))?;
        if tries == 0 {
            return Err(error(400, "tries shouldn't be zero"));
        }
        Ok(Self { delay, ttl, tries, is_version_1: is_version_1(&ask.headers) })
    }

    fn expires(&self, now: u64) -> Option<UnixMillis> {
        let life = u64::from(self.ttl).max(u64::from(self.delay) + MIN_LIFE);
        (self.ttl > 0).then(|| UnixMillis::new(now + life * 1000))
    }

    fn message(&self, topic: &Topic, body: Vec<u8>, attributes: &Attributes) -> Message {
        let mut message = Message::new(topic.clone(), body).after(Duration::from_secs(self.delay.into()));
        message.expires = self.expires(host_now().get());
        message.headers = attributes.clone().unwrap_or_default();
        message.max_attempts(self.tries).backoff(BACKOFF).any_time()
    }
}

pub(super) async fn one(ask: &CheckedCall, body: Body) -> JobReply {
    let terms = match Terms::of(ask) {
        Ok(terms) => terms,
        Err(refusal) => return Err(refused(body, refusal)),
    };
    let whole = Whole::read(body, &ask.headers, &Scope::whole(&ask.app), MAX_JOB)
        .await
        .map_err(|problem| refusal(&problem))?;
    let attributes = attributes(&ask.headers)?;
    let message = named(&ask.app, terms.message(ask.topic(), whole.bytes.to_vec(), &attributes), &terms);
    let put = ask.app.unscoped().producer.put(message.clone()).await;
    let id = stored(&ask.app, &message, put, &terms).await?;
    ask.lmstfy.counters.published(&ask.pool, ask.topic(), 1);
    Ok(said(201, &json!({ "job_id": id, "msg": "published" })))
}

/// The old job ends once the new one is stored: a refusal, or the end of this process, destroys nothing.
pub(super) async fn again(ask: &CheckedCall, body: Body, old: &str) -> JobReply {
    let published = one(ask, body).await?;
    if let Some(target) = ask.target(old).await? {
        finish(ask, &target).await?;
    }
    Ok(published)
}

pub(super) async fn many(ask: &CheckedCall, body: Body) -> JobReply {
    let terms = match Terms::of(ask) {
        Ok(terms) => terms,
        Err(refusal) => return Err(refused(body, refusal)),
    };
    let whole = Whole::read(body, &ask.headers, &Scope::whole(&ask.app), MAX_BULK)
        .await
        .map_err(|problem| refusal(&problem))?;
    let jobs = jobs(&whole.bytes)?;
    let attributes = attributes(&ask.headers)?;
    let mut ids = Vec::new();
    // One after the other, which keeps their order: a producer sends what waits in several calls at once.
    for job in jobs {
        let message = terms.message(ask.topic(), job.get().as_bytes().to_vec(), &attributes);
        let message = named(&ask.app, message, &terms);
        let put = ask.app.unscoped().producer.put(message.clone()).await;
        ids.push(stored(&ask.app, &message, put, &terms).await?);
    }
    ask.lmstfy.counters.published(&ask.pool, ask.topic(), ids.len());
    Ok(said(201, &json!({ "job_ids": ids, "msg": "published" })))
}

/// The text of each element.
fn jobs(bytes: &[u8]) -> Result<Vec<&RawValue>, Refusal> {
    let jobs: Vec<&RawValue> = serde_json::from_slice(bytes)
        .map_err(|_| error(400, "request body should be an array of objects"))?;
    match jobs.len() {
        0 => Err(error(400, "no jobs")),
        1..=MAX_JOBS if jobs.iter().any(|job| job.get().len() > MAX_JOB) => Err(error(413, "job too large")),
        1..=MAX_JOBS => Ok(jobs),
        _ => Err(error(400, "too many jobs")),
    }
}

fn refusal(problem: &Problem) -> Refusal {
    match problem.kind() {
        Kind::TooLarge => error(413, "body too large"),
        Kind::Malformed => error(400, "failed to read body"),
        kind => error(kind.status().as_u16(), problem.detail()),
    }
}

/// The message under a new id in the shard of its queue: so a queue keeps its order.
fn named(app: &App, message: Message, terms: &Terms) -> Message {
    let shard = app.unscoped().admin.client().shards().shard_of_name(message.topic.as_str());
    message.with_id(ids::new_id(shard, host_now().get(), terms.is_version_1, terms.delay))
}

/// The id of a message that was put. An id that another process has given to another job in the same millisecond is replaced.
async fn stored(
    app: &App,
    message: &Message,
    mut put: Result<Put, PutError>,
    terms: &Terms,
) -> Result<String, Refusal> {
    for _ in 0..TRIES_OF_AN_ID {
        let Put { reference, outcome, .. } = put.map_err(internal)?;
        match outcome {
            PutOutcome::Stored(_) | PutOutcome::Ready(_) | PutOutcome::Spooled => {
                return Ok(shown(&reference.id));
            }
            PutOutcome::Exists(..) if is_ours(app, message, &reference.id).await? => {
                return Ok(shown(&reference.id));
            }
            PutOutcome::Exists(..) => {
                put = app.unscoped().producer.put(named(app, message.clone(), terms)).await;
            }
            outcome => return Err(internal(format_args!("a job is not stored: {outcome:?}"))),
        }
    }
    Err(internal("every new id has been given to another job"))
}

/// True if the stored message is this one, from a first try whose answer was lost.
async fn is_ours(app: &App, message: &Message, id: &MessageId) -> Result<bool, Refusal> {
    let stored =
        app.unscoped().admin.topic(&message.topic).get(&id.clone().into()).await.map_err(internal)?;
    let Some(Ok(stored)) = stored.map(|stored| stored.envelope) else { return Ok(true) };
    Ok(stored.payload == message.payload
        && stored.headers == message.headers
        && stored.expires == message.expires
        && stored.max_attempts == message.max_attempts)
}

fn is_version_1(headers: &HeaderMap) -> bool {
    let version = headers.get("enable-job-version");
    version.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"yes"))
}

/// Only of a request that asks for version 1.
fn attributes(headers: &HeaderMap) -> Result<Attributes, Refusal> {
    if !is_version_1(headers) {
        return Ok(None);
    }
    let mut attributes = Vec::new();
    for name in headers.keys() {
        let (Some(own), Some(value)) = (name.as_str().strip_prefix(ATTRIBUTE), headers.get(name)) else {
            continue;
        };
        let value = String::from_utf8_lossy(value.as_bytes());
        if !own.is_empty() && !value.is_empty() {
            attributes.push((cut(own, MAX_NAME), cut(&value, MAX_VALUE)));
        }
    }
    if attributes.len() > MAX_ATTRIBUTES {
        return Err(error(400, "too many attributes, cannot exceed 16"));
    }
    attributes.sort();
    Ok(Some(attributes))
}

/// At a boundary of a character.
fn cut(text: &str, max: usize) -> String {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_lives_past_its_due_time_or_for_ever() {
        let life = |delay, ttl| {
            let end = Terms { delay, ttl, tries: 1, is_version_1: false }.expires(1000);
            end.map(|end| end.get() - 1000)
        };
        assert_eq!(life(0, 10), Some(10_000));
        assert_eq!(life(10, 10), Some(11_000), "it is due after ten seconds");
        assert_eq!(life(10, 0), None);
    }

    #[test]
    fn attributes_are_cut_and_count_only_in_version_1() {
        let many = |count: usize, version: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            for n in 0..count {
                let name: axum::http::HeaderName = format!("job-attr-{n}{}", "k".repeat(40)).parse().unwrap();
                headers.insert(name, "v".repeat(200).parse().unwrap());
            }
            if let Some(version) = version {
                headers.insert("enable-job-version", version.parse().unwrap());
            }
            attributes(&headers)
        };
        assert!(many(17, None).unwrap().is_none() && many(17, Some("NO")).unwrap().is_none());
        assert!(many(17, Some("yes")).is_err());
        let sixteen = many(16, Some("YES")).unwrap().unwrap();
        assert!(sixteen.iter().all(|(name, value)| (name.len(), value.len()) == (32, 128)));
    }
}
