//! The calls that a random run makes to a shard, and their arguments.

mod item;

pub(crate) use item::{GiveBack, Item, hex};

use delayq::protocol::Verb;

pub(crate) type Mark = (u64, Vec<u8>);

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
        /// Empty for all topics.
        topic: String,
        behind: Mark,
        limit: u64,
    },
    /// Id, due, expected.
    Reschedule {
        topic: String,
        changes: Vec<(Vec<u8>, String, Option<u64>)>,
    },
    ShiftGroup {
        group: String,
        /// Empty for all topics.
        topic: String,
        token: String,
        by: i64,
        limit: u64,
    },
    Pump {
        epoch: Option<u64>,
        limit: u64,
    },
    Reserve(Reserve),
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
    Promote(Promote),
    Purge(Purge),
    Configure {
        topic: String,
        settings: Vec<(&'static str, Vec<u8>)>,
    },
    /// Pauses the groups, or resumes them.
    PauseGroup {
        topic: String,
        pauses: bool,
        groups: Vec<String>,
    },
    Claim {
        owner: String,
        lock: u64,
    },
    Hold {
        epoch: u64,
        on: bool,
    },
    Dictionary {
        number: u64,
        bytes: Vec<u8>,
    },
    Count {
        topic: String,
    },
    Peek {
        topic: String,
        ids: Vec<Vec<u8>>,
    },
    List(List),
    ListGroup {
        group: String,
        behind: Mark,
        limit: u64,
    },
    Histogram {
        topic: String,
        from: u64,
        to: u64,
        width: u64,
    },
    Audit {
        bodies: Vec<Vec<u8>>,
    },
    /// Indexes with all their entries.
    AuditIndex {
        indexes: Vec<Vec<u8>>,
    },
    /// Kind, index and name of sound entries.
    Repair {
        findings: Vec<[Vec<u8>; 3]>,
    },
    Recount {
        topic: String,
    },
    Overview,
    Survey {
        spans: Vec<u64>,
    },
    Forget {
        topic: String,
    },
    ForgetQuiet {
        quiet: u64,
    },
    Describe {
        topic: String,
    },
    /// The paused groups after one of them, or all.
    PausedGroups {
        topic: String,
        last: Option<Mark>,
        limit: u64,
    },
    History {
        topic: String,
        id: Vec<u8>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    pub(crate) topics: Vec<String>,
    pub(crate) most: u64,
    /// Payload bytes; 0: unlimited.
    pub(crate) max_bytes: u64,
    pub(crate) lease: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Promote {
    /// Empty for all topics.
    pub(crate) topic: String,
    /// Empty for messages of any group and of none.
    pub(crate) group: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Where the last step ended.
    pub(crate) last: Vec<u8>,
    pub(crate) limit: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Purge {
    pub(crate) topic: String,
    pub(crate) state: &'static str,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Where the last step ended.
    pub(crate) last: Vec<u8>,
    pub(crate) limit: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) topic: String,
    pub(crate) state: &'static str,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) newest_first: bool,
    /// The entry that was looked at last.
    pub(crate) last: Vec<u8>,
    pub(crate) limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Repeat {
    ChangesNothing,
    /// The repeat takes other messages, or makes the next step.
    GoesOn,
}

pub(crate) const REASON: &str = "it would not";

/// A generated id has 16 bytes, the first below a space.
pub(crate) fn is_generated(id: &[u8]) -> bool {
    id.len() == 16 && id[0] < 32
}

// === impl Reserve ===

impl Reserve {
    pub(crate) fn from(topic: &str, most: u64, lease: Option<u64>) -> Self {
        Self { topics: vec![topic.to_owned()], most, max_bytes: 0, lease }
    }
}

// === impl Action ===

impl Action {
    pub(crate) fn configure(topic: &str, field: &'static str, value: impl AsRef<[u8]>) -> Self {
        Self::Configure { topic: topic.to_owned(), settings: vec![(field, value.as_ref().to_vec())] }
    }

    pub(crate) fn verb(&self) -> Verb {
        match self {
            Self::Put { .. } => Verb::Put,
            Self::Cancel { .. } => Verb::Cancel,
            Self::CancelGroup { .. } => Verb::CancelGroup,
            Self::Reschedule { .. } => Verb::Reschedule,
            Self::ShiftGroup { .. } => Verb::ShiftGroup,
            Self::Pump { .. } => Verb::Pump,
            Self::Reserve(_) => Verb::Reserve,
            Self::Ack { .. } => Verb::Ack,
            Self::Extend { .. } => Verb::Extend,
            Self::Release { .. } => Verb::Release,
            Self::Bury { .. } => Verb::Bury,
            Self::Replay { .. } => Verb::Replay,
            Self::Promote(_) => Verb::Promote,
            Self::Purge(_) => Verb::Purge,
            Self::Configure { .. } => Verb::Configure,
            Self::PauseGroup { .. } => Verb::PauseGroup,
            Self::Claim { .. } => Verb::Claim,
            Self::Hold { .. } => Verb::Hold,
            Self::Dictionary { .. } => Verb::Dictionary,
            Self::Count { .. } => Verb::Count,
            Self::Peek { .. } => Verb::Peek,
            Self::List(_) => Verb::List,
            Self::ListGroup { .. } => Verb::ListGroup,
            Self::Histogram { .. } => Verb::Histogram,
            Self::Audit { .. } => Verb::Audit,
            Self::AuditIndex { .. } => Verb::AuditIndex,
            Self::Repair { .. } => Verb::Repair,
            Self::Recount { .. } => Verb::Recount,
            Self::Overview => Verb::Overview,
            Self::Survey { .. } => Verb::Survey,
            Self::Forget { .. } => Verb::Forget,
            Self::ForgetQuiet { .. } => Verb::ForgetQuiet,
            Self::Describe { .. } => Verb::Describe,
            Self::PausedGroups { .. } => Verb::PausedGroups,
            Self::History { .. } => Verb::History,
        }
    }

    pub(crate) fn args(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Put { topic, items } => with([text(topic)], items.iter().flat_map(Item::args)),
            Self::Cancel { topic, ids } | Self::Peek { topic, ids } => {
                with([text(topic)], ids.iter().cloned())
            }
            Self::CancelGroup { group, topic, behind: (at, name), limit } => {
                vec![text(group), text(topic), num(*at), name.clone(), num(*limit)]
            }
            Self::Reschedule { topic, changes } => with(
                [text(topic)],
                changes.iter().flat_map(|(id, due, expected)| [id.clone(), text(due), option(*expected)]),
            ),
            Self::ShiftGroup { group, topic, token, by, limit } => {
                vec![text(group), text(topic), text(token), by.to_string().into(), num(*limit)]
            }
            Self::Pump { epoch, limit } => vec![option(*epoch), num(*limit)],
            Self::Reserve(Reserve { topics, most, max_bytes, lease }) => {
                with([num(*most), num(*max_bytes), option(*lease)], topics.iter().map(|topic| text(topic)))
            }
            Self::Ack { receipts } => receipts.clone(),
            Self::Extend { receipts, lease } => {
                receipts.iter().flat_map(|receipt| [receipt.clone(), option(*lease)]).collect()
            }
            Self::Release { all } => {
                let keep = |one: &GiveBack| if one.keep { b"keep".to_vec() } else { Vec::new() };
                all.iter()
                    .flat_map(|one| [one.receipt.clone(), option(one.delay), keep(one), text(REASON)])
                    .collect()
            }
            Self::Bury { receipts } => {
                receipts.iter().flat_map(|receipt| [receipt.clone(), text(REASON)]).collect()
            }
            Self::Replay { topic, delay, ids } => with([text(topic), num(*delay)], ids.iter().cloned()),
            Self::Promote(Promote { topic, group, from, to, last, limit }) => {
                vec![text(topic), text(group), num(*from), num(*to), last.clone(), num(*limit)]
            }
            Self::Purge(Purge { topic, state, from, to, last, limit }) => {
                vec![text(topic), text(state), num(*from), num(*to), last.clone(), num(*limit)]
            }
            Self::Configure { topic, settings } => {
                with([text(topic)], settings.iter().flat_map(|(field, value)| [text(field), value.clone()]))
            }
            Self::PauseGroup { topic, pauses, groups } => {
                let word = if *pauses { "pause" } else { "resume" };
                with([text(topic), text(word)], groups.iter().map(|group| text(group)))
            }
            Self::Claim { owner, lock } => vec![text(owner), num(*lock), text("")],
            Self::Hold { epoch, on } => vec![num(*epoch), text(if *on { "on" } else { "off" })],
            Self::Dictionary { number, bytes } => vec![num(*number), bytes.clone()],
            _ => self.args_of_a_look(),
        }
    }

    fn args_of_a_look(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Count { topic } => vec![text(topic), num(0)],
            Self::List(list) => {
                let order = if list.newest_first { "desc" } else { "asc" };
                let head = [text(&list.topic), text(list.state), num(list.from), num(list.to), text(order)];
                with(head, [list.last.clone(), num(list.limit)].into_iter())
            }
            Self::ListGroup { group, behind: (at, name), limit } => {
                vec![text(group), num(*at), name.clone(), num(*limit)]
            }
            Self::Histogram { topic, from, to, width } => {
                vec![text(topic), num(*from), num(*to), num(*width)]
            }
            Self::Audit { bodies } => bodies.clone(),
            Self::AuditIndex { indexes } => with(
                [num(500)],
                indexes.iter().flat_map(|index| [index.clone(), Vec::new(), Vec::new(), text("all")]),
            ),
            Self::Repair { findings } => findings.iter().flatten().cloned().collect(),
            Self::Recount { topic } => vec![text(topic), text("look"), text(""), num(0), num(0)],
            Self::Overview => vec![text("first")],
            Self::Survey { spans } => with([num(0)], spans.iter().map(|span| num(*span))),
            Self::Forget { topic } => vec![text(topic), text("forget")],
            Self::ForgetQuiet { quiet } => vec![num(0), num(*quiet)],
            Self::Describe { topic } => vec![text(topic)],
            Self::PausedGroups { topic, last, limit } => {
                let last =
                    last.as_ref().map_or([Vec::new(), Vec::new()], |(at, group)| [num(*at), group.clone()]);
                with([text(topic)], last.into_iter().chain([num(*limit)]))
            }
            Self::History { topic, id } => vec![text(topic), id.clone(), Vec::new()],
            other => unreachable!("{other:?} moves something"),
        }
    }

    /// A repair counts as reading: the entries that this run names are sound.
    pub(crate) fn is_look(&self) -> bool {
        matches!(
            self,
            Self::Count { .. }
                | Self::Peek { .. }
                | Self::List(_)
                | Self::ListGroup { .. }
                | Self::Histogram { .. }
                | Self::Audit { .. }
                | Self::AuditIndex { .. }
                | Self::Repair { .. }
                | Self::Recount { .. }
                | Self::Overview
                | Self::Survey { .. }
                | Self::Describe { .. }
                | Self::PausedGroups { .. }
                | Self::History { .. }
        )
    }

    pub(crate) fn repeat(&self) -> Repeat {
        let goes_on = match self {
            Self::Put { items, .. } => items.iter().any(|item| item.replace),
            Self::CancelGroup { behind, limit, .. } => behind.0 > 0 || *limit < 100,
            Self::ShiftGroup { .. }
            | Self::Pump { .. }
            | Self::Reserve(_)
            | Self::Promote(_)
            | Self::Purge(_)
            | Self::Claim { .. } => true,
            _ => false,
        };
        if goes_on { Repeat::GoesOn } else { Repeat::ChangesNothing }
    }
}

fn text(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn num(n: u64) -> Vec<u8> {
    n.to_string().into_bytes()
}

fn option(n: Option<u64>) -> Vec<u8> {
    n.map_or_else(Vec::new, num)
}

fn with<const N: usize>(head: [Vec<u8>; N], tail: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    head.into_iter().chain(tail).collect()
}
