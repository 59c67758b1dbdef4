//! Outages that a run puts a Redis of each shape through: of the network before it, of servers, and of their data; and when
//! they may have cost something.

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

/// How long after an outage a message is put, moved and delivered at the latest.
pub const BOUND: Duration = Duration::from_secs(3);
/// How long outages last in the short form; seconds in the long one.
const SHORT_MS: Range<u64> = 1_000..2_500;
const LONG_MS: Range<u64> = 1_000..60_000;
/// For how long before a fault an answered write may be missing from the replica that takes over.
const UNREPLICATED: Duration = Duration::from_secs(2);
/// The longest lease of those who work meanwhile.
const LEASE: Duration = Duration::from_secs(5);

/// The servers of a run, and the outages that it puts them through.
///
/// # Contract
/// An outage ends with Redis in use again; until it is mended, servers may be missing that nobody needs.
#[allow(async_fn_in_trait, reason = "a run is one task")]
pub trait Scene: Sized {
    /// The kinds of outages.
    type Kind: Copy + Debug + PartialEq + 'static;
    /// What its Redis is.
    const NAME: &'static str;
    /// All kinds, in the order in which a run goes through them.
    const KINDS: &'static [Self::Kind];
    /// Those of them that clients in other languages go through in the short form.
    const OF_CLIENTS: &'static [Self::Kind];
    /// How many shards its deployment has.
    const SHARDS: u16;
    /// Whether an outage may cost what was answered just before it.
    const LOSES: bool;

    /// Starts the servers.
    async fn start() -> Self;

    /// How clients reach them.
    fn url(&self) -> String;

    /// Breaks them for that long. Returns when Redis was back, or its new master known.
    async fn outage(&self, kind: Self::Kind, lasts: Duration) -> Instant;

    /// Puts everything right that the outage has left.
    async fn mend(&self);
}

/// How many outages a run has, and how long each lasts.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many.
    pub count: usize,
    /// Whether it is the long form.
    pub is_long: bool,
    lengths_ms: Range<u64>,
}

/// From when to when, in ms, an outage may cost what was answered; by this host's clock.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    from_ms: u64,
    to_ms: u64,
}

// === impl Plan ===

impl Plan {
    /// The short form with so many outages, or of the long form a run's part of this shape's third.
    ///
    /// # Panics
    /// If `DELAYQ_TEST_OUTAGES` is no number.
    #[must_use]
    pub fn of(few: usize) -> Self {
        match outages() {
            None => Self { count: few, is_long: false, lengths_ms: SHORT_MS },
            Some(count) => {
                Self { count: count.div_ceil(3 * Self::runs()), is_long: true, lengths_ms: LONG_MS }
            }
        }
    }

    /// How many runs of each shape there are, side by side.
    ///
    /// # Panics
    /// If `DELAYQ_TEST_OUTAGES_AT_ONCE` is no number.
    #[must_use]
    pub fn runs() -> usize {
        outages_at_once()
    }

    /// How long the next outage lasts.
    #[must_use]
    pub fn length(&self) -> Duration {
        Duration::from_millis(fastrand::u64(self.lengths_ms.clone()))
    }
}

// === impl Window ===

impl Window {
    /// From a while before a fault until now.
    #[must_use]
    pub fn since(broken_ms: u64) -> Self {
        Self { from_ms: broken_ms - millis(UNREPLICATED), to_ms: now_ms() }
    }
}

/// The clock of this host, which all servers of a run share.
///
/// # Panics
/// If it is before 1970.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "all servers of the test are on this host")]
pub fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is set"))
}

/// The history of a run, by its puts (the id, when it is due, the answer, and when that came in ms) and its deliveries; what
/// was answered within a window may have been lost with its master.
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

/// A copy of what was delivered in no window is one too many.
///
/// # Panics
/// If there is one.
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
