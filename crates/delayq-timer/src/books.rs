//! Checks topic by topic that the books of the shards pumped here balance: the shard to ask next, and the findings.
//! Pure.

use delayq::Topic;
use delayq::protocol::scheduling::{Rota, Schedule};
use delayq::protocol::{BooksAt, BooksPage, ShardId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Interval between two questions to a shard: rare enough that an idle shard does not notice.
const EVERY: Duration = Duration::from_secs(240);
/// Shards asked at once: a topic costs Redis 4 µs for each hour in which messages are due, and a call checks 16.
const AT_ONCE: usize = 1;

/// The turns of the shards.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    rota: Rota,
    /// True while a shard is being asked.
    asking: bool,
}

/// The position in one shard, and the findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct BooksOf {
    /// Position at which the next page begins.
    at: BooksAt,
    /// Topics whose books did not balance at the last check: the difference in messages, and true if the topic was seen
    /// in this round over the shard's topics.
    wrong: BTreeMap<Topic, (u64, bool)>,
}

// === impl Books ===

impl Books {
    pub(crate) fn new(now: Instant) -> Self {
        Self { rota: Rota::new(EVERY, AT_ONCE, now), asking: false }
    }

    pub(crate) fn next(&self, shards: usize) -> Instant {
        self.rota.next(shards)
    }

    /// Takes the shard to ask now, if the time has come, and the position to continue at; `of` finds the books of a
    /// shard. Answer by `answered`.
    pub(crate) fn take<K>(
        &mut self,
        schedule: &Schedule<K>,
        of: impl Fn(&K) -> &BooksOf,
        now: Instant,
    ) -> Option<(ShardId, BooksAt)> {
        let shard = self.rota.take(schedule, now).pop()?;
        if std::mem::replace(&mut self.asking, true) {
            return None;
        }
        Some((shard, schedule.kept(shard).map_or_else(BooksAt::default, |kept| of(kept).at)))
    }

    /// Records that the question in flight has ended, answered or not.
    pub(crate) fn answered(&mut self) {
        self.asking = false;
    }
}

// === impl BooksOf ===

impl BooksOf {
    /// Handles the shard's answer. Returns the topics whose imbalance is new.
    pub(crate) fn answered(&mut self, found: BooksPage) -> Vec<Topic> {
        self.at = found.next;
        let mut news = Vec::new();
        for (topic, difference) in found.topics {
            match difference {
                Some(0) => drop(self.wrong.remove(&topic)),
                Some(difference) => {
                    if self.wrong.insert(topic.clone(), (difference, true)).is_none() {
                        news.push(topic);
                    }
                }
                None => {
                    self.wrong.entry(topic).and_modify(|(_, has_come)| *has_come = true);
                }
            }
        }
        if self.at == BooksAt::default() {
            self.end_round();
        }
        news
    }

    /// Ends a round over the shard's topics: a topic that was not seen no longer exists.
    fn end_round(&mut self) {
        self.wrong.retain(|_, (_, has_come)| std::mem::take(has_come));
    }

    pub(crate) fn off_by(&self) -> u64 {
        self.wrong.values().map(|(difference, _)| difference).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(0);

    fn one_shard() -> Schedule<BooksOf> {
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
        let (start, mut schedule) = (Instant::now(), one_shard());
        let mut books = Books::new(start);
        let mut take = |schedule: &Schedule<BooksOf>, turn: u32, answered: bool| {
            if answered {
                books.answered();
            }
            books.take(schedule, |books| books, start + turn * EVERY)
        };
        assert_eq!(take(&schedule, 1, false), Some((A, BooksAt::default())));
        assert_eq!(take(&schedule, 2, false), None, "one is under way");
        let next = BooksAt { page: 7, passed: 16 };
        schedule.kept_mut(A).unwrap().answered(page(next, &[]));
        assert_eq!(take(&schedule, 3, true), Some((A, next)));
        assert_eq!(take(&schedule, 4, true), Some((A, next)), "it did not answer");
        schedule.kept_mut(A).unwrap().answered(page(BooksAt::default(), &[]));
        assert_eq!(take(&schedule, 5, true), Some((A, BooksAt::default())));
    }

    #[test]
    fn a_topic_that_does_not_balance_is_news_once_and_counts_until_it_does() {
        let mut books = BooksOf::default();
        let mut answer = |topics: &[(&str, Option<u64>)]| {
            let news = books.answered(page(BooksAt::default(), topics));
            (news.len(), books.off_by())
        };
        assert_eq!(answer(&[("sound", Some(0)), ("broken", Some(3)), ("worse", Some(4))]), (2, 7));
        assert_eq!(answer(&[("broken", Some(5)), ("worse", Some(4))]), (0, 9));
        let unread = [("broken", None), ("worse", Some(4))];
        assert_eq!(answer(&unread), (0, 9), "too much to be read at once: nothing new is known");
        assert_eq!(answer(&[("broken", Some(0)), ("worse", Some(4))]), (0, 4));
    }

    #[test]
    fn a_topic_that_was_forgotten_does_not_count_once_all_others_have_come() {
        let mut books = BooksOf::default();
        let (first, second) = (BooksAt::default(), BooksAt { page: 7, passed: 16 });
        let mut answer = |next: BooksAt, topics: &[(&str, Option<u64>)]| {
            books.answered(page(next, topics));
            books.off_by()
        };
        assert_eq!(answer(second, &[("forgotten", Some(3))]), 3);
        assert_eq!(answer(first, &[("broken", Some(4))]), 7);
        assert_eq!(answer(second, &[]), 7, "it may come on the next page");
        assert_eq!(answer(first, &[("broken", Some(4))]), 4);
    }
}
