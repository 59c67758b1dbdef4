//! `put`.

use super::settle::Settled;
use super::words;
use crate::call::Call;
use crate::envelope::{Envelope, State};
use crate::id::Topic;
use crate::leased::NextPut;
use crate::message::{Due, Message};
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::stored_id;
use crate::time::{UnixMicros, UnixMillis};

/// The outcome of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// Stored, and due at this time.
    Stored(UnixMillis),
    /// Stored and already due, so ready.
    Ready(UnixMillis),
    /// Merged with a pending message, as [`Message::debounce`] and its kind ask for; or, by [`Message::throttle`], due later than
    /// it says, behind a message that is leased or was delivered.
    Again {
        /// The state of the message that was met: delayed or ready; leased, delivered or dead.
        state: State,
        /// Its due time.
        old: UnixMillis,
        /// The due time in force.
        due: UnixMillis,
    },
    /// The message is not as [`Message::expecting`] says: in this state. The time is its due time, or the time of its
    /// finish. Nothing was changed.
    Changed(State, UnixMillis),
    /// No message is known, so none is as [`Message::expecting`] says. Nothing was stored.
    Unknown,
    /// The same message already exists from an earlier try, or has finished with this outcome: nothing was stored. The
    /// time is the due time, or the time of the finish.
    Exists(State, UnixMillis),
    /// Another message has this id. The time is its due time, or the time of its finish. Nothing was changed.
    Conflict(State, UnixMillis),
    /// The id belongs to a message with a newer format than the shard's scripts can read. Nothing was changed.
    Newer,
    /// The id belongs to bytes that are not a message. Nothing was changed.
    Malformed,
    /// The message to replace is leased. Nothing was changed.
    Leased,
    /// A repeat so late that its topic may have forgotten the first try, and therefore refuses
    /// ([`crate::policy::Repeats::Refuse`]). Nothing was changed.
    Stale,
    /// In the spool on this host's disk, to be put once Redis is reachable.
    Spooled,
    /// Refused by the script for this reason. Nothing was changed.
    Refused(String),
}

/// An item of a `put` call.
#[derive(Clone, Copy, Debug)]
pub struct PutItem<'m> {
    /// The message, with its id.
    pub message: &'m Message,
    /// True if the shard is an earlier place, which is only asked.
    pub earlier: bool,
    /// Start of the first try, on Redis's clock, if its answer was lost.
    pub first_try: Option<UnixMillis>,
}

// === impl PutOutcome ===

impl PutOutcome {
    /// True if delayq is responsible for the message, by this put or an earlier one: it is pending, leased, dead,
    /// delivered or spooled. False if the message was cancelled, expired or purged before: nothing was stored, and the
    /// message is not delivered.
    pub fn is_accepted(&self) -> bool {
        match self {
            Self::Spooled => true,
            Self::Exists(state, _) => !words::LOST.contains(state),
            _ => words::is_accepted(self.word()),
        }
    }

    /// The word of the outcome.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Stored(_) => "stored",
            Self::Ready(_) => "ready",
            Self::Again { .. } => "again",
            Self::Changed(..) => "changed",
            Self::Unknown => "unknown",
            Self::Exists(..) => "exists",
            Self::Conflict(..) | Self::Newer | Self::Malformed => "conflict",
            Self::Leased => "leased",
            Self::Stale => "stale",
            Self::Spooled => "spooled",
            Self::Refused(_) => "refused",
        }
    }
}

/// Puts messages of one topic into one shard: at most 500 messages and 4 MiB, all placed by the same layout. `stored`
/// encodes a message for its topic.
pub fn request(
    shard: ShardId,
    topic: &Topic,
    items: &[PutItem<'_>],
    stored: impl Fn(&Message) -> Envelope,
) -> Call {
    let mut call = Call::new(Verb::Put, shard).arg(topic.as_bytes());
    for item in items {
        let message = item.message;
        let id = message.id.as_ref().expect("a message has its id before it is put");
        call.push(stored_id(id, message.group.as_ref()));
        call.push(message.due.argument());
        call.push(options(item));
        call.push(stored(message).encode());
    }
    call
}

/// Finishes messages and puts the next messages, all of one topic. A failure leaves both undone.
pub fn by_acks<'n>(shard: ShardId, topic: &Topic, all: impl IntoIterator<Item = &'n NextPut>) -> Call {
    let mut call = Call::new(Verb::Put, shard).arg(topic.as_bytes());
    for next in all {
        call.push(&next.id);
        call.push(next.due.argument());
        call.push(format!("ack={}", hex(next.receipt.as_bytes())));
        call.push(&next.envelope);
    }
    call
}

