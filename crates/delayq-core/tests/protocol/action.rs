//! What a random run may do to a shard, and the arguments that say it.

use delayq_core::{Backoff, Envelope, Group, State, UnixMillis, Verb};
use std::time::Duration;

/// A message of a put.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: Vec<u8>,
    /// As the script reads it: a time, or `+` and a delay.
    pub(crate) due: String,
    pub(crate) replace: bool,
    pub(crate) tried: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) group: Option<String>,
    pub(crate) fixed_backoff: Option<u64>,
    pub(crate) max: u16,
    /// Tells one content from another.
    pub(crate) content: u8,
}

/// A receipt with what goes with it.
#[derive(Clone, Debug)]
pub(crate) struct GiveBack {
    pub(crate) receipt: Vec<u8>,
    pub(crate) delay: Option<u64>,
    pub(crate) keep: bool,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Put {
        topic: String,
        items: Vec<Item>,
    },
    Cancel {
        topic: String,
        ids: Vec<Vec<u8>>,
    },
    CancelGroup {
        group: String,
        cursor: u64,
        limit: u64,
    },
    /// Id, due, expected.
    Reschedule {
        topic: String,
        changes: Vec<(Vec<u8>, String, Option<u64>)>,
    },
    ShiftGroup {
        group: String,
        token: String,
        by: i64,
        limit: u64,
    },
    Pump {
        epoch: Option<u64>,
        limit: u64,
    },
    Reserve {
        topics: Vec<String>,
        most: u64,
        lease: Option<u64>,
    },
    Ack {
        receipts: Vec<Vec<u8>>,
    },
    Extend {
        receipts: Vec<Vec<u8>>,
        lease: Option<u64>,
    },
    Release {
        all: Vec<GiveBack>,
    },
    Bury {
        receipts: Vec<Vec<u8>>,
    },
    Replay {
        topic: String,
        delay: u64,
        ids: Vec<Vec<u8>>,
    },
    Purge {
        topic: String,
        state: &'static str,
        from: u64,
        to: u64,
        limit: u64,
    },
    Configure {
        topic: String,
        field: &'static str,
        value: String,
    },
    Claim {
        owner: String,
        lock: u64,
    },
    Hold {
        epoch: u64,
        on: bool,
    },
    Count {
        topic: String,
    },
    Peek {
        topic: String,
        ids: Vec<Vec<u8>>,
    },
}

pub(crate) const REASON: &str = "it would not";

/// Whether an id is one that the client made: 16 bytes, the first below a space.
pub(crate) fn is_generated(id: &[u8]) -> bool {
    id.len() == 16 && id[0] < 32
}

// === impl Item ===

impl Item {
    /// A message of its content alone.
    pub(crate) fn new(id: &[u8], due: impl std::fmt::Display) -> Self {
        Self {
            id: id.to_vec(),
            due: due.to_string(),
            replace: false,
            tried: None,
            expires: None,
            group: None,
            fixed_backoff: None,
            max: 0,
            content: 0,
        }
    }

    /// The envelope as a client would send it.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope {
            state: State::Delayed,
            generation: 0,
            due: UnixMillis::new(0),
            at: UnixMillis::new(0),
            delivery: 0,
            attempt: 0,
            max_attempts: self.max,
            doomed: false,
            hash: (!is_generated(&self.id)).then_some([self.content; 8]),
            expires: self.expires.map(UnixMillis::new),
            backoff: self.fixed_backoff.map(|ms| Backoff::Fixed(Duration::from_millis(ms))),
            group: self.group.as_ref().map(|group| Group::new(group.clone()).unwrap()),
            headers: if self.content == 2 { vec![("a".into(), "b".into())] } else { Vec::new() },
            payload: vec![b'x'; usize::from(self.content)],
            zstd: false,
            reason: None,
        }
    }

    pub(crate) fn args(&self) -> [Vec<u8>; 4] {
        let tried = self.tried.map_or_else(String::new, |ms| format!(" tried={ms}"));
        let options = format!("{}{tried}", if self.replace { "replace" } else { "" });
        [self.id.clone(), self.due.clone().into(), options.into(), self.envelope().encode()]
    }
}

// === impl Action ===

