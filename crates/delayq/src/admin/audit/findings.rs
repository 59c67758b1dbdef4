//! The findings of an audit.

use delayq_core::shard::ShardId;
use delayq_core::target::Target;
use serde::Serialize;
use std::fmt;

/// A kind of fault in a message, in an entry of an index, or in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// A pending message in neither its bucket nor its ready queue.
    NoPlace,
    /// A leased message without a lease: nobody can settle the message, and nothing returns the message.
    NoLease,
    /// A dead letter that is missing from the dead letters of the topic.
    NoDeadEntry,
    /// A marker that is never forgotten.
    NoMarkerEntry,
    /// A message that is missing from the group.
    NoGroupEntry,
    /// A message with an expiry that is never checked.
    NoExpiryEntry,
    /// A message that cannot be read.
    Malformed,
    /// An entry of an index for a message that is gone, or elsewhere.
    StaleEntry,
    /// A bucket or an index without an alarm.
    NoAlarm,
    /// A group's shift that never ends, so that no other shift can begin.
    NoShiftEnd,
    /// Parked messages of a group that no end of a lease would ever let go.
    NoTurn,
    /// A key of the wrong type. The key is not mended, because the former content is unknown and another client wrote
    /// the key.
    WrongType,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The kind of the fault.
    pub kind: FindingKind,
    /// The shard.
    pub shard: ShardId,
    /// The index without its base; `m` for a message.
    pub index: String,
    /// The name of the message's topic, or `#` and the number if the name is unknown; empty for an index.
    pub topic: String,
    /// The message's id; empty for an index.
    pub id: String,
    /// The message's group, if the group is part of the name; otherwise empty.
    pub group: String,
    /// The index in the form that `repair` takes.
    #[serde(skip)]
    pub(crate) raw_index: Vec<u8>,
    /// The name of the message or entry in the form that `repair` takes.
    #[serde(skip)]
    pub(crate) raw_name: Vec<u8>,
}

/// The names of a message as text: `#` and the topic's number, the id and the group, each empty if missing.
struct Named {
    topic: String,
    id: String,
    group: String,
}

/// A counter that differs from the actual number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Drift {
    /// The shard.
    pub shard: ShardId,
    /// The topic.
    pub topic: String,
    /// `ready`, `leased` or `accepted`.
    pub counter: &'static str,
    /// The value of the counter.
    pub says: i64,
    /// The actual number.
    pub is: i64,
}

/// A topic that could not be counted in a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Uncounted {
    /// The shard.
    pub shard: ShardId,
    /// The topic.
    pub topic: String,
    /// `crowded`: too many leases or buckets to count in one step; `busy`: more than 1,000 messages are ready, and the
    /// topic changed during the count; `wrong_type`: a key that the count needs is of the wrong type.
    pub why: &'static str,
}

// === impl FindingKind ===

impl FindingKind {
    pub(super) const ALL: [Self; 12] = [
        Self::NoPlace,
        Self::NoLease,
        Self::NoDeadEntry,
        Self::NoMarkerEntry,
        Self::NoGroupEntry,
        Self::NoExpiryEntry,
        Self::Malformed,
        Self::StaleEntry,
        Self::NoAlarm,
        Self::NoShiftEnd,
        Self::NoTurn,
        Self::WrongType,
    ];

    /// Returns the name, as in scripts and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoPlace => "no_place",
            Self::NoLease => "no_lease",
            Self::NoDeadEntry => "no_dead_entry",
            Self::NoMarkerEntry => "no_marker_entry",
            Self::NoGroupEntry => "no_group_entry",
            Self::NoExpiryEntry => "no_expiry_entry",
            Self::Malformed => "malformed",
            Self::StaleEntry => "stale_entry",
            Self::NoAlarm => "no_alarm",
            Self::NoShiftEnd => "no_shift_end",
            Self::NoTurn => "no_turn",
            Self::WrongType => "wrong_type",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns the remedy that `repair` applies.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NoPlace => "put it back under its due time",
            Self::NoLease => "give it a lease that expires",
            Self::NoDeadEntry => "list it as a dead letter",
            Self::NoMarkerEntry => "forget it when its time comes",
            Self::NoGroupEntry => "list it in its group",
            Self::NoExpiryEntry => "let it expire when its time comes",
            Self::Malformed => "move it to the dead letters",
            Self::StaleEntry => "remove the entry",
            Self::NoAlarm => "set the alarm",
            Self::NoShiftEnd => "forget the shift within an hour",
            Self::NoTurn => "let the group have its turn",
            Self::WrongType => "none: DEL or restore the key by hand",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

// === impl Finding ===

impl Finding {
    /// Creates the finding of a message: `name` is `<topic number>:<id>`.
    pub(crate) fn of_message(kind: FindingKind, shard: ShardId, name: Vec<u8>) -> Self {
        let Named { topic, id, group } = Named::of(&name);
        let (index, raw_index) = ("m".to_owned(), b"m".to_vec());
        Self { kind, shard, index, topic, id, group, raw_index, raw_name: name }
    }

