//! Surveys the messages ready for consumers, now and soon, in the shards pumped here: the shard to ask next, and the
//! totals of all answers. Pure.

use crate::rota::Rota;
use crate::schedule::Schedule;
use delayq::protocol::{ShardId, Survey};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Interval between two questions to a shard: scrapers seldom ask more often.
const EVERY: Duration = Duration::from_secs(15);
/// Shards asked at once: 12 µs of Redis's time each, and 0.3 ms if a hundred topics have messages due in a horizon.
const AT_ONCE: usize = 2;

/// A survey needs at least one horizon.
const SHORTEST: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(crate) struct Surveys {
    horizons: Vec<Duration>,
    rota: Rota,
    shards: BTreeMap<ShardId, SurveyedShard>,
}

#[derive(Clone, Debug, Default)]
struct SurveyedShard {
    /// Position of the next page, and the ready messages of the pages before.
    page: u64,
    so_far: Ready,
    ready: Ready,
    leased: u64,
    due: Vec<u64>,
}

/// Ready messages, and the age of the oldest when its shard answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ready {
    messages: u64,
    oldest: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) shard: ShardId,
    pub(crate) page: u64,
    pub(crate) horizons: Vec<Duration>,
}

/// By each shard's last answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) ready: u64,
    /// Zero without ready messages.
    pub(crate) oldest_ready: Duration,
    pub(crate) leased: u64,
    /// Due messages within each horizon.
    pub(crate) due: Vec<u64>,
}

// === impl Surveys ===

impl Surveys {
    /// Without a horizon, surveys only count ready and leased messages.
    pub(crate) fn new(horizons: Vec<Duration>, now: Instant) -> Self {
        Self { horizons, rota: Rota::new(EVERY, AT_ONCE, now), shards: BTreeMap::new() }
    }

    pub(crate) fn next(&self, shards: usize) -> Instant {
        self.rota.next(shards)
    }

    /// Answer each by `answered`.
    pub(crate) fn take(&mut self, schedule: &Schedule, now: Instant) -> Vec<Question> {
        let question = |shard: ShardId| Question {
            shard,
            page: self.shards.get(&shard).map_or(0, |known| known.page),
            horizons: if self.horizons.is_empty() { vec![SHORTEST] } else { self.horizons.clone() },
        };
        self.rota.take(schedule, now).into_iter().map(question).collect()
    }

    /// A silent shard keeps its last answer.
    pub(crate) fn answered(&mut self, shard: ShardId, found: Survey) {
        let known = self.shards.entry(shard).or_default();
        (known.page, known.leased, known.due) = (found.next, found.leased, found.due);
        known.so_far.messages += found.ready;
        known.so_far.oldest = known.so_far.oldest.max(found.oldest_ready.unwrap_or_default());
        if known.page == 0 {
            known.ready = std::mem::take(&mut known.so_far);
        }
    }

    pub(crate) fn drop(&mut self, shard: ShardId) {
        self.shards.remove(&shard);
    }

    pub(crate) fn totals(&self) -> Totals {
        let due = |at: usize| self.shards.values().filter_map(|known| known.due.get(at)).sum();
        Totals {
            ready: self.shards.values().map(|known| known.ready.messages).sum(),
            oldest_ready: self.shards.values().map(|known| known.ready.oldest).max().unwrap_or_default(),
            leased: self.shards.values().map(|known| known.leased).sum(),
            due: (0..self.horizons.len()).map(due).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(0);
    const B: ShardId = ShardId::new(1);

    fn two_shards() -> Schedule {
        let mut schedule = Schedule::new(150, Duration::ZERO);
        [A, B].into_iter().for_each(|shard| schedule.own(shard, 1, None));
        schedule
    }

    /// As many seconds as there are messages.
    fn age(ready: u64) -> Option<Duration> {
        (ready > 0).then(|| Duration::from_secs(ready))
    }

    fn totals(ready: u64, oldest: u64, leased: u64, due: [u64; 2]) -> Totals {
        Totals { ready, oldest_ready: Duration::from_secs(oldest), leased, due: due.to_vec() }
    }

    fn found(next: u64, ready: u64, due: &[u64]) -> Survey {
        Survey { next, ready, leased: 1, oldest_ready: age(ready), due: due.to_vec() }
    }

    #[test]
    fn the_totals_are_of_all_shards_as_each_answered_last() {
        let start = Instant::now();
        let mut surveys = Surveys::new([60, 300].map(Duration::from_secs).to_vec(), start);
        assert_eq!(surveys.totals(), totals(0, 0, 0, [0, 0]));
        let asked = surveys.take(&two_shards(), start + EVERY);
        assert_eq!(
            asked.iter().map(|question| (question.shard, question.page)).collect::<Vec<_>>(),
            [(A, 0), (B, 0)]
        );
        surveys.answered(A, found(0, 5, &[1, 2]));
        surveys.answered(B, found(0, 7, &[10, 20]));
        surveys.answered(A, found(0, 6, &[3, 4]));
        assert_eq!(surveys.totals(), totals(13, 7, 2, [13, 24]));
        surveys.drop(B);
        assert_eq!(surveys.totals(), totals(6, 6, 1, [3, 4]));
    }

    #[test]
    fn what_is_ready_counts_once_every_page_was_seen() {
        let start = Instant::now();
        let mut surveys = Surveys::new(vec![Duration::from_secs(60)], start);
        for (next, ready, total, oldest) in [
            (0, 4, 4, 4),
            (9, 100, 4, 4),
            (3, 10, 4, 4),
            (0, 1, 111, 100),
            (9, 100, 111, 100),
            (0, 0, 100, 100),
            (0, 0, 0, 0),
        ] {
            surveys.answered(A, found(next, ready, &[0]));
            let Totals { ready, oldest_ready, .. } = surveys.totals();
            assert_eq!((ready, oldest_ready), (total, Duration::from_secs(oldest)));
        }
        surveys.answered(A, found(9, 1, &[0]));
        assert_eq!(surveys.take(&two_shards(), start + EVERY)[0].page, 9, "it goes on where it stopped");
    }

    #[test]
    fn without_a_horizon_shards_are_asked_for_what_is_ready() {
        let start = Instant::now();
        let mut surveys = Surveys::new(Vec::new(), start);
        let asked = surveys.take(&two_shards(), start + EVERY);
        assert_eq!(asked.len(), 2);
        surveys.answered(A, found(0, 5, &[3]));
        assert_eq!(surveys.totals(), Totals { due: Vec::new(), ..totals(5, 5, 1, [0, 0]) });
    }
}
