//! The layout of a deployment: how many shards it has, and how many it had before each growth.
//!
//! A deployment begins with layout 1 and rises by one with each growth. Every call says which layout its caller
//! knows, and a shard refuses another one, naming its own: so nobody works by an old layout once a shard has left
//! it. A client that was not told by Redis yet says [`NOT_ASKED`], which every shard refuses.

use crate::{Group, MessageId, ShardCount, ShardId};
use std::{fmt, str::FromStr, sync::Arc};
use tokio::sync::watch;

/// The layout that no shard has: of a client that only knows its configuration.
pub(crate) const NOT_ASKED: u32 = 0;

/// The shard counts of a deployment since it was created, the newest last. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(Arc<[ShardCount]>);

/// A text that is no list of rising shard counts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no list of rising shard counts, parted by commas")]
pub struct LayoutError(String);

/// What a client knows of its deployment's layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) layout: Layout,
    /// Whether Redis said so; otherwise only the configuration did.
    pub(crate) asked: bool,
}

/// What a client knows, shared by all its clones.
#[derive(Clone)]
pub(crate) struct Knowledge(watch::Sender<Known>);

/// How what a shard said goes together with what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// It is what is known now.
    Same,
    /// It goes on where that ended: known from now on.
    Newer,
    /// It ends before that does: the shard has not followed the growth yet.
    Older,
    /// The deployment never had the configured number of shards.
    NeverSo,
    /// The two do not belong to one deployment.
    Other,
}

/// Where a message may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Where it belongs.
    pub(crate) home: ShardId,
    /// Where it belonged before the deployment grew, the oldest first, each other place once.
    pub(crate) earlier: Vec<ShardId>,
}

/// Follows the number of shards. Made by [`Client::growth`](crate::Client::growth).
#[derive(Clone, Debug)]
pub struct Growth {
    shards: ShardCount,
    known: watch::Receiver<Known>,
}

// === impl Layout ===

impl Layout {
    /// The layout of a deployment that never grew.
    pub fn new(shards: ShardCount) -> Self {
        Self(Arc::new([shards]))
    }

    /// Its number: 1, and one more for each growth.
    pub fn number(&self) -> u32 {
        u32::try_from(self.0.len()).expect("rising counts up to 4096 are no more than that")
    }

    /// How many shards there are.
    pub fn shards(&self) -> ShardCount {
        *self.0.last().expect("a layout has at least one count")
    }

    /// How many shards there were, one count for each layout, the newest last.
    pub fn counts(&self) -> &[ShardCount] {
        &self.0
    }

    /// The layout after a growth to so many shards; `None` where that is no growth.
    pub fn grown_to(&self, shards: ShardCount) -> Option<Self> {
        (shards > self.shards()).then(|| Self(self.0.iter().copied().chain([shards]).collect()))
    }

    /// Whether `other` is this layout before one or more growths.
    pub fn continues(&self, other: &Self) -> bool {
        self.0.len() > other.0.len() && self.0.starts_with(&other.0)
    }

    /// Where a name belongs, and belonged.
    pub(crate) fn places(&self, name: &str) -> Places {
        let home = self.shards().shard_of_name(name);
        let mut earlier = Vec::new();
        for count in &self.0[..self.0.len() - 1] {
            let place = count.shard_of_name(name);
            if place != home && !earlier.contains(&place) {
                earlier.push(place);
            }
        }
        Places { home, earlier }
    }

