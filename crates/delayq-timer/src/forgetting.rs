//! Forgets unused topics: the shard to ask next, and the topics already reported. Pure.

use delayq::Topic;
use delayq::protocol::ShardId;
use delayq::protocol::scheduling::{Rota, Schedule};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Interval between two pages of a shard.
const EVERY: Duration = Duration::from_secs(60);
/// Shards asked at once: a page costs Redis up to some milliseconds, and two pages in a row would double that for all
/// other clients.
const AT_ONCE: usize = 1;
/// Maximum topic names kept, so that a topic is logged once although each of its shards forgets the topic.
const NAMES: usize = 10_000;

/// The pages of topics to ask of shards.
#[derive(Clone, Debug)]
pub(crate) struct Forgetting {
    /// How long a topic must have been quiet; zero: topics are never forgotten.
    after: Duration,
    rota: Rota,
    /// True while a shard is being asked.
    asking: bool,
    reported: BTreeSet<Topic>,
}

/// A page to ask of a shard.
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
        Self { after, rota, asking: false, reported: BTreeSet::new() }
    }

    /// The time of the next question, with this number of shards.
    pub(crate) fn next(&self, shards: usize) -> Option<Instant> {
        (!self.after.is_zero()).then(|| self.rota.next(shards))
    }

    /// Takes the page to ask for now, if the time has come; `of` finds the next page of a shard, 0 for the first. Answer
    /// by `answered`.
    pub(crate) fn take<K>(
        &mut self,
        schedule: &Schedule<K>,
        of: impl Fn(&K) -> u64,
        now: Instant,
    ) -> Option<ForgettingPage> {
        if self.after.is_zero() {
            return None;
        }
        let shard = self.rota.take(schedule, now).pop()?;
        if std::mem::replace(&mut self.asking, true) {
            return None;
        }
        Some(ForgettingPage { shard, from: schedule.kept(shard).map_or(0, of), quiet: self.after })
    }

    /// Records that the question in flight has ended, answered or not.
    pub(crate) fn answered(&mut self) {
        self.asking = false;
    }

    /// Returns true if a forgotten topic has not been reported yet.
    pub(crate) fn is_news(&mut self, topic: &Topic) -> bool {
        if self.reported.len() == NAMES {
            self.reported.clear();
        }
        self.reported.insert(topic.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_shards() -> Schedule<u64> {
        let mut schedule = Schedule::new(150, Duration::ZERO);
        (0..3).for_each(|shard| schedule.own(ShardId::new(shard), 1, None));
        schedule
    }

    fn take(forgetting: &mut Forgetting, schedule: &Schedule<u64>, now: Instant) -> Option<ForgettingPage> {
        forgetting.take(schedule, |&page| page, now)
    }

    #[test]
    fn each_shard_is_asked_for_a_page_a_minute_and_continues_where_it_stopped() {
        let start = Instant::now();
        let mut forgetting = Forgetting::new(Duration::from_secs(3600), start);
        let (mut schedule, mut asked) = (three_shards(), Vec::new());
        while forgetting.next(3).unwrap() <= start + 2 * EVERY {
            let now = forgetting.next(3).unwrap();
            let page = take(&mut forgetting, &schedule, now).unwrap();
            asked.push((page.shard.get(), page.from));
            forgetting.answered();
            if let Some(next) = [Some(7), Some(0), None][usize::from(page.shard.get())] {
                *schedule.kept_mut(page.shard).unwrap() = next;
            }
        }
        assert_eq!(asked, [(0, 0), (1, 0), (2, 0), (0, 7), (1, 0), (2, 0)]);
    }

    #[test]
    fn one_page_is_under_way_at_most() {
        let start = Instant::now();
        let mut forgetting = Forgetting::new(Duration::from_secs(1), start);
        let schedule = three_shards();
        assert!(take(&mut forgetting, &schedule, start + EVERY).is_some());
        assert_eq!(take(&mut forgetting, &schedule, start + 2 * EVERY), None);
        assert!(forgetting.next(3).unwrap() > start + 2 * EVERY, "it asks for a later moment all the same");
        forgetting.answered();
        assert!(take(&mut forgetting, &schedule, start + 3 * EVERY).is_some());
    }

    #[test]
    fn zero_never_forgets() {
        let start = Instant::now();
        let mut forgetting = Forgetting::new(Duration::ZERO, start);
        let taken = take(&mut forgetting, &three_shards(), start + 9 * EVERY);
        assert_eq!((forgetting.next(3), taken), (None, None));
    }

    #[test]
    fn a_topic_is_reported_once_though_many_shards_forget_it() {
        let mut forgetting = Forgetting::new(Duration::from_secs(1), Instant::now());
        let topics = ["a", "b"].map(|name| Topic::new(name).unwrap());
        let news = [&topics[0], &topics[1], &topics[0]].map(|topic| forgetting.is_news(topic));
        assert_eq!(news, [true, true, false]);
    }
}
