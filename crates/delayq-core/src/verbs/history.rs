//! `history`: the events of a message, if its topic keeps a history.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::Target;
use crate::time::UnixMillis;
use std::time::Duration;

/// An event of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// Time, on Redis's clock.
    pub at: UnixMillis,
    /// Kind.
    pub what: Happening,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// Put.
    Put(Next),
    /// Replaced by another put.
    Replaced,
    /// The due time changed.
    Rescheduled {
        /// The previous due time.
        from: UnixMillis,
        /// The new place.
        next: Next,
    },
    /// Ready.
    Ready,
    /// Leased.
    Leased {
        /// The attempt, from 1.
        attempt: u32,
        /// End of the lease unless extended.
        until: UnixMillis,
        /// The holder's name; `None` if unnamed.
        by: Option<String>,
    },
    /// Released without counting the attempt.
    Released {
        /// The new place.
        next: Next,
        /// Reason; may be empty.
        reason: String,
    },
    /// An attempt failed.
    Failed {
        /// The new place.
        next: Next,
        /// Reason; may be empty.
        reason: String,
    },
    /// The lease ran out.
    LeaseEnded(Next),
    /// Cancelled while leased: no further attempt.
    CancelRequested,
    /// Became a dead letter.
    Buried {
        /// Reason.
        reason: String,
    },
    /// The dead letter was replayed.
    Replayed(Next),
    /// A repair restored the right place.
    Repaired,
    /// Delivered.
    Delivered,
    /// Cancelled.
    Cancelled,
    /// Expired.
    Expired,
    /// Deleted by an operator.
    Purged,
    /// An event unknown to this version, as stored.
    Other(String),
}

/// The next place of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Due time.
    pub due: UnixMillis,
    /// True if due at once.
    pub ready: bool,
}

/// A page of a message's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPage {
    /// Approximate number of events that the topic keeps in this shard; 0: none.
    pub kept: u32,
    /// How long events are kept.
    pub kept_for: Duration,
    /// The events of the message, the oldest first; an empty page need not be the last.
    pub events: Vec<HistoryEvent>,
    /// The start of the next page; `None` after the last.
    pub next: Option<String>,
}

// === impl Happening ===

impl Happening {
    /// The word in JSON and in the scripts.
    pub fn word(&self) -> &str {
        match self {
            Self::Put(_) => "put",
            Self::Replaced => "replaced",
            Self::Rescheduled { .. } => "rescheduled",
            Self::Ready => "ready",
            Self::Leased { .. } => "leased",
            Self::Released { .. } => "released",
            Self::Failed { .. } => "failed",
            Self::LeaseEnded(_) => "lease_ended",
            Self::CancelRequested => "cancel_requested",
            Self::Buried { .. } => "buried",
            Self::Replayed(_) => "replayed",
            Self::Repaired => "repaired",
            Self::Delivered => "delivered",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Purged => "purged",
            Self::Other(what) => what,
        }
    }

    fn read(text: &str) -> Self {
        Self::known(text).unwrap_or_else(|| Self::Other(text.to_owned()))
    }

    fn known(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "put" => Self::Put(Next::read(rest)?.0),
            "replaced" => Self::Replaced,
            "rescheduled" => {
                let (from, rest) = rest.split_once(' ')?;
                Self::Rescheduled { from: time(from)?, next: Next::read(rest)?.0 }
            }
            "ready" => Self::Ready,
            "leased" => {
                let mut parts = rest.splitn(3, ' ');
                let (attempt, until) = (parts.next()?.parse().ok()?, time(parts.next()?)?);
                let by = parts.next().filter(|by| !by.is_empty()).map(str::to_owned);
                Self::Leased { attempt, until, by }
            }
            "released" => {
                let (next, reason) = Next::read(rest)?;
                Self::Released { next, reason }
            }
            "failed" => {
                let (next, reason) = Next::read(rest)?;
                Self::Failed { next, reason }
            }
            "lease_ended" => Self::LeaseEnded(Next::read(rest)?.0),
            "cancel_requested" => Self::CancelRequested,
            "buried" => Self::Buried { reason: rest.to_owned() },
            "replayed" => Self::Replayed(Next::read(rest)?.0),
            "repaired" => Self::Repaired,
            "delivered" => Self::Delivered,
            "cancelled" => Self::Cancelled,
            "expired" => Self::Expired,
            "purged" => Self::Purged,
            _ => return None,
        })
    }
}

// === impl Next ===

impl Next {
    /// Due time and place, and the rest of the text.
    fn read(text: &str) -> Option<(Self, String)> {
        let (due, rest) = text.split_once(' ')?;
        let (place, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        Some((Self { due: time(due)?, ready: place == "ready" }, rest.to_owned()))
    }
}

fn time(text: &str) -> Option<UnixMillis> {
    text.parse().ok().map(UnixMillis::new)
}

/// Asks for a page of a message's events; `from`: the end of the previous page.
pub fn request(shard: ShardId, topic: &Topic, target: &Target, from: Option<&str>) -> Call {
    Call::new(Verb::History, shard).arg(topic.as_bytes()).arg(target.stored()).arg(from.unwrap_or_default())
}

/// Reads the page.
pub fn read(reply: Value) -> Result<HistoryPage, ReplyError> {
    let mut reply = Reply::new(Verb::History, reply)?;
    reply.number()?;
    let next = Some(reply.text()?).filter(|next| !next.is_empty());
    let kept = reply.number()? as u32;
    let kept_for = Duration::from_millis(reply.number()?);
    let mut events = Vec::new();
    while !reply.is_empty() {
        let at = UnixMillis::new(reply.number()?);
        events.push(HistoryEvent { at, what: Happening::read(&String::from_utf8_lossy(&reply.bytes()?)) });
    }
    Ok(HistoryPage { kept, kept_for, events, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_read_and_what_is_unknown_stays_as_it_is() {
        let next = |due, ready| Next { due: UnixMillis::new(due), ready };
        assert_eq!(Happening::read("put 5 stored"), Happening::Put(next(5, false)));
        let moved = Happening::Rescheduled { from: UnixMillis::new(5), next: next(7, true) };
        assert_eq!(Happening::read("rescheduled 5 7 ready"), moved);
        let leased = |by: Option<&str>| Happening::Leased {
            attempt: 2,
            until: UnixMillis::new(9),
            by: by.map(str::to_owned),
        };
        assert_eq!(Happening::read("leased 2 9 a worker@host:1"), leased(Some("a worker@host:1")));
        assert_eq!(Happening::read("leased 2 9 "), leased(None));
        let failed = |reason: &str| Happening::Failed { next: next(8, false), reason: reason.to_owned() };
        assert_eq!(Happening::read("failed 8 delayed no answer"), failed("no answer"));
        assert_eq!(Happening::read("failed 8 delayed "), failed(""));
        for odd in ["", "put", "put x stored", "leased 1", "moved 1 2"] {
            assert_eq!(Happening::read(odd), Happening::Other(odd.to_owned()));
        }
    }
}
