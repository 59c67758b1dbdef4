//! The shards pumped here: one map, the schedule's, holds everything that the timer keeps for each shard, so a shard
//! that is dropped from the schedule leaves nothing behind.

use crate::books::{Books, BooksOf};
use crate::calls::Call;
use crate::config::TimerConfig;
use crate::events;
use crate::forgetting::Forgetting;
use crate::metrics::{ExportedEpoch, TimerMetrics};
use crate::progress::{Faults, Progress, Stall};
use crate::survey::{Surveyed, Surveys};
use delayq::protocol::scheduling::{Found, NodeId, Rota, Schedule};
use delayq::protocol::{BooksPage, ForgottenTopics, PumpReport, ShardId, Survey};
use delayq::{Error, UnixMillis};
use std::time::{Duration, Instant};

/// Shards polled at once: a tenth of a millisecond of Redis's time.
const POLLED_AT_ONCE: usize = 8;

/// The shards pumped here.
pub(crate) struct PumpedShards {
    pub(crate) schedule: Schedule<PumpedShard>,
    /// The turns of the polls.
    polls: Rota,
    progress: Progress,
    stall: Option<Stall>,
    surveys: Surveys,
    books: Books,
    forgetting: Forgetting,
    metrics: TimerMetrics,
}

/// Everything that is kept for a shard besides its schedule.
#[derive(Debug, Default)]
pub(crate) struct PumpedShard {
    epoch: Option<ExportedEpoch>,
    faults: Faults,
    surveyed: Surveyed,
    books: BooksOf,
    /// The page of topics to forget next.
    topics_page: u64,
}

// === impl PumpedShards ===

impl PumpedShards {
    pub(crate) fn new(config: &TimerConfig, metrics: TimerMetrics, now: Instant) -> Self {
        Self {
            schedule: Schedule::new(config.batch, *config.resolution),
            polls: Rota::new(*config.poll_interval, POLLED_AT_ONCE, now),
            progress: Progress::new(now),
            stall: None,
            surveys: Surveys::new(config.horizons.iter().map(|&horizon| *horizon).collect(), now),
            books: Books::new(now),
            forgetting: Forgetting::new(*config.forget_topics_after, now),
            metrics,
        }
    }

    /// Owns a shard under the epoch that Redis granted. If two claims were in flight, the later epoch counts.
    pub(crate) fn own(&mut self, shard: ShardId, epoch: u64, next_due: Option<UnixMillis>) {
        let known = self.schedule.epoch(shard);
        if known == Some(epoch) {
            if let Some(due) = next_due {
                self.schedule.wake(shard, due);
            }
            // A fenced answer belonged to an epoch before this grant.
            self.schedule.doubt(shard, false);
        } else if known.is_none_or(|known| known < epoch) {
            self.schedule.own(shard, epoch, next_due);
            // Only a pump reveals whether an earlier owner left the shard held.
            self.schedule.poll(shard);
            if let Some(kept) = self.schedule.kept_mut(shard) {
                let exported = kept.epoch.get_or_insert_with(|| self.metrics.epoch_of(shard));
                events::owned(exported, shard, epoch);
            }
        }
    }

    /// Handles a pump's report. Returns true if the shard is still pumped here, at that node.
    pub(crate) fn pumped(
        &mut self,
        (node, shard): (NodeId, ShardId),
        report: &PumpReport,
        now: Instant,
    ) -> bool {
        let early = self.metrics.count(report, self.schedule.was_due(shard));
        let found = Found::of(report, early);
        let Some(kept) = self.schedule.answered((node, shard), found, now) else { return false };
        kept.faults.answered(report.blocked > 0, now);
        let done = report.moved + report.returned + report.buried + report.expired + report.forgotten;
        if done > 0 {
            self.progress.moved(now);
        }
        true
    }

    /// Handles a failed call for a shard; a failure counts only while the shard is planned for this timer.
    pub(crate) fn failed(&mut self, (node, shard): (NodeId, ShardId), is_given: bool, now: Instant) {
        match self.schedule.failed((node, shard), now) {
            Some(kept) if is_given => kept.faults.failed(now),
            Some(kept) => kept.faults = Faults::default(),
            None => {}
        }
    }

    /// Polls every shard, even if nothing is due.
    pub(crate) fn poll_all(&mut self) {
        let all: Vec<ShardId> = self.schedule.all_kept().map(|(shard, _)| shard).collect();
        all.into_iter().for_each(|shard| self.schedule.poll(shard));
    }

    /// Polls the shards whose turn has come, and returns these shards.
    pub(crate) fn poll(&mut self, now: Instant) -> Vec<ShardId> {
        let shards = self.polls.take(&self.schedule, now);
        shards.iter().for_each(|&shard| self.schedule.poll(shard));
        shards
    }

    /// Takes the questions about surveys, books and topics whose turn has come. `is_trusted` tells whether the clock of
    /// a shard is trusted.
    pub(crate) fn questions(&mut self, is_trusted: impl Fn(ShardId) -> bool, now: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        match self.forgetting.take(&self.schedule, |kept| kept.topics_page, now) {
            Some(page) if is_trusted(page.shard) => calls.push(Call::Forget(page)),
            // An untrusted clock cannot tell how long a topic was quiet.
            Some(_) => self.forgetting.answered(),
            None => {}
        }
        calls.extend(
            self.surveys.take(&self.schedule, |kept| &kept.surveyed, now).into_iter().map(Call::Survey),
        );
        let books = self.books.take(&self.schedule, |kept| &kept.books, now);
        calls.extend(books.map(|(shard, at)| Call::Books(shard, at)));
        calls
    }

