//! The layout of a deployment: its number of shards, and the number before each growth.
//!
//! A deployment begins with layout 1, and each growth adds one. Every call carries the layout known to its caller, and
//! a shard refuses any other layout, naming its own: so an old layout ends once a shard has left it. A client that does
//! not know the layout yet sends [`NOT_ASKED`], which every shard refuses.

use crate::id::{Group, MessageId, NodeName};
use crate::shard::{ShardCount, ShardId};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A layout that no shard has, sent by a client that only knows its configuration.
pub const NOT_ASKED: u32 = 0;

/// The shard counts of a deployment since its creation, the newest last. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(Arc<[ShardCount]>);

/// The layout word in a shard's record and in a call: the number, and the node if several Redises share the deployment.
/// So a call that reaches another node than the recorded one is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutWord {
    /// The layout.
    pub number: u32,
    /// The node.
    pub place: RecordedPlace,
}

/// The node in a shard's record, after the number of the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedPlace {
    /// Empty: the deployment is on one Redis or a Redis Cluster.
    Unnamed,
    /// `@a`: on this node.
    Here(NodeName),
    /// `>b:7`: moved to this node; the local data was left behind. The number identifies the move; `None`: the record
    /// was copied together with other shards that moved.
    Moved(NodeName, Option<u64>),
}

/// A text that is not a list of rising shard counts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a comma-separated list of rising shard counts")]
pub struct LayoutError(String);

/// The layout known to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerLayout {
    /// The layout.
    pub layout: Layout,
    /// True if read from Redis, false if from the configuration.
    pub asked: bool,
}

/// A comparison of a shard's counts with the known counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutRelation {
    /// Equal.
    Same,
    /// The shard's counts continue the known counts, and were adopted.
    Newer,
    /// The shard's counts are a prefix of the known counts: the shard has not followed the growth yet.
    Older,
    /// The deployment never had the configured number of shards.
    NeverSo,
    /// The shard belongs to another deployment.
    Other,
}

/// The possible places of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The current place.
    pub home: ShardId,
    /// The places before each growth, the oldest first, without repetition.
    pub earlier: Vec<ShardId>,
}

// === impl Layout ===

impl Layout {
    /// The layout of a deployment that never grew.
    pub fn new(shards: ShardCount) -> Self {
        Self(Arc::new([shards]))
    }

    /// The number: 1 plus the number of growths.
    pub fn number(&self) -> u32 {
        u32::try_from(self.0.len()).expect("rising counts up to 4096 are no more than that")
    }

    /// Number of shards.
    pub fn shards(&self) -> ShardCount {
        *self.0.last().expect("a layout has at least one count")
    }

    /// Number of shards under each layout, the newest last.
    pub fn counts(&self) -> &[ShardCount] {
        &self.0
    }

    /// The layout after a growth to this count; `None` unless a growth.
    pub fn grown_to(&self, shards: ShardCount) -> Option<Self> {
        (shards > self.shards()).then(|| Self(self.0.iter().copied().chain([shards]).collect()))
    }

    /// True if `other` is this layout before one or more growths.
    pub fn continues(&self, other: &Self) -> bool {
        self.0.len() > other.0.len() && self.0.starts_with(&other.0)
    }

    /// The current and former places of a name.
    pub fn placement(&self, name: impl AsRef<[u8]>) -> Placement {
        let name = name.as_ref();
        let home = self.shards().shard_of_name(name);
        let mut earlier = Vec::new();
        for count in &self.0[..self.0.len() - 1] {
            let place = count.shard_of_name(name);
            if place != home && !earlier.contains(&place) {
                earlier.push(place);
            }
        }
        Placement { home, earlier }
    }

    /// The current and former places of a message: by group if it has a group and an own id.
    pub fn placement_of(&self, id: &MessageId, group: Option<&Group>) -> Placement {
        match (id, group) {
            (MessageId::Generated(_), _) => {
                let home = id.shard().expect("a generated id carries its shard");
                Placement { home, earlier: Vec::new() }
            }
            (_, Some(group)) => self.placement(group.as_str()),
            (id, None) => self.placement(id.as_bytes()),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, count) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            count.fmt(f)?;
        }
        Ok(())
    }
}

impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let count = |word: &str| word.parse().ok().and_then(|count| ShardCount::new(count).ok());
        let counts: Option<Vec<ShardCount>> = text.split(',').map(count).collect();
        let counts = counts.filter(|counts| counts.is_sorted_by(|one, next| one < next));
        counts.map(|counts| Self(counts.into())).ok_or_else(|| LayoutError(text.chars().take(80).collect()))
    }
}

// === impl LayoutWord ===

impl LayoutWord {
    /// The layout word of a call to this node, if there are several.
    pub fn meant_for(number: u32, node: Option<&NodeName>) -> Self {
        Self { number, place: node.map_or(RecordedPlace::Unnamed, |node| RecordedPlace::Here(node.clone())) }
    }
}

impl fmt::Display for LayoutWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.place)
    }
}

impl FromStr for LayoutWord {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let odd = || LayoutError(text.chars().take(80).collect());
        let (number, place) = text.split_at(text.find(['@', '>']).unwrap_or(text.len()));
        let place = RecordedPlace::parse(place).ok_or_else(odd)?;
        Ok(Self { number: number.parse().map_err(|_| odd())?, place })
    }
}