impl Action {
    pub(crate) fn verb(&self) -> Verb {
        match self {
            Self::Put { .. } => Verb::Put,
            Self::Cancel { .. } => Verb::Cancel,
            Self::CancelGroup { .. } => Verb::CancelGroup,
            Self::Reschedule { .. } => Verb::Reschedule,
            Self::ShiftGroup { .. } => Verb::ShiftGroup,
            Self::Pump { .. } => Verb::Pump,
            Self::Reserve { .. } => Verb::Reserve,
            Self::Ack { .. } => Verb::Ack,
            Self::Extend { .. } => Verb::Extend,
            Self::Release { .. } => Verb::Release,
            Self::Bury { .. } => Verb::Bury,
            Self::Replay { .. } => Verb::Replay,
            Self::Purge { .. } => Verb::Purge,
            Self::Configure { .. } => Verb::Configure,
            Self::Claim { .. } => Verb::Claim,
            Self::Hold { .. } => Verb::Hold,
            Self::Count { .. } => Verb::Count,
            Self::Peek { .. } => Verb::Peek,
        }
    }

    /// All arguments behind the layout.
    pub(crate) fn args(&self) -> Vec<Vec<u8>> {
        let text = |n: Option<u64>| n.map_or_else(Vec::new, |n| n.to_string().into_bytes());
        let num = |n: u64| n.to_string().into_bytes();
        match self {
            Self::Put { topic, items } => with([topic.clone().into()], items.iter().flat_map(Item::args)),
            Self::Cancel { topic, ids } | Self::Peek { topic, ids } => {
                with([topic.clone().into()], ids.iter().cloned())
            }
            Self::CancelGroup { group, cursor, limit } => {
                vec![group.clone().into(), num(*cursor), num(*limit)]
            }
            Self::Reschedule { topic, changes } => with(
                [topic.clone().into()],
                changes
                    .iter()
                    .flat_map(|(id, due, expected)| [id.clone(), due.clone().into(), text(*expected)]),
            ),
            Self::ShiftGroup { group, token, by, limit } => {
                vec![group.clone().into(), token.clone().into(), by.to_string().into(), num(*limit)]
            }
            Self::Pump { epoch, limit } => vec![text(*epoch), num(*limit)],
            Self::Reserve { topics, most, lease } => with(
                [num(*most), b"0".to_vec(), text(*lease)],
                topics.iter().map(|topic| topic.clone().into_bytes()),
            ),
            Self::Ack { receipts } => receipts.clone(),
            Self::Extend { receipts, lease } => {
                receipts.iter().flat_map(|receipt| [receipt.clone(), text(*lease)]).collect()
            }
            Self::Release { all } => {
                let keep = |one: &GiveBack| if one.keep { b"keep".to_vec() } else { Vec::new() };
                all.iter()
                    .flat_map(|one| [one.receipt.clone(), text(one.delay), keep(one), REASON.into()])
                    .collect()
            }
            Self::Bury { receipts } => {
                receipts.iter().flat_map(|receipt| [receipt.clone(), REASON.into()]).collect()
            }
            Self::Replay { topic, delay, ids } => {
                with([topic.clone().into(), num(*delay)], ids.iter().cloned())
            }
            Self::Purge { topic, state, from, to, limit } => {
                vec![topic.clone().into(), (*state).into(), num(*from), num(*to), num(*limit)]
            }
            Self::Configure { topic, field, value } => {
                vec![topic.clone().into(), (*field).into(), value.clone().into()]
            }
            Self::Claim { owner, lock } => vec![owner.clone().into(), num(*lock)],
            Self::Hold { epoch, on } => vec![num(*epoch), if *on { "on".into() } else { "off".into() }],
            Self::Count { topic } => vec![topic.clone().into(), b"0".to_vec()],
        }
    }

    /// Whether a repeat of the very same call, its answer lost, changes nothing more.
    pub(crate) fn is_idempotent(&self) -> bool {
        match self {
            Self::Put { items, .. } => !items.iter().any(|item| item.replace),
            Self::Reschedule { .. }
            | Self::Cancel { .. }
            | Self::Ack { .. }
            | Self::Extend { .. }
            | Self::Release { .. }
            | Self::Bury { .. }
            | Self::Replay { .. }
            | Self::Configure { .. }
            | Self::Hold { .. } => true,
            Self::CancelGroup { cursor, limit, .. } => *cursor == 0 && *limit >= 100,
            _ => false,
        }
    }
}

fn with<const N: usize>(head: [Vec<u8>; N], tail: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    head.into_iter().chain(tail).collect()
}
