//! Calls that wait for replicas or a disk. These calls use separate connections, because a connection that waits
//! answers nothing else.
//!
//! A topic that requires durability refuses calls that do not wait, before anything is written. A client therefore
//! learns the durability from a refusal, and trusts this knowledge for some seconds; the first call after that does not
//! wait, and asks again.

use crate::clock;
use crate::error::Error;
use crate::script_link::{Outgoing, ScriptLink, Sent};
use delayq_core::durability::{Durability, Waits};
use delayq_core::fate::Fate;
use lru::LruCache;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// How long a topic's known durability is trusted.
const BELIEVED: Duration = Duration::from_secs(10);

/// Maximum number of waiting pipelines of one durability, each on a separate connection.
const MOST_WAITING: usize = 8;

/// Maximum number of topics with a remembered durability: some 250 bytes each. A forgotten topic is refused once more.
const MOST_TOPICS: NonZeroUsize = NonZeroUsize::new(10_000).expect("10,000 is not 0");

pub(crate) struct Durable {
    known: Mutex<LruCache<Vec<u8>, (Waits, Instant)>>,
    links: Mutex<BTreeMap<Waits, Arc<WaitLinks>>>,
    observer: OnceLock<Observer>,
}

/// The result of calls that waited for replicas or a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confirmation {
    /// True if every write was confirmed.
    pub confirmed: bool,
    /// Duration of the calls, with the wait.
    pub took: Duration,
}

pub(crate) type Observer = Box<dyn Fn(Confirmation) + Send + Sync>;

/// No connection is shared with other calls, which replicas or a disk that do not confirm must not hold up.
struct WaitLinks {
    waits: Waits,
    turns: Semaphore,
    idle: Mutex<Vec<ScriptLink>>,
}

// === impl Durable ===

impl Default for Durable {
    fn default() -> Self {
        let known = Mutex::new(LruCache::new(MOST_TOPICS));
        Self { known, links: Mutex::default(), observer: OnceLock::new() }
    }
}

impl Durable {
    /// Nothing if unknown.
    pub(crate) fn waits(&self, topic: &[u8]) -> Waits {
        let mut known = lock(&self.known);
        match known.get(topic) {
            None => Waits::NOTHING,
            Some((waits, until)) if *until > clock::instant() => waits.clone(),
            Some(_) => {
                known.pop(topic);
                Waits::NOTHING
            }
        }
    }

    pub(crate) fn learn(&self, topic: &[u8], asked: Durability) {
        lock(&self.known).put(topic.to_vec(), (Waits::from(asked), clock::instant() + BELIEVED));
    }

    pub(crate) async fn send(
        &self,
        scripts: &ScriptLink,
        waits: &Waits,
        calls: &[Outgoing<'_>],
        until: Instant,
    ) -> Vec<Sent> {
        let links = self.links(waits);
        let Ok(turn) = timeout_at(until, links.turns.acquire()).await else {
            let why =
                format!("{MOST_WAITING} pipelines were already waiting, and none finished by the deadline");
            let error = Error::Unconfirmed { durability: waits.to_string(), fate: Fate::NotApplied, why };
            return calls.iter().map(|_| Sent { answer: Err(error.clone()), node: None }).collect();
        };
        let _turn = turn.expect("the semaphore is never closed");
        let idle = lock(&links.idle).pop();
        let link = idle.unwrap_or_else(|| scripts.waiting(links.waits.clone()));
        let began = clock::instant();
        let sent = link.send(calls, None, until).await;
        lock(&links.idle).push(link);
        let unconfirmed = |sent: &Sent| matches!(sent.answer, Err(Error::Unconfirmed { .. }));
        let confirmed = !sent.iter().any(unconfirmed);
        // Refused calls did not wait.
        if let Some(observer) = self.observer.get()
            && (!confirmed || sent.iter().any(|sent| sent.answer.is_ok()))
        {
            observer(Confirmation { confirmed, took: began.elapsed() });
        }
        sent
    }

    /// Without effect if there is an observer already.
    pub(crate) fn observe(&self, observer: Observer) {
        let _ = self.observer.set(observer);
    }

    fn links(&self, waits: &Waits) -> Arc<WaitLinks> {
        let mut links = lock(&self.links);
        let links = links.entry(waits.clone()).or_insert_with(|| {
            let turns = Semaphore::new(MOST_WAITING);
            Arc::new(WaitLinks { waits: waits.clone(), turns, idle: Mutex::default() })
        });
        Arc::clone(links)
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().expect("no code panics while holding the lock")
}