// === impl RecordedPlace ===

impl RecordedPlace {
    /// The shard's node by this record; `None` if unnamed.
    pub const fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Unnamed => None,
            Self::Here(node) | Self::Moved(node, _) => Some(node),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Unnamed);
        }
        if let Some(node) = text.strip_prefix('@') {
            return NodeName::new(node).ok().map(Self::Here);
        }
        let (node, number) = match text.strip_prefix('>')?.split_once(':') {
            None => (&text[1..], None),
            Some((node, number)) => (node, Some(number.parse().ok()?)),
        };
        Some(Self::Moved(NodeName::new(node).ok()?, number))
    }
}

impl fmt::Display for RecordedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unnamed => Ok(()),
            Self::Here(node) => write!(f, "@{node}"),
            Self::Moved(node, None) => write!(f, ">{node}"),
            Self::Moved(node, Some(number)) => write!(f, ">{node}:{number}"),
        }
    }
}

/// Formats a layout as the list of its counts.
pub fn serialize<S: serde::Serializer>(layout: &Layout, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(layout.counts())
}

// === impl CallerLayout ===

impl CallerLayout {
    /// The layout in a call: the known layout, or [`NOT_ASKED`].
    pub fn word(&self) -> u32 {
        if self.asked { self.layout.number() } else { NOT_ASKED }
    }

    /// Compares the layout of a shard with this one.
    pub fn relation(&self, found: &Layout) -> LayoutRelation {
        match self.asked {
            false if found.counts().contains(&self.layout.shards()) => LayoutRelation::Newer,
            false => LayoutRelation::NeverSo,
            true if *found == self.layout => LayoutRelation::Same,
            true if found.continues(&self.layout) => LayoutRelation::Newer,
            true if self.layout.continues(found) => LayoutRelation::Older,
            true => LayoutRelation::Other,
        }
    }
}

// === impl Placement ===

impl Placement {
    /// Every place, the home first, then the earlier places from the latest to the oldest.
    pub fn newest_first(&self) -> impl Iterator<Item = ShardId> {
        std::iter::once(self.home).chain(self.earlier.iter().rev().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Layout {
        text.parse().unwrap()
    }

    #[test]
    fn a_layout_is_read_back_and_anything_else_is_refused() {
        for text in ["64", "64,128", "1,2,3,4096"] {
            assert_eq!(layout(text).to_string(), text);
        }
        for text in ["", "0", "4097", "64,64", "128,64", "64,", ",64", "64 128", "x"] {
            assert!(text.parse::<Layout>().is_err(), "{text}");
        }
        assert_eq!((layout("64").number(), layout("64,128").number()), (1, 2));
        assert_eq!(layout("64").grown_to(ShardCount::new(96).unwrap()), Some(layout("64,96")));
        assert_eq!(layout("64").grown_to(ShardCount::new(64).unwrap()), None);
    }

    #[test]
    fn a_word_names_the_node_behind_the_layout() {
        for text in ["0", "1", "2@a", "12@redis-2", "2>b", "2>b:17"] {
            assert_eq!(text.parse::<LayoutWord>().unwrap().to_string(), text);
        }
        for text in ["", "@a", "1@", "x", "1@a@b", "1 a", "1>", "1>b:", "1>b:x", "1@a:7", "1@a>b"] {
            assert!(text.parse::<LayoutWord>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_has_a_place_for_each_count_that_puts_it_elsewhere() {
        let shard = |counts: &str, name: &str| layout(counts).shards().shard_of_name(name);
        let grown = layout("4,8,12");
        for n in 0..200 {
            let name = format!("order-{n}");
            let name = name.as_str();
            let places = grown.placement(name);
            assert_eq!(places.home, shard("12", name));
            let all: Vec<ShardId> = places.newest_first().collect();
            for (i, place) in all.iter().enumerate() {
                assert!(!all[..i].contains(place), "{name}: {all:?}");
            }
            for count in ["4", "8", "12"] {
                assert!(all.contains(&shard(count, name)), "{name}: {all:?} without that of {count}");
            }
            let never_grown = layout("12").placement(name);
            assert_eq!(never_grown, Placement { home: places.home, earlier: Vec::new() });
        }
    }

    #[test]
    fn a_generated_id_has_one_place_whatever_the_layout() {
        let id = MessageId::generate(ShardId::new(3), 1);
        let places = layout("4,8").placement_of(&id, Some(&Group::new("user-5").unwrap()));
        assert_eq!(places, Placement { home: ShardId::new(3), earlier: Vec::new() });
    }

    #[test]
    fn what_a_shard_says_is_followed_or_raised_or_refused() {
        use LayoutRelation::{NeverSo, Newer, Older, Other, Same};
        for (known, asked, found, learned) in [
            ("64", false, "64", Newer),
            ("64", false, "64,128", Newer),
            ("128", false, "64,128", Newer),
            ("128", false, "64", NeverSo),
            ("64", true, "64", Same),
            ("64", true, "64,128", Newer),
            ("64", true, "64,128,256", Newer),
            ("64,128", true, "64", Older),
            ("64,128", true, "64,96", Other),
            ("64", true, "128", Other),
        ] {
            let known = CallerLayout { layout: layout(known), asked };
            assert_eq!(known.relation(&layout(found)), learned, "{known:?} {found}");
        }
    }
}
