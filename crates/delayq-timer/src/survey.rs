//! Surveys the messages ready for consumers, now and soon, in the shards pumped here: the shard to ask next, and the
//! totals of all answers. Pure.

use delayq::protocol::scheduling::{Rota, Schedule};
use delayq::protocol::{ShardId, Survey};
use std::time::{Duration, Instant};

/// Interval between two questions to a shard: scrapers seldom ask more often.
const EVERY: Duration = Duration::from_secs(15);
/// Shards asked at once: 12 µs of Redis's time each, and 0.3 ms if a hundred topics have messages due in a horizon.
const AT_ONCE: usize = 2;

/// A survey needs at least one horizon.
const SHORTEST: Duration = Duration::from_millis(1);

/// The turns of the shards.
#[derive(Clone, Debug)]
pub(crate) struct Surveys {
    horizons: Vec<Duration>,
    rota: Rota,
}

/// The answers of one shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surveyed {
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
    held: u64,
    oldest: Duration,
}

/// A survey to ask of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) shard: ShardId,
    pub(crate) page: u64,
    pub(crate) horizons: Vec<Duration>,
}

/// The totals of all shards, by each shard's last answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) ready: u64,
    /// Ready messages that wait for their groups.
    pub(crate) held: u64,
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
        Self { horizons, rota: Rota::new(EVERY, AT_ONCE, now) }
    }

    /// The time of the next question, with this number of shards.
    pub(crate) fn next(&self, shards: usize) -> Instant {
        self.rota.next(shards)
    }

    /// Takes the questions to ask now; `of` finds the answers of a shard.
    pub(crate) fn take<K>(
        &mut self,
        schedule: &Schedule<K>,
        of: impl Fn(&K) -> &Surveyed,
        now: Instant,
    ) -> Vec<Question> {
        let horizons = if self.horizons.is_empty() { vec![SHORTEST] } else { self.horizons.clone() };
        let question = |shard: ShardId| {
            Some(Question { shard, page: of(schedule.kept(shard)?).page, horizons: horizons.clone() })
        };
        self.rota.take(schedule, now).into_iter().filter_map(question).collect()
    }

    pub(crate) fn totals<'a>(&self, shards: impl Iterator<Item = &'a Surveyed>) -> Totals {
        let mut totals = Totals { due: vec![0; self.horizons.len()], ..Totals::default() };
        for Surveyed { ready, leased, due, .. } in shards {
            totals.ready += ready.messages;
            totals.held += ready.held;
            totals.oldest_ready = totals.oldest_ready.max(ready.oldest);
            totals.leased += leased;
            totals.due.iter_mut().zip(due).for_each(|(total, due)| *total += due);
        }
        totals
    }
}

// === impl Surveyed ===

impl Surveyed {
    /// Handles the shard's answer; a silent shard keeps its last answer.
    pub(crate) fn answered(&mut self, found: Survey) {
        (self.page, self.leased, self.due) = (found.next, found.leased, found.due);
        self.so_far.messages += found.ready;
        self.so_far.held += found.held;
        self.so_far.oldest = self.so_far.oldest.max(found.oldest_ready.unwrap_or_default());
        if self.page == 0 {
            self.ready = std::mem::take(&mut self.so_far);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(0);
    const B: ShardId = ShardId::new(1);

    fn two_shards() -> Schedule<Surveyed> {
        let mut schedule = Schedule::new(150, Duration::ZERO);
        [A, B].into_iter().for_each(|shard| schedule.own(shard, 1, None));
        schedule
    }

    /// As many seconds as there are messages.
    fn age(ready: u64) -> Option<Duration> {
        (ready > 0).then(|| Duration::from_secs(ready))
    }

    fn totals(ready: u64, oldest: u64, leased: u64, due: [u64; 2]) -> Totals {
        Totals {
            ready,
            held: ready / 2,
            oldest_ready: Duration::from_secs(oldest),
            leased,
            due: due.to_vec(),
        }
    }

    fn found(next: u64, ready: u64, due: &[u64]) -> Survey {
        Survey { next, ready, held: ready / 2, leased: 1, oldest_ready: age(ready), due: due.to_vec() }
    }

    /// The questions to ask now.
    fn asked(surveys: &mut Surveys, schedule: &Schedule<Surveyed>, now: Instant) -> Vec<Question> {
        surveys.take(schedule, |known| known, now)
    }

    fn answered(schedule: &mut Schedule<Surveyed>, shard: ShardId, found: Survey) {
        schedule.kept_mut(shard).unwrap().answered(found);
    }

    fn totals_of(surveys: &Surveys, schedule: &Schedule<Surveyed>) -> Totals {
        surveys.totals(schedule.all_kept().map(|(_, known)| known))
    }

    #[test]
    fn the_totals_are_of_all_shards_as_each_answered_last() {
        let start = Instant::now();
        let mut surveys = Surveys::new([60, 300].map(Duration::from_secs).to_vec(), start);
        let mut schedule = two_shards();
        assert_eq!(totals_of(&surveys, &schedule), totals(0, 0, 0, [0, 0]));
        let asked = asked(&mut surveys, &schedule, start + EVERY);
        assert_eq!(
            asked.iter().map(|question| (question.shard, question.page)).collect::<Vec<_>>(),
            [(A, 0), (B, 0)]
        );
        answered(&mut schedule, A, found(0, 5, &[1, 2]));
        answered(&mut schedule, B, found(0, 7, &[10, 20]));
        answered(&mut schedule, A, found(0, 6, &[3, 4]));
        assert_eq!(totals_of(&surveys, &schedule), totals(13, 7, 2, [13, 24]));
        schedule.drop(B);
        assert_eq!(totals_of(&surveys, &schedule), totals(6, 6, 1, [3, 4]));
    }

    #[test]
    fn what_is_ready_counts_once_every_page_was_seen() {
        let start = Instant::now();
        let mut surveys = Surveys::new(vec![Duration::from_secs(60)], start);
        let mut schedule = two_shards();
        for (next, ready, total, oldest) in [
            (0, 4, 4, 4),
            (9, 100, 4, 4),
            (3, 10, 4, 4),
            (0, 1, 111, 100),
            (9, 100, 111, 100),
            (0, 0, 100, 100),
            (0, 0, 0, 0),
        ] {
            answered(&mut schedule, A, found(next, ready, &[0]));
            let Totals { ready, oldest_ready, .. } = totals_of(&surveys, &schedule);
            assert_eq!((ready, oldest_ready), (total, Duration::from_secs(oldest)));
        }
        answered(&mut schedule, A, found(9, 1, &[0]));
        let asked = asked(&mut surveys, &schedule, start + EVERY);
        assert_eq!(asked[0].page, 9, "it continues where it stopped");
    }

    #[test]
    fn without_a_horizon_shards_are_asked_for_what_is_ready() {
        let start = Instant::now();
        let mut surveys = Surveys::new(Vec::new(), start);
        let mut schedule = two_shards();
        let asked = asked(&mut surveys, &schedule, start + EVERY);
        assert_eq!(asked.len(), 2);
        answered(&mut schedule, A, found(0, 5, &[3]));
        let all = totals_of(&surveys, &schedule);
        assert_eq!(all, Totals { due: Vec::new(), ..totals(5, 5, 1, [0, 0]) });
    }
}
