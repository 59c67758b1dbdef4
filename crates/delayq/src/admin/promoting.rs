//! Promotes delayed messages: the messages become ready before the due times.

use super::{Admin, ListState, Listing, TimeRange};
use crate::error::Error;
use crate::options::RATE;
use crate::setters::setters;
use delayq_core::id::Topic;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::promote::{self, Promotable, Promoted};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum messages per call, so that a call delays other callers by a few milliseconds at most.
const STEP: u64 = 100;

/// The selection of delayed messages to promote, and the speed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PromoteOptions {
    /// The range of due times.
    pub due: TimeRange,
    /// Maximum number to promote; `None`: all.
    pub max_messages: Option<u64>,
    /// Maximum number per second, at least 1; `None`: no limit.
    pub rate: Option<u32>,
}

// === impl PromoteOptions ===

impl Default for PromoteOptions {
    fn default() -> Self {
        Self { due: TimeRange::ALL, max_messages: None, rate: None }
    }
}

impl PromoteOptions {
    setters! {
        due: TimeRange,
        max_messages: u64 => Some(max_messages),
        rate: u32 => Some(rate),
    }

    /// Returns the number of messages in the next call, after this number: a tenth of a second's worth.
    fn step(&self, promoted: u64) -> u64 {
        let by_rate = self.rate.map_or(STEP, |rate| (u64::from(rate) / 10).max(1));
        STEP.min(by_rate).min(self.max_messages.unwrap_or(u64::MAX) - promoted)
    }

    /// Returns the pause after a call that promoted this number.
    fn pause(&self, promoted: u64) -> Duration {
        self.rate.map_or(Duration::ZERO, |rate| Duration::from_millis(promoted * 1000 / u64::from(rate)))
    }

    fn is_reached(&self, promoted: u64) -> bool {
        self.max_messages.is_some_and(|most| promoted >= most)
    }
}

// === impl Admin ===

impl Admin {
    /// Makes delayed messages ready now, in bounded steps: in each shard in the order of due times. The due time
    /// becomes the time of the promotion; an expiry relative to the due time moves along. After each step, `progress`
    /// gets the number promoted so far.
    ///
    /// # Errors
    /// [`Error::Option`]: an option is outside the allowed range. Redis cannot be used; some messages are ready then.
    /// Safe to repeat.
    pub async fn promote(
        &self,
        which: impl Into<Promotable>,
        options: &PromoteOptions,
        mut progress: impl FnMut(u64),
    ) -> Result<Promoted, Error> {
        options.due.check()?;
        if let Some(rate) = options.rate {
            RATE.check(rate)?;
        }
        let which = which.into();
        let mut promoted = Promoted::default();
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            let mut next = Some(Cursor::from(options.due.from));
            while let Some(cursor) = next.filter(|_| !options.is_reached(promoted.promoted)) {
                let step = options.step(promoted.promoted);
                let call = promote::request(shard, &which, options.due.to, &cursor, step);
                let (some, rest) = self.client.calls.ask(call, promote::read).await?;
                promoted.add(some);
                progress(promoted.promoted);
                tokio::time::sleep(options.pause(some.promoted)).await;
                next = rest;
            }
        }
        Ok(promoted)
    }

    /// Promotes delayed messages of a topic that are due until a time, the earliest due of all shards, until `room`
    /// messages are ready. Ready messages that are not handed out, as of a paused topic, leave no room for others.
    /// Returns the number for each shard. A concurrent change may promote others in the same shards, and never more.
    pub(crate) async fn promote_earliest(
        &self,
        topic: &Topic,
        until: UnixMillis,
        room: usize,
    ) -> Result<BTreeMap<ShardId, u64>, Error> {
        let (mut shares, mut promoted) = (BTreeMap::<ShardId, u64>::new(), BTreeMap::new());
        // What is due now belongs to the timer.
        let from = UnixMillis::new(self.redis_now().await?.get() + 1);
        if from > until {
            return Ok(promoted);
        }
        let ready = self.topic(topic).count().await?.ready;
        let room = room.saturating_sub(usize::try_from(ready).unwrap_or(usize::MAX));
        if room == 0 {
            return Ok(promoted);
        }
        let listing =
            Listing::Topic { topic, state: ListState::Delayed, range: TimeRange { from, to: until } };
        for listed in self.page(listing, None, room).await?.messages {
            *shares.entry(listed.shard).or_default() += 1;
        }
        for (shard, share) in shares {
            let (mut next, mut left) = (Some(Cursor::from(from)), share);
            while let Some(cursor) = next.filter(|_| left > 0) {
                let call = promote::request(shard, &topic.into(), until, &cursor, left.min(STEP));
                let (some, rest) = self.client.calls.ask(call, promote::read).await?;
                left -= some.promoted.min(left);
                next = rest;
            }
            if left < share {
                promoted.insert(shard, share - left);
            }
        }
        Ok(promoted)
    }

    /// Returns the time on the clock of Redis.
    pub(super) async fn redis_now(&self) -> Result<UnixMillis, Error> {
        let link = self.client.calls.link_of(ShardId::new(0)).await?;
        let (seconds, micros): (u64, u64) = link.query("TIME", &redis::cmd("TIME")).await?;
        Ok(UnixMillis::new(seconds * 1000 + micros / 1000))
    }
}
