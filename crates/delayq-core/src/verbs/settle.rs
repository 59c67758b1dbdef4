//! `ack`, `extend`, `release`, `bury`: the calls of a lease's holder.

use super::reserve::Receipt;
use super::words;
use crate::call::Call;
use crate::reason;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::UnixMillis;
use std::time::Duration;

/// The result of settling a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Delivered and finished.
    Delivered,
    /// Retried at this time.
    Delayed(UnixMillis),
    /// Ready again.
    Ready,
    /// Moved to the dead letters.
    Buried,
    /// Cancelled while leased, and finished. An ack with a next message did not put the next message.
    Cancelled,
    /// The message expired while leased, and is finished.
    MessageExpired,
    /// The lease lasts until this time.
    Extended(UnixMillis),
    /// The lease lasts until this time, and a cancel arrived meanwhile: no further attempt.
    ExtendedDoomed(UnixMillis),
    /// The lease was lost: nothing was changed, and another worker may hold the message.
    LeaseLost,
    /// The script failed, for this reason.
    Failed(String),
}

/// A message to give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Settles this delivery.
    pub receipt: Receipt,
    /// Delay until ready again; `None`: by the back-off.
    pub delay: Option<Duration>,
    /// True if the attempt does not count, because the message was not at fault.
    pub keep_attempt: bool,
    /// Reason for the dead letters, if this was the last attempt; limited by [`crate::reason`].
    pub reason: String,
}

// === impl Settled ===

impl Settled {
    /// True if the holder still had the lease, and the request was carried out.
    pub fn is_accepted(&self) -> bool {
        words::is_accepted(self.word())
    }

    /// The word of the outcome.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Delayed(_) => "delayed",
            Self::Ready => "ready",
            Self::Buried => "buried",
            Self::Cancelled => "cancelled",
            Self::MessageExpired => "expired-message",
            Self::Extended(_) | Self::ExtendedDoomed(_) => "extended",
            Self::LeaseLost => "expired",
            Self::Failed(_) => "failed",
        }
    }
}

/// Finishes delivered messages. Like the other calls here: at most 500 of one shard.
pub fn ack<'r>(shard: ShardId, receipts: impl IntoIterator<Item = &'r Receipt>) -> Call {
    let mut call = Call::new(Verb::Ack, shard);
    receipts.into_iter().for_each(|receipt| call.push(&receipt.bytes));
    call
}

/// Extends leases from now; `None`: by the topic's lease.
pub fn extend<'r>(
    shard: ShardId,
    receipts: impl IntoIterator<Item = &'r Receipt>,
    lease: Option<Duration>,
) -> Call {
    let mut call = Call::new(Verb::Extend, shard);
    for receipt in receipts {
        call.push(&receipt.bytes);
        push_duration(&mut call, lease);
    }
    call
}

/// Gives undelivered messages back.
pub fn release<'r>(shard: ShardId, releases: impl IntoIterator<Item = &'r Release>) -> Call {
    let mut call = Call::new(Verb::Release, shard);
    for release in releases {
        call.push(&release.receipt.bytes);
        push_duration(&mut call, release.delay);
        call.push(if release.keep_attempt { "keep" } else { "" });
        call.push(reason::kept(&release.reason));
    }
    call
}

/// Moves messages to the dead letters, each with its reason.
pub fn bury<'r>(shard: ShardId, buried: impl IntoIterator<Item = (&'r Receipt, &'r str)>) -> Call {
    let mut call = Call::new(Verb::Bury, shard);
    for (receipt, reason) in buried {
        call.push(&receipt.bytes);
        call.push(reason::kept(reason));
    }
    call
}

/// Reads the result for each message; `verb` is the called script.
pub fn read(verb: Verb, reply: Value, count: usize) -> Result<Vec<Settled>, ReplyError> {
    let mut reply = Reply::new(verb, reply)?;
    (0..count).map(|_| settled(&mut reply)).collect()
}

fn push_duration(call: &mut Call, duration: Option<Duration>) {
    match duration {
        Some(duration) => call.push_number(duration.as_millis() as u64),
        None => call.push(""),
    }
}

fn settled(reply: &mut Reply) -> Result<Settled, ReplyError> {
    let text = reply.text()?;
    let mut words = Words::new(&text);
    let word = words.word();
    let time = words.number().map(UnixMillis::new);
    Ok(match (word, time) {
        ("delivered", _) => Settled::Delivered,
        ("delayed", Some(due)) => Settled::Delayed(due),
        ("ready", Some(_)) => Settled::Ready,
        ("buried", _) => Settled::Buried,
        ("cancelled", Some(lease_end)) => Settled::ExtendedDoomed(lease_end),
        ("cancelled", None) => Settled::Cancelled,
        ("expired-message", _) => Settled::MessageExpired,
        ("expired", _) => Settled::LeaseLost,
        ("failed", _) => Settled::Failed(words.rest().to_owned()),
        (number, _) => match number.parse() {
            Ok(lease_end) => Settled::Extended(UnixMillis::new(lease_end)),
            Err(_) => return Err(reply.nonsense(&text)),
        },
    })
}
