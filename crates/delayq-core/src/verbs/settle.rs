//! `ack`, `extend`, `release`, `bury`: what the holder of a lease does.

use super::reserve::Receipt;
use crate::call::Call;
use crate::reason;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::UnixMillis;
use std::time::Duration;

/// What became of a message that its holder settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was delivered, and is finished.
    Delivered,
    /// It is tried again at this time.
    Delayed(UnixMillis),
    /// It is ready again.
    Ready,
    /// It is among the dead letters.
    Buried,
    /// It was cancelled while it was leased, and is finished.
    Cancelled,
    /// The message expired while it was leased, and is finished.
    MessageExpired,
    /// The lease lasts until this time.
    Extended(UnixMillis),
    /// The lease lasts until this time, and a cancel came meanwhile: it will not be tried again.
    ExtendedDoomed(UnixMillis),
    /// The lease was lost: nothing was changed, and another worker may hold the message.
    LeaseLost,
    /// The script could not do it, for this reason.
    Failed(String),
}

/// How a message is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// What settles it.
    pub receipt: Receipt,
    /// When it is ready again; `None`: by its back-off.
    pub delay: Option<Duration>,
    /// Whether the attempt does not count, because it was not the message's fault.
    pub keep_attempt: bool,
    /// Why, for the dead letters, where this was the last attempt; as much as [`crate::reason`] keeps.
    pub reason: String,
}

// === impl Settled ===

impl Settled {
    /// Whether the holder still had the lease, and what it asked for was done.
    pub const fn is_accepted(&self) -> bool {
        !matches!(self, Self::LeaseLost | Self::Failed(_))
    }
}

/// Ends messages that were delivered. As the others here: at most 500 of one shard.
pub fn ack<'r>(shard: ShardId, receipts: impl IntoIterator<Item = &'r Receipt>) -> Call {
    let mut call = Call::new(Verb::Ack, shard);
    receipts.into_iter().for_each(|receipt| call.push(&receipt.bytes));
    call
}

/// Gives leases more time, from now; `None`: their topic's lease.
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

/// Gives messages back that were not delivered.
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

/// What became of each message; `verb` is the script that was called.
///
/// # Errors
/// An answer that the script does not give.
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
