//! `count`: messages of a topic by state.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::UnixMillis;
use serde::Serialize;

/// The counts of one topic, in one shard or summed over all. Accepted equals the sum of delivered, cancelled, expired,
/// purged, replaced, delayed, ready, leased and dead; otherwise messages were lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Numbers {
    /// Waiting for the due time.
    pub delayed: u64,
    /// In the ready queue.
    pub ready: u64,
    /// Reserved.
    pub leased: u64,
    /// Dead letters.
    pub dead: u64,
    /// Total accepted.
    pub accepted: u64,
    /// Total delivered and acked.
    pub delivered: u64,
    /// Total cancelled.
    pub cancelled: u64,
    /// Total expired.
    pub expired: u64,
    /// Total purged by an operator.
    pub purged: u64,
    /// Total replaced by another put.
    pub replaced: u64,
    /// Total moved to the dead letters, counting repeats.
    pub buried: u64,
    /// The earliest due time of delayed messages, or earlier (that message may have been cancelled).
    pub next_due: Option<UnixMillis>,
    /// Ready time of the oldest message at the head of a ready queue: the oldest ready message, unless messages came back
    /// or the clock was set back.
    #[serde(skip)]
    pub oldest_ready: Option<UnixMillis>,
    /// The earlier of `oldest_ready` and the due times of leased messages (the first 500 leases of each shard).
    #[serde(skip)]
    pub oldest_unhandled: Option<UnixMillis>,
    /// Number of shards in which the topic is paused.
    pub paused: u16,
    /// The rate in messages per second over all shards; `None`: unlimited.
    pub rate: Option<f64>,
    /// Groups that are full, or were until now, and have further ready messages.
    pub full_groups: u64,
    /// Paused groups.
    pub paused_groups: u64,
    /// Failed messages that block their groups.
    pub blocking: u64,
    /// Keys of the wrong type, over all shards; their contents are not counted.
    pub unreadable: u64,
}

// === impl Numbers ===

impl Numbers {
    /// Pending and leased messages: delayed, ready and leased.
    pub const fn pending(&self) -> u64 {
        self.delayed + self.ready + self.leased
    }

    /// Finished and remaining messages: equals accepted if the books balance.
    pub const fn accounted(&self) -> u64 {
        self.delivered
            + self.cancelled
            + self.expired
            + self.purged
            + self.replaced
            + self.dead
            + self.pending()
    }

    /// True if the books balance.
    pub const fn balances(&self) -> bool {
        self.accepted == self.accounted()
    }

    /// Adds the counts of another shard.
    pub fn add(&mut self, other: &Self) {
        self.delayed += other.delayed;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.purged += other.purged;
        self.replaced += other.replaced;
        self.buried += other.buried;
        self.paused += other.paused;
        self.full_groups += other.full_groups;
        // Each shard has every pause.
        self.paused_groups = self.paused_groups.max(other.paused_groups);
        self.blocking += other.blocking;
        self.unreadable += other.unreadable;
        let earlier = |one: Option<UnixMillis>, two| [one, two].into_iter().flatten().min();
        self.next_due = earlier(self.next_due, other.next_due);
        self.oldest_ready = earlier(self.oldest_ready, other.oldest_ready);
        self.oldest_unhandled = earlier(self.oldest_unhandled, other.oldest_unhandled);
        self.rate = match (self.rate, other.rate) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
    }

    fn read_totals(&mut self, reply: &mut Reply) -> Result<(), ReplyError> {
        for number in [
            &mut self.ready,
            &mut self.leased,
            &mut self.dead,
            &mut self.accepted,
            &mut self.delivered,
            &mut self.cancelled,
            &mut self.expired,
            &mut self.purged,
            &mut self.replaced,
            &mut self.buried,
        ] {
            *number = reply.counter()?;
        }
        self.paused = u16::from(reply.maybe_number()?.is_some());
        self.rate = reply.text()?.parse().ok();
        self.unreadable = reply.number()?;
        self.oldest_ready = reply.maybe_number()?.map(UnixMillis::new);
        self.oldest_unhandled = reply.maybe_number()?.map(UnixMillis::new);
        self.full_groups = reply.number()?;
        self.paused_groups = reply.number()?;
        self.blocking = reply.number()?;
        Ok(())
    }
}

/// Counts a topic in one shard, from this step on; the first is 0.
pub fn request(shard: ShardId, topic: &Topic, step: u64) -> Call {
    Call::new(Verb::Count, shard).arg(topic.as_bytes()).number(step)
}

/// Adds the counts of one step; returns the next step, or `None` after the last.
pub fn read(reply: Value, numbers: &mut Numbers) -> Result<Option<u64>, ReplyError> {
    let mut reply = Reply::new(Verb::Count, reply)?;
    let next = reply.maybe_number()?;
    numbers.delayed += reply.number()?;
    numbers.next_due = numbers.next_due.or(reply.maybe_number()?.map(UnixMillis::new));
    if !reply.is_empty() {
        numbers.read_totals(&mut reply)?;
    }
    Ok(next)
}