    /// Where a message belongs, and belonged: by its group if it has one and its id is its producer's own.
    pub(crate) fn places_of(&self, id: &MessageId, group: Option<&Group>) -> Places {
        match (id, group) {
            (MessageId::Generated(_), _) => {
                let home = id.shard().expect("a generated id carries its shard");
                Places { home, earlier: Vec::new() }
            }
            (MessageId::Own(_), Some(group)) => self.places(group.as_str()),
            (MessageId::Own(id), None) => self.places(id.as_str()),
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

/// Shows a layout as a list of its counts.
pub(crate) fn serialize<S: serde::Serializer>(layout: &Layout, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(layout.counts())
}

// === impl Known ===

impl Known {
    /// What a call says: the layout that its caller knows.
    pub(crate) fn word(&self) -> u32 {
        if self.asked { self.layout.number() } else { NOT_ASKED }
    }

    fn learn(&self, found: &Layout) -> Learned {
        match self.asked {
            false if found.counts().contains(&self.layout.shards()) => Learned::Newer,
            false => Learned::NeverSo,
            true if *found == self.layout => Learned::Same,
            true if found.continues(&self.layout) => Learned::Newer,
            true if self.layout.continues(found) => Learned::Older,
            true => Learned::Other,
        }
    }
}

// === impl Knowledge ===

impl Knowledge {
    /// What the configuration says.
    pub(crate) fn configured(shards: ShardCount) -> Self {
        Self(watch::Sender::new(Known { layout: Layout::new(shards), asked: false }))
    }

    pub(crate) fn known(&self) -> Known {
        self.0.borrow().clone()
    }

    pub(crate) fn shards(&self) -> ShardCount {
        self.0.borrow().layout.shards()
    }

    pub(crate) fn growth(&self) -> Growth {
        let known = self.0.subscribe();
        let shards = known.borrow().layout.shards();
        Growth { shards, known }
    }

    /// Takes in what a shard said of the layout.
    pub(crate) fn learn(&self, found: &Layout) -> Learned {
        let mut learned = Learned::Same;
        self.0.send_if_modified(|known| {
            learned = known.learn(found);
            let newer = learned == Learned::Newer;
            if newer {
                let before = known.layout.shards();
                if before != found.shards() {
                    tracing::info!(shards = %found.shards(), %before, "the deployment has grown");
                }
                *known = Known { layout: found.clone(), asked: true };
            }
            newer
        });
        learned
    }
}

// === impl Places ===

impl Places {
    /// Every place, the home first, then the latest of the earlier ones.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = ShardId> {
        std::iter::once(self.home).chain(self.earlier.iter().rev().copied())
    }
}

// === impl Growth ===

impl Growth {
    /// The number of shards as it was told last.
    pub fn shards(&self) -> ShardCount {
        self.shards
    }

    /// The next number of shards; waits until there is another one. Safe to drop.
    pub async fn next(&mut self) -> ShardCount {
        loop {
            if let Some(shards) = self.try_next() {
                return shards;
            }
            if self.known.changed().await.is_err() {
                // The client is gone, and nobody can learn anything any more.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The next number of shards, without waiting; `None`: it is the same.
    pub fn try_next(&mut self) -> Option<ShardCount> {
        let now = self.known.borrow().layout.shards();
        (now != std::mem::replace(&mut self.shards, now)).then_some(now)
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
    fn a_name_has_a_place_for_each_count_that_puts_it_elsewhere() {
        let shard = |counts: &str, name: &str| layout(counts).shards().shard_of_name(name);
        let grown = layout("4,8,12");
        for n in 0..200 {
            let name = format!("order-{n}");
            let name = name.as_str();
            let places = grown.places(name);
            assert_eq!(places.home, shard("12", name));
            let all: Vec<ShardId> = places.newest_first().collect();
            for (i, place) in all.iter().enumerate() {
                assert!(!all[..i].contains(place), "{name}: {all:?}");
            }
            for count in ["4", "8", "12"] {
                assert!(all.contains(&shard(count, name)), "{name}: {all:?} without that of {count}");
            }
            let never_grown = layout("12").places(name);
            assert_eq!(never_grown, Places { home: places.home, earlier: Vec::new() });
        }
    }

    #[test]
    fn a_generated_id_has_one_place_whatever_the_layout() {
        let id = MessageId::generate(ShardId::new(3), 1);
        let places = layout("4,8").places_of(&id, Some(&Group::new("user-5").unwrap()));
        assert_eq!(places, Places { home: ShardId::new(3), earlier: Vec::new() });
    }

    #[test]
    fn what_a_shard_says_is_followed_or_raised_or_refused() {
        use Learned::{NeverSo, Newer, Older, Other, Same};
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
            let known = Known { layout: layout(known), asked };
            assert_eq!(known.learn(&layout(found)), learned, "{known:?} {found}");
        }
    }

    #[test]
    fn a_client_that_was_not_told_says_a_layout_that_no_shard_has() {
        let knowledge = Knowledge::configured(ShardCount::new(64).unwrap());
        let mut growth = knowledge.growth();
        assert_eq!(knowledge.known().word(), 0);
        knowledge.learn(&layout("64"));
        assert_eq!((knowledge.known().word(), growth.try_next()), (1, None));
        knowledge.learn(&layout("64,128"));
        assert_eq!(knowledge.known().word(), 2);
        assert_eq!(growth.try_next(), ShardCount::new(128).ok());
        assert_eq!(growth.try_next(), None);
    }
}
