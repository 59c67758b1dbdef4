//! Outages for a Redis of each shape: of the network, of servers, and of data; with the time windows in which writes
//! may be lost.

mod cluster;
mod one_redis;
mod sentinels;

pub use self::cluster::ClusterScene;
pub use self::one_redis::OneRedisScene;
pub use self::sentinels::SentinelScene;

use crate::environment::{outages, outages_at_once};
use crate::history::{Answer, Event, History};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

/// Maximum time after an outage until a message is put, moved and delivered.
pub const BOUND: Duration = Duration::from_secs(3);
/// Duration of outages in the short form; the long form uses seconds.
const SHORT_MS: Range<u64> = 1_000..2_500;
const LONG_MS: Range<u64> = 1_000..60_000;
/// Time before a fault for which an answered write may be missing from the promoted replica.
const UNREPLICATED: Duration = Duration::from_secs(2);
/// Longest lease of workers during the run.
const LEASE: Duration = Duration::from_secs(5);

/// The servers of a run, and their outages.
///
/// # Contract
/// An outage ends with Redis in use again; until [`mend`](Self::mend), redundant servers may be missing.
#[allow(async_fn_in_trait, reason = "a run is one task")]
pub trait Scene: Sized {
    /// The kinds of outages.
    type Kind: Copy + Debug + PartialEq + 'static;
    /// Description of the Redis.
    const NAME: &'static str;
    /// All kinds, in the order of a run.
    const KINDS: &'static [Self::Kind];
    /// The kinds in the short form of clients in other languages.
    const OF_CLIENTS: &'static [Self::Kind];
    /// Number of shards of the deployment.
    const SHARDS: u16;
    /// True if an outage may lose recently answered writes.
    const LOSES: bool;

    /// Starts the servers.
    async fn start() -> Self;

    /// URL for clients.
    fn url(&self) -> String;

    /// Breaks the servers for this time. Returns the moment at which Redis was back, or its new master known.
    async fn outage(&self, kind: Self::Kind, lasts: Duration) -> Instant;

    /// Repairs everything that an outage left behind.
    async fn mend(&self);
}

/// Number and duration of outages.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Number of outages.
    pub count: usize,
    /// True for the long form.
    pub is_long: bool,
    lengths_ms: Range<u64>,
}

/// A span in ms, by this host's clock, in which an outage may lose answered writes.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    from_ms: u64,
    to_ms: u64,
}

// === impl Plan ===

impl Plan {
    /// A plan: `few` outages in the short form, or this run's part of the shape's third in the long form.
    #[must_use]
    pub fn of(few: usize) -> Self {
        match outages() {
            None => Self { count: few, is_long: false, lengths_ms: SHORT_MS },
            Some(count) => {
                Self { count: count.div_ceil(3 * Self::runs()), is_long: true, lengths_ms: LONG_MS }
            }
        }
    }

    /// Number of concurrent runs of each shape.
    #[must_use]
    pub fn runs() -> usize {
        outages_at_once()
    }

    /// Duration of the next outage.
    #[must_use]
    pub fn length(&self) -> Duration {
        Duration::from_millis(fastrand::u64(self.lengths_ms.clone()))
    }
}

// === impl Window ===

impl Window {
    /// The span from shortly before a fault until now.
    #[must_use]
    pub fn since(broken_ms: u64) -> Self {
        Self { from_ms: broken_ms - millis(UNREPLICATED), to_ms: now_ms() }
    }
}

/// The clock of this host, which all servers of a run share.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "all servers of the test are on this host")]
pub fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is set"))
}

/// The history of a run, from its puts (id, due time, answer, and time of the answer in ms) and deliveries; writes
/// answered within a window may have been lost with their master.
pub fn history(puts: &[(String, u64, Answer, u64)], deliveries: Vec<Event>, windows: &[Window]) -> History {
    let history = History::new();
    for (id, due_ms, answer, at_ms) in puts {
        let lost = windows.iter().any(|window| (window.from_ms..=window.to_ms).contains(at_ms));
        let answer = if lost && *answer == Answer::Ok { Answer::Unknown } else { *answer };
        history.put(id, *due_ms, id.as_bytes(), answer);
    }
    deliveries.into_iter().for_each(|event| history.record(event));
    history
}

/// Panics for a repeated delivery outside all windows.
pub fn assert_copies_are_of_outages(history: &History, windows: &[Window]) {
    let mut seen = BTreeMap::new();
    for event in history.events() {
        let Event::Delivery { id, ready_ms, .. } = event else { continue };
        if let Some(first_ms) = seen.insert(id.clone(), ready_ms) {
            let is_of = |window: &Window| (window.from_ms - millis(LEASE)..=window.to_ms).contains(&first_ms);
            assert!(windows.iter().any(is_of), "{id} came twice, first at {first_ms}");
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("no clock shows so much")
}
