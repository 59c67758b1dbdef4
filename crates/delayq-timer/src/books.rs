//! Checks topic by topic that the books of the shards pumped here balance: the shard to ask next, and the findings.
//! Pure.

use crate::rota::Rota;
use crate::schedule::Schedule;
use delayq::Topic;
use delayq::protocol::{BooksAt, BooksPage, ShardId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Interval between two questions to a shard: rare enough that an idle shard does not notice.
const EVERY: Duration = Duration::from_secs(240);
/// Shards asked at once: a topic costs Redis 4 µs for each hour in which messages are due, and a call checks 16.
const AT_ONCE: usize = 1;

#[derive(Clone, Debug)]
pub(crate) struct Books {
    rota: Rota,
    /// Unless the next page begins at the start.
    at: BTreeMap<ShardId, BooksAt>,
    /// Topics whose books did not balance at the last check: the difference in messages, and true if the topic was seen
    /// in this round over its shard's topics.
    wrong: BTreeMap<(ShardId, Topic), (u64, bool)>,
    asking: bool,
}

// === impl Books ===

impl Books {
    pub(crate) fn new(now: Instant) -> Self {
        let rota = Rota::new(EVERY, AT_ONCE, now);
        Self { rota, at: BTreeMap::new(), wrong: BTreeMap::new(), asking: false }
    }

    pub(crate) fn next(&self, shards: usize) -> Instant {
        self.rota.next(shards)
    }

    /// `None` before the next question is due. Answer by `answered`.
    pub(crate) fn take(&mut self, schedule: &Schedule, now: Instant) -> Option<(ShardId, BooksAt)> {
        let shard = self.rota.take(schedule, now).pop()?;
        if std::mem::replace(&mut self.asking, true) {
            return None;
        }
        Some((shard, self.at.get(&shard).copied().unwrap_or_default()))
    }

    /// `None` if the shard did not answer. Returns the topics whose imbalance is new.
    pub(crate) fn answered(&mut self, shard: ShardId, found: Option<BooksPage>) -> Vec<Topic> {
        self.asking = false;
        let Some(found) = found else { return Vec::new() };
        self.at.insert(shard, found.next);
        let mut news = Vec::new();
        for (topic, difference) in found.topics {
            let key = (shard, topic);
            match difference {
                Some(0) => drop(self.wrong.remove(&key)),
                Some(difference) => {
                    if self.wrong.insert(key.clone(), (difference, true)).is_none() {
                        news.push(key.1);
                    }
                }
                None => {
                    self.wrong.entry(key).and_modify(|(_, has_come)| *has_come = true);
                }
            }
        }
        if found.next == BooksAt::default() {
            self.end_round(shard);
        }
        news
    }

    /// A topic that was not seen in the round no longer exists.
    fn end_round(&mut self, shard: ShardId) {
        self.wrong.retain(|(of, _), (_, has_come)| *of != shard || std::mem::take(has_come));
    }

    pub(crate) fn drop(&mut self, shard: ShardId) {
        self.at.remove(&shard);
        self.wrong.retain(|(of, _), _| *of != shard);
    }

    pub(crate) fn off_by(&self) -> u64 {
        self.wrong.values().map(|(difference, _)| difference).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(0);

    fn one_shard() -> Schedule {
        let mut schedule = Schedule::new(150, Duration::ZERO);
        schedule.own(A, 1, None);
        schedule
    }

    fn page(next: BooksAt, topics: &[(&str, Option<u64>)]) -> BooksPage {
        let topics = topics.iter().map(|(name, difference)| (Topic::new(*name).unwrap(), *difference));
        BooksPage { next, topics: topics.collect() }
    }

    #[test]
    fn a_shard_is_asked_for_the_topics_behind_those_it_answered_and_one_at_a_time() {
        let start = Instant::now();
        let mut books = Books::new(start);
        assert_eq!(books.take(&one_shard(), start + EVERY), Some((A, BooksAt::default())));
        assert_eq!(books.take(&one_shard(), start + 2 * EVERY), None, "one is under way");
        let next = BooksAt { page: 7, passed: 16 };
        books.answered(A, Some(page(next, &[])));
        assert_eq!(books.take(&one_shard(), start + 3 * EVERY), Some((A, next)));
        books.answered(A, None);
        assert_eq!(books.take(&one_shard(), start + 4 * EVERY), Some((A, next)), "it did not answer");
        books.answered(A, Some(page(BooksAt::default(), &[])));
        assert_eq!(books.take(&one_shard(), start + 5 * EVERY), Some((A, BooksAt::default())));
    }

    #[test]
    fn a_topic_that_does_not_balance_is_news_once_and_counts_until_it_does() {
        let mut books = Books::new(Instant::now());
        let mut answer = |topics: &[(&str, Option<u64>)]| {
            let news = books.answered(A, Some(page(BooksAt::default(), topics)));
            (news.len(), books.off_by())
        };
        assert_eq!(answer(&[("sound", Some(0)), ("broken", Some(3)), ("worse", Some(4))]), (2, 7));
        assert_eq!(answer(&[("broken", Some(5)), ("worse", Some(4))]), (0, 9));
        let unread = [("broken", None), ("worse", Some(4))];
        assert_eq!(answer(&unread), (0, 9), "too much to be read at once: nothing new is known");
        assert_eq!(answer(&[("broken", Some(0)), ("worse", Some(4))]), (0, 4));
        books.drop(A);
        assert_eq!(books.off_by(), 0);
    }

    #[test]
    fn a_topic_that_was_forgotten_does_not_count_once_all_others_have_come() {
        let mut books = Books::new(Instant::now());
        let (first, second) = (BooksAt::default(), BooksAt { page: 7, passed: 16 });
        let mut answer = |next: BooksAt, topics: &[(&str, Option<u64>)]| {
            books.answered(A, Some(page(next, topics)));
            books.off_by()
        };
        assert_eq!(answer(second, &[("forgotten", Some(3))]), 3);
        assert_eq!(answer(first, &[("broken", Some(4))]), 7);
        assert_eq!(answer(second, &[]), 7, "it may come on the next page");
        assert_eq!(answer(first, &[("broken", Some(4))]), 4);
    }
}