/// A put without messages, which changes nothing: a shard that accepts puts refuses it as `DQARG`.
pub fn of_none(shard: ShardId) -> Call {
    Call::new(Verb::Put, shard)
}

/// Reads the outcome of each message; `None`: not in this earlier place.
pub fn read(reply: Value, items: &[PutItem<'_>]) -> Result<Vec<Option<PutOutcome>>, ReplyError> {
    let mut reply = Reply::new(Verb::Put, reply)?;
    let now = UnixMicros(reply.number()?).millis();
    items.iter().map(|item| outcome(item.message, now, &mut reply)).collect()
}

/// Reads the answers to puts that ack as the answers to acks.
pub fn read_acks(reply: Value, count: usize) -> Result<Vec<Settled>, ReplyError> {
    let mut reply = Reply::new(Verb::Put, reply)?;
    reply.number()?; // the time
    (0..count).map(|_| acked(&mut reply)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn acked(reply: &mut Reply) -> Result<Settled, ReplyError> {
    let text = reply.text()?;
    Ok(match Words::new(&text).word() {
        "stored" | "ready" | "exists" => Settled::Delivered,
        "cancelled" => Settled::Cancelled,
        "expired" => Settled::LeaseLost,
        "refused" | "conflict" => Settled::Failed(format!("the next message was not put: {text}")),
        _ => return Err(reply.nonsense(&text)),
    })
}

fn options(item: &PutItem<'_>) -> String {
    let &PutItem { message, earlier, first_try } = item;
    let mut options = String::new();
    if earlier {
        options.push_str("earlier ");
    }
    if message.replace {
        options.push_str("replace ");
        if !message.again.is_plain() {
            options.push_str(&format!("{} ", message.again));
        }
    }
    if let Some(began) = first_try {
        options.push_str(&format!("tried={began} "));
    }
    if let Some(record) = message.record {
        options.push_str(&format!("record={record}"));
    }
    options
}

fn outcome(message: &Message, now: UnixMillis, reply: &mut Reply) -> Result<Option<PutOutcome>, ReplyError> {
    let due = match message.due {
        Due::At(due) => due,
        Due::After(delay) => now + delay,
    };
    let text = reply.text()?;
    let mut words = Words::new(&text);
    Ok(Some(match words.word() {
        "moved" => return Ok(None),
        "stored" => PutOutcome::Stored(due),
        "ready" => PutOutcome::Ready(due),
        "leased" => PutOutcome::Leased,
        "unknown" => PutOutcome::Unknown,
        "stale" => PutOutcome::Stale,
        "refused" => PutOutcome::Refused(words.rest().to_owned()),
        "again" => {
            let state = State::from_word(words.word());
            let (old, due) = (words.number(), words.number());
            let (Some(state), Some(old), Some(due)) = (state, old, due) else {
                return Err(reply.nonsense(&text));
            };
            PutOutcome::Again { state, old: UnixMillis::new(old), due: UnixMillis::new(due) }
        }
        word @ ("exists" | "conflict" | "changed") => {
            let state = words.word();
            let time = UnixMillis::new(words.number().unwrap_or(0));
            match (word, State::from_word(state)) {
                ("exists", Some(state)) => PutOutcome::Exists(state, time),
                ("conflict", Some(state)) => PutOutcome::Conflict(state, time),
                ("changed", Some(state)) => PutOutcome::Changed(state, time),
                ("conflict", None) if state == "newer" => PutOutcome::Newer,
                ("conflict", None) if state == "malformed" => PutOutcome::Malformed,
                _ => return Err(reply.nonsense(&text)),
            }
        }
        _ => return Err(reply.nonsense(&text)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_of_what_was_cancelled_is_not_accepted() {
        for (state, accepted) in [
            (State::Delayed, true),
            (State::Ready, true),
            (State::Leased, true),
            (State::Dead, true),
            (State::Delivered, true),
            (State::Cancelled, false),
            (State::Expired, false),
            (State::Purged, false),
        ] {
            assert_eq!(PutOutcome::Exists(state, UnixMillis::new(1)).is_accepted(), accepted, "{state}");
        }
    }
}