    /// Creates the finding of a message without a place: `receipt` is `<topic number>:<id>` and the gen.
    pub(crate) fn of_lost(shard: ShardId, receipt: Vec<u8>) -> Self {
        let named = Self::of_message(FindingKind::NoPlace, shard, receipt[..receipt.len() - 4].to_vec());
        Self { raw_name: receipt, ..named }
    }

    /// Creates the finding of an index, or of an entry of an index.
    pub(crate) fn of_index(kind: FindingKind, shard: ShardId, index: Vec<u8>, entry: Vec<u8>) -> Self {
        let text = String::from_utf8_lossy(&index).into_owned();
        let Named { topic, id, group } = Named::of_entry(&text, &entry);
        Self { kind, shard, index: text, topic, id, group, raw_index: index, raw_name: entry }
    }

    /// Returns the number of the topic, if the finding has a topic.
    pub(super) fn number(&self) -> Option<String> {
        let named = match &self.raw_index[..] {
            b"m" => Named::of(&self.raw_name),
            _ => Named::of_entry(&self.index, &self.raw_name),
        };
        named.topic.strip_prefix('#').map(str::to_owned)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, shard, index, topic, id, group, .. } = self;
        write!(f, "{kind} {shard} {index} {topic} {id}")?;
        if group.is_empty() { Ok(()) } else { write!(f, " in group {group}") }
    }
}

impl Drift {
    /// Returns the excess of the counter over the actual number.
    pub(crate) const fn by(&self) -> i64 {
        self.says - self.is
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, topic, counter, says, is } = self;
        write!(f, "{counter} of {topic} in shard {shard} is {says}, but should be {is}")
    }
}

// === impl Named ===

impl Named {
    /// Splits `<topic number>:<stored id>` into names.
    fn of(name: &[u8]) -> Self {
        let colon = name.iter().position(|&byte| byte == b':');
        let (number, id) = colon.map_or((&b""[..], name), |at| (&name[..at], &name[at + 1..]));
        let number = String::from_utf8_lossy(number);
        Self::new(if number.is_empty() { String::new() } else { format!("#{number}") }, id)
    }

    /// Splits an entry of an index into names.
    fn of_entry(index: &str, entry: &[u8]) -> Self {
        let without_gen = &entry[..entry.len().saturating_sub(4)];
        match index.split(':').next().unwrap_or_default() {
            "b" | "d" => {
                let number = index.split(':').nth(1).unwrap_or_default();
                Self::new(format!("#{number}"), without_gen)
            }
            "x" => {
                let number = index.split(':').nth(1).unwrap_or_default();
                let id = entry.iter().position(|&byte| byte == 0x1F).map_or(entry, |at| &entry[at + 1..]);
                Self::new(format!("#{number}"), id)
            }
            "leases" | "f" => Self::of(without_gen),
            "ends" | "k" => Self::new(String::new(), entry),
            _ => Self::of(entry),
        }
    }

    fn new(topic: String, stored_id: &[u8]) -> Self {
        // A finding of an index has no id.
        if stored_id.is_empty() {
            return Self { topic, id: String::new(), group: String::new() };
        }
        let Target { id, group } = Target::from_stored(stored_id);
        let group = group.map(|group| group.to_string()).unwrap_or_default();
        Self { topic, id: id.to_string(), group }
    }
}
