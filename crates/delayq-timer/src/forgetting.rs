//! Forgets unused topics: the shard to ask next, and the topics already reported. Pure.

use crate::rota::Rota;
use crate::schedule::Schedule;
use delayq::Topic;
use delayq::protocol::ShardId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Interval between two pages of a shard.
const EVERY: Duration = Duration::from_secs(60);
/// Shards asked at once: a page costs Redis up to some milliseconds, and two pages in a row would double that for all
/// other clients.
const AT_ONCE: usize = 1;
/// Maximum topic names kept, so that a topic is logged once although each of its shards forgets the topic.
const NAMES: usize = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct Forgetting {
    /// How long a topic must have been quiet; zero: topics are never forgotten.
    after: Duration,
    rota: Rota,
    /// Unless the shard's next page is the first.
    pages: BTreeMap<ShardId, u64>,
    asking: bool,
    reported: BTreeSet<Topic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForgettingPage {
    pub(crate) shard: ShardId,
    pub(crate) from: u64,
    pub(crate) quiet: Duration,
}

// === impl Forgetting ===

impl Forgetting {
    pub(crate) fn new(after: Duration, now: Instant) -> Self {
        let rota = Rota::new(EVERY, AT_ONCE, now);
        Self { after, rota, pages: BTreeMap::new(), asking: false, reported: BTreeSet::new() }
    }

    pub(crate) fn next(&self, shards: usize) -> Option<Instant> {
        (!self.after.is_zero()).then(|| self.rota.next(shards))
    }

    /// `None` before the next question is due. Answer by `answered`.
    pub(crate) fn take(&mut self, schedule: &Schedule, now: Instant) -> Option<ForgettingPage> {
        if self.after.is_zero() {
            return None;
        }
        let shard = self.rota.take(schedule, now).pop()?;
        if std::mem::replace(&mut self.asking, true) {
            return None;
        }
        Some(ForgettingPage { shard, from: self.pages.get(&shard).copied().unwrap_or(0), quiet: self.after })
    }

    /// `next` is 0 for the first page; `None` if the shard did not answer.
    pub(crate) fn answered(&mut self, shard: ShardId, next: Option<u64>) {
        self.asking = false;
        match next {
            Some(0) => _ = self.pages.remove(&shard),
            Some(next) => _ = self.pages.insert(shard, next),
            None => {}
        }
    }

    pub(crate) fn is_news(&mut self, topic: &Topic) -> bool {
        if self.reported.len() == NAMES {
            self.reported.clear();
        }
        self.reported.insert(topic.clone())
    }

    pub(crate) fn drop(&mut self, shard: ShardId) {
        self.pages.remove(&shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_shards() -> Schedule {
        let mut schedule = Schedule::new(150, Duration::ZERO);
        (0..3).for_each(|shard| schedule.own(ShardId::new(shard), 1, None));
        schedule
    }

    #[test]
    fn each_shard_is_asked_for_a_page_a_minute_and_goes_on_where_it_stopped() {
        let start = Instant::now();
        let after = Duration::from_secs(3600);
        let mut forgetting = Forgetting::new(after, start);
        let mut asked = Vec::new();
        while forgetting.next(3).unwrap() <= start + 2 * EVERY {
            let page = forgetting.take(&three_shards(), forgetting.next(3).unwrap()).unwrap();
            asked.push((page.shard.get(), page.from));
            forgetting.answered(page.shard, [Some(7), Some(0), None][usize::from(page.shard.get())]);
        }
        assert_eq!(asked, [(0, 0), (1, 0), (2, 0), (0, 7), (1, 0), (2, 0)]);
    }

    #[test]
    fn one_page_is_under_way_at_most() {
        let start = Instant::now();
        let mut forgetting = Forgetting::new(Duration::from_secs(1), start);
        assert!(forgetting.take(&three_shards(), start + EVERY).is_some());
        assert_eq!(forgetting.take(&three_shards(), start + 2 * EVERY), None);
        assert!(forgetting.next(3).unwrap() > start + 2 * EVERY, "it asks for a later moment all the same");
        forgetting.answered(ShardId::new(0), None);
        assert!(forgetting.take(&three_shards(), start + 3 * EVERY).is_some());
    }

    #[test]
    fn zero_never_forgets() {
        let start = Instant::now();
        let mut forgetting = Forgetting::new(Duration::ZERO, start);
        assert_eq!((forgetting.next(3), forgetting.take(&three_shards(), start + 9 * EVERY)), (None, None));
    }

    #[test]
    fn a_topic_is_reported_once_though_many_shards_forget_it() {
        let mut forgetting = Forgetting::new(Duration::from_secs(1), Instant::now());
        let topics = ["a", "b"].map(|name| Topic::new(name).unwrap());
        let news = [&topics[0], &topics[1], &topics[0]].map(|topic| forgetting.is_news(topic));
        assert_eq!(news, [true, true, false]);
    }
}
