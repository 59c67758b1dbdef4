//! The slow net: polls every owned shard from time to time, and checks other timers' shards for a missing pump.

use super::Pumping;
use crate::calls::{Call, NO_LATER, Trip};
use crate::events;
use crate::foreign::{Checks, Seen};
use crate::node_id::NodeId;
use crate::redis_health::is_missing;
use delayq::Error;
use delayq::protocol::{BooksPage, ForgottenTopics, PumpReport, PumpWord, ShardId, Survey, UnixMicros};
use std::time::Instant;

// === impl Pumping ===

impl Pumping {
    /// Polls everything but the owned shards, and counts the membership's events.
    pub(super) fn poll(&mut self, now: Instant) {
        self.send_holds(now);
        let mut wrong = false;
        for (node, shard) in self.nodes.in_use().clone() {
            let doubtful = self.nodes[node].clock.is_jumped() || self.health.is_poor(node);
            wrong |= doubtful;
            let unseen = self.schedule.owned_at(node).next().is_none();
            if (doubtful || unseen) && self.health.ask(node) {
                self.send(Call::Probe { node, shard });
            }
        }
        self.poll_foreign(now);
        self.fleet.count(&self.metrics);
        self.poll.sent(wrong, now);
    }

    /// Polls the owned shards whose turn has come, which renews their locks; asks some shards for a survey or their
    /// books, and one shard to forget topics.
    pub(super) fn poll_owned(&mut self, now: Instant) {
        let shards = self.poll.owned(&self.schedule, now);
        if self.is_single() {
            // A claim by the owner renews the lock.
            self.claim(&shards);
        }
        shards.into_iter().for_each(|shard| self.schedule.poll(shard));
        match self.forgetting.take(&self.schedule, now) {
            // An untrusted clock cannot tell how long a topic was quiet.
            Some(page) if self.nodes[self.nodes.of(page.shard)].clock.is_jumped() => {
                self.forgetting.answered(page.shard, None);
            }
            Some(page) => self.send(Call::Forget(page)),
            None => {}
        }
        let questions = self.surveys.take(&self.schedule, now);
        self.send_all(questions.into_iter().map(Call::Survey));
        let books = self.books.take(&self.schedule, now);
        self.send_all(books.map(|(shard, at)| Call::Books(shard, at)));
    }

    pub(super) fn probed(
        &mut self,
        (node, shard): (NodeId, ShardId),
        trip: Trip,
        clock: Option<UnixMicros>,
        wrote: Result<(), Error>,
    ) {
        if let Some(clock) = clock {
            self.hear(node, trip, clock);
        }
        match wrote {
            Ok(()) => self.well(node, trip),
            Err(error) => self.lost((node, shard), &error, trip.answered),
        }
    }

    fn poll_foreign(&mut self, now: Instant) {
        if self.is_single() || self.stopping.is_some() {
            return;
        }
        self.foreign.others(self.other_timers(self.schedule.count()));
        self.foreign.lead(self.fleet.handle().leads(), now);
        let Checks { rescues, orphans } = self.foreign.take(now, self.fleet.is_unled());
        self.rescue(&rescues, now);
        self.adopt(orphans, now);
    }

    /// Rescues overdue messages from other timers' shards. With an unknown or untrusted clock the call moves nothing
    /// and only learns the next due time.
    fn rescue(&mut self, shards: &[ShardId], now: Instant) {
        for (node, some) in self.nodes.apart(shards) {
            let clock = &self.nodes[node].clock;
            let latest = clock.latest(now).filter(|_| !clock.is_jumped()).unwrap_or(NO_LATER);
            self.send_all(Call::rescues(node, &some, latest));
        }
    }

    pub(super) fn rescued(
        &mut self,
        (node, shards): (NodeId, &[ShardId]),
        trip: Trip,
        reports: Vec<Result<PumpReport, Error>>,
    ) {
        let mut more = Vec::new();
        for (&shard, report) in shards.iter().zip(reports) {
            match report {
                Ok(report) => more.extend(self.rescued_one((node, shard), &report, trip)),
                Err(error) => {
                    self.foreign.failed(shard, trip.answered);
                    if is_missing(&error) {
                        self.health.lacks(shard, trip.answered);
                    }
                    self.unanswered(node, &error, trip.answered);
                }
            }
        }
        if self.stopping.is_none() {
            self.rescue(&more, trip.answered);
        }
    }

    /// Handles a rescue's report of another timer's shard. Returns the shard if more may be left to rescue.
    fn rescued_one(
        &mut self,
        (node, shard): (NodeId, ShardId),
        report: &PumpReport,
        trip: Trip,
    ) -> Option<ShardId> {
        self.compare(node, trip, report.now);
        self.well(node, trip);
        self.health.has(shard, trip.answered);
        let (now, moved) = (report.now.millis(), report.moved + report.returned + report.expired > 0);
        let overdue = report.runs.first().map(|&(due, _)| due).or(report.next_due).filter(|&due| due <= now);
        let seen = Seen { next_due: report.next_due, overdue, ran: now, moved };
        self.foreign.answered(shard, seen, trip.answered);
        if !moved {
            return None;
        }
        self.metrics.count(report, true);
        events::rescued(&self.metrics, shard, report.moved);
        (report.word == PumpWord::More || report.next_due.is_some_and(|due| due <= now)).then_some(shard)
    }

    pub(super) fn forgot(&mut self, shard: ShardId, answer: Result<ForgottenTopics, Error>) {
        self.forgetting.answered(shard, answer.as_ref().ok().map(|forgotten| forgotten.next));
        match answer {
            Ok(forgotten) => {
                for topic in &forgotten.topics {
                    let is_news = self.forgetting.is_news(topic);
                    events::topic_forgotten(&self.metrics, topic, shard, is_news);
                }
            }
            // The polls, not this call, judge whether Redis answers.
            Err(error) => tracing::debug!(%shard, %error, "it is asked to forget topics again later"),
        }
    }

    /// Handles a survey's answer; a failed survey is not held against Redis.
    pub(super) fn surveyed(&mut self, shard: ShardId, answer: Result<Survey, Error>) {
        match answer {
            Ok(found) if self.schedule.epoch(shard).is_some() => self.surveys.answered(shard, found),
            Ok(_) => {}
            Err(error) => tracing::debug!(%shard, %error, "it is asked again what it has in 15 s"),
        }
    }

    /// Handles an answer about a shard's books; a failed call is not held against Redis.
    pub(super) fn counted(&mut self, shard: ShardId, answer: Result<BooksPage, Error>) {
        let found = match answer {
            Ok(found) if self.schedule.epoch(shard).is_some() => Some(found),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%shard, %error, "its books are looked at again later");
                None
            }
        };
        self.metrics.books_counted.inc_by(found.as_ref().map_or(0, |found| found.topics.len() as u64));
        for topic in self.books.answered(shard, found) {
            events::books_off(shard, &topic);
        }
    }
}
