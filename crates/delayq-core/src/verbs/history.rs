//! `history`: what happened to a message, if its topic keeps a history.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::Target;
use crate::time::UnixMillis;
use std::time::Duration;

/// Something that happened to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// When, on Redis's clock.
    pub at: UnixMillis,
    /// What.
    pub what: Happening,
}

/// What happened to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// It was put.
    Put(Next),
    /// Another put replaced it.
    Replaced,
    /// Its due time changed.
    Rescheduled {
        /// What it was before.
        from: UnixMillis,
        /// Where it went.
        next: Next,
    },
    /// It became ready.
    Ready,
    /// It was leased.
    Leased {
        /// The attempt, from 1.
        attempt: u32,
        /// When the lease ends unless it is extended.
        until: UnixMillis,
        /// What the holder calls itself; `None`: it did not say.
        by: Option<String>,
    },
    /// It was given back, and the attempt does not count.
    Released {
        /// Where it went.
        next: Next,
        /// Why; may be empty.
        reason: String,
    },
    /// An attempt failed.
    Failed {
        /// Where it went.
        next: Next,
        /// Why; may be empty.
        reason: String,
    },
    /// Its lease ran out.
    LeaseEnded(Next),
    /// It was to be cancelled while it was leased: it is not tried again.
    CancelRequested,
    /// It became a dead letter.
    Buried {
        /// Why.
        reason: String,
    },
    /// The dead letter got another life.
    Replayed(Next),
    /// A repair put it where it belongs.
    Repaired,
    /// It was delivered.
    Delivered,
    /// It was cancelled.
    Cancelled,
    /// It expired.
    Expired,
    /// An operator deleted it.
    Purged,
    /// Something that this version does not know, as it is stored.
    Other(String),
}

/// Where a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// When it is due.
    pub due: UnixMillis,
    /// Whether it was due at once.
    pub ready: bool,
}

/// A page of what happened to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPage {
    /// About how many events the topic keeps in this shard; 0: none.
    pub kept: u32,
    /// How long it keeps them.
    pub kept_for: Duration,
    /// The events of the message, the oldest first; an empty page need not be the last.
    pub events: Vec<HistoryEvent>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<String>,
}

// === impl Happening ===

impl Happening {
    /// Its word, as JSON and the scripts have it.
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
    /// Due time and place, and what follows them.
    fn read(text: &str) -> Option<(Self, String)> {
        let (due, rest) = text.split_once(' ')?;
        let (place, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        Some((Self { due: time(due)?, ready: place == "ready" }, rest.to_owned()))
    }
}

fn time(text: &str) -> Option<UnixMillis> {
    text.parse().ok().map(UnixMillis::new)
}

/// Asks for a page of what happened to a message; `from`: where the page before it ended.
pub fn request(shard: ShardId, topic: &Topic, target: &Target, from: Option<&str>) -> Call {
    Call::new(Verb::History, shard).arg(topic.as_bytes()).arg(target.stored()).arg(from.unwrap_or_default())
}

/// The page.
///
/// # Errors
/// The script does not give such an answer.
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