    /// The times of the next polls and questions.
    pub(crate) fn next(&self) -> impl Iterator<Item = Instant> {
        let shards = self.schedule.count();
        let always = [self.polls.next(shards), self.surveys.next(shards), self.books.next(shards)];
        always.into_iter().chain(self.forgetting.next(shards))
    }

    pub(crate) fn forgot(&mut self, shard: ShardId, answer: Result<ForgottenTopics, Error>) {
        self.forgetting.answered();
        match answer {
            Ok(forgotten) => {
                if let Some(kept) = self.schedule.kept_mut(shard) {
                    kept.topics_page = forgotten.next;
                }
                for topic in &forgotten.topics {
                    let is_news = self.forgetting.is_news(topic);
                    events::topic_forgotten(&self.metrics, topic, shard, is_news);
                }
            }
            // The polls, not this call, judge whether Redis answers.
            Err(error) => tracing::debug!(%shard, %error, "asking again later to forget topics"),
        }
    }

    /// Handles a survey's answer; a failed survey is not held against Redis.
    pub(crate) fn surveyed(&mut self, shard: ShardId, answer: Result<Survey, Error>) {
        match (answer, self.schedule.kept_mut(shard)) {
            (Ok(found), Some(kept)) => kept.surveyed.answered(found),
            (Ok(_), None) => {}
            (Err(error), _) => tracing::debug!(%shard, %error, "reading the contents again in 15 s"),
        }
    }

    /// Handles an answer about a shard's books; a failed call is not held against Redis.
    pub(crate) fn counted(&mut self, shard: ShardId, answer: Result<BooksPage, Error>) {
        self.books.answered();
        match (answer, self.schedule.kept_mut(shard)) {
            (Ok(found), Some(kept)) => {
                self.metrics.books_counted.inc_by(found.topics.len() as u64);
                for topic in kept.books.answered(found) {
                    events::books_off(shard, &topic);
                }
            }
            (Ok(_), None) => {}
            (Err(error), _) => tracing::debug!(%shard, %error, "reading the counters again later"),
        }
    }

    /// How long a message has been blocked in any shard.
    pub(crate) fn blocked_for(&self, now: Instant) -> Duration {
        let blocked = self.schedule.all_kept().map(|(_, kept)| kept.faults.blocked_for(now));
        blocked.max().unwrap_or_default()
    }

    /// The reason why due messages do not move, as judged last.
    pub(crate) const fn stall(&self) -> Option<Stall> {
        self.stall
    }

    /// Exports the answers of the shards, and judges whether due messages move, given how long the first due message
    /// has been waiting.
    pub(crate) fn judge(&mut self, overdue: Duration, now: Instant) {
        let kept = || self.schedule.all_kept().map(|(_, kept)| kept);
        self.metrics.surveyed(&self.surveys.totals(kept().map(|kept| &kept.surveyed)));
        self.metrics.books_off(kept().map(|kept| kept.books.off_by()).sum());
        let shards = self.schedule.all_kept().map(|(shard, kept)| (shard, &kept.faults));
        let stall = self.progress.judge(shards, overdue, now);
        match (self.stall, stall) {
            (None, Some(stall)) => events::stalled(&self.metrics, stall),
            (Some(_), None) => events::moving(&self.metrics),
            _ => {}
        }
        self.stall = stall;
    }

    /// Exports the number of shards.
    pub(crate) fn count(&self) {
        self.metrics.shards.set(i64::try_from(self.schedule.count()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::Topic;
    use delayq::protocol::BooksAt;
    use delayq_service::Metrics;

    const A: ShardId = ShardId::new(3);
    const NODE: NodeId = NodeId(0);

    #[test]
    fn a_lost_shard_leaves_nothing_behind() {
        let (metrics, config, start) = (Metrics::new(), TimerConfig::default(), Instant::now());
        let mut shards =
            PumpedShards::new(&config, TimerMetrics::register(&metrics, &config.horizons), start);
        let seen = |shards: &mut PumpedShards, seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            shards.count();
            shards.judge(Duration::ZERO, now);
            let text = metrics.encode();
            let gauge = |name: &str| {
                let name = format!("delayq_timer_{name}");
                let line = text.lines().find(|line| line.starts_with(&name));
                line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            };
            let gauges =
                ["epoch{", "shards ", "ready_messages{state=\"free\"} ", "leased_messages ", "books_off"]
                    .map(gauge);
            (gauges, shards.stall(), shards.blocked_for(now))
        };
        let nothing = seen(&mut shards, 0);
        shards.own(A, 7, None);
        shards.surveyed(
            A,
            Ok(Survey { next: 0, ready: 5, held: 1, leased: 2, oldest_ready: None, due: Vec::new() }),
        );
        let wrong = vec![(Topic::new("orders").unwrap(), Some(3))];
        shards.counted(A, Ok(BooksPage { next: BooksAt { page: 9, passed: 16 }, topics: wrong }));
        shards.forgot(A, Ok(ForgottenTopics { next: 4, topics: Vec::new() }));
        shards.failed((NODE, A), true, start);
        let gauges = [Some(7.0), Some(1.0), Some(4.0), Some(2.0), Some(3.0)];
        assert_eq!(seen(&mut shards, 9), (gauges, Some(Stall::Failing(A)), Duration::ZERO));
        assert!(shards.schedule.drop(A));
        assert_eq!(seen(&mut shards, 9), nothing);
        shards.own(A, 8, None);
        let asked = shards.questions(|_| true, start + Duration::from_secs(600));
        let at_the_start = |call: &Call| match call {
            Call::Forget(page) => page.from == 0,
            Call::Survey(question) => question.page == 0,
            Call::Books(_, at) => *at == BooksAt::default(),
            _ => false,
        };
        assert!(asked.len() == 3 && asked.iter().all(at_the_start));
    }
}
