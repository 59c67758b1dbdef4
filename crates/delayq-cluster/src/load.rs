//! How a shard's load is reported: in coarse classes that do not change with every breath, and not too often.

use delayq::ShardCount;
use delayq::protocol::ShardId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A shard's load, coarse: class n stands for 2^n times the load of an idle shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LoadClass(u8);

/// What a leader knows of all loads. A shard that moved is reported by nobody until its new owner has measured it: for that
/// long its load is remembered, or every heavy shard would look idle on arrival and set others moving.
#[derive(Clone, Debug)]
pub(crate) struct LoadMemory {
    remember: Duration,
    reported: BTreeMap<ShardId, (LoadClass, Instant)>,
}

/// Messages a second that weigh as much as being there at all.
const UNIT_PER_SECOND: u64 = 100;
/// The heaviest class: a shard that fills a Redis core by itself.
const HEAVIEST: u8 = 10;

// === impl LoadClass ===

impl LoadClass {
    /// The class of a shard that moves this many messages a second, given the class it was last reported as. A class is left
    /// only when its bounds are passed by a quarter, so that a load at a bound does not flap.
    pub fn of(per_second: u64, before: Self) -> Self {
        let exact = Self::exact(per_second);
        let widened_down = Self::exact(per_second + per_second / 4);
        let widened_up = Self::exact(per_second - per_second / 4);
        if exact > before && widened_up > before || exact < before && widened_down < before {
            exact
        } else {
            before
        }
    }

    /// The weight the planner counts with.
    pub const fn weight(self) -> u32 {
        1 << self.0
    }

    fn exact(per_second: u64) -> Self {
        let units = 1 + per_second / UNIT_PER_SECOND;
        Self(u8::try_from(units.ilog2()).unwrap_or(HEAVIEST).min(HEAVIEST))
    }

    /// A class as it stands in a document; beyond the heaviest counts as the heaviest.
    pub(crate) fn clamped(self) -> Self {
        Self(self.0.min(HEAVIEST))
    }
}

// === impl LoadMemory ===

impl LoadMemory {
    pub(crate) fn new(remember: Duration) -> Self {
        Self { remember, reported: BTreeMap::new() }
    }

    /// Receives what the members report now; where several report a shard, the heaviest counts.
    pub(crate) fn receive<'a>(
        &mut self,
        reports: impl IntoIterator<Item = (&'a ShardId, &'a LoadClass)>,
        now: Instant,
    ) {
        let mut now_reported: BTreeMap<ShardId, LoadClass> = BTreeMap::new();
        for (&shard, class) in reports {
            let heaviest = now_reported.entry(shard).or_default();
            *heaviest = class.clamped().max(*heaviest);
        }
        self.reported.retain(|_, (_, at)| now.duration_since(*at) < self.remember);
        self.reported.extend(now_reported.into_iter().map(|(shard, class)| (shard, (class, now))));
    }

    /// The weight of every shard, by number.
    pub(crate) fn weights(&self, shards: ShardCount) -> Vec<u32> {
        let class = |shard| self.reported.get(&shard).map_or_else(LoadClass::default, |(class, _)| *class);
        shards.shards().map(|shard| class(shard).weight()).collect()
    }
}

/// When the next report may go out: none if it would say nothing new.
pub(crate) fn report_at(
    changed: bool,
    last: Option<Instant>,
    every: Duration,
    now: Instant,
) -> Option<Instant> {
    changed.then(|| last.map_or(now, |last| now.max(last + every)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_double() {
        let idle = LoadClass::default();
        for (load, weight) in
            [(0, 1), (99, 1), (150, 2), (500, 4), (1_000, 8), (10_000, 64), (10_000_000, 1024)]
        {
            assert_eq!(LoadClass::of(load, idle).weight(), weight, "{load}/s");
        }
    }

    #[test]
    fn a_load_at_a_bound_does_not_flap() {
        let low = LoadClass::of(250, LoadClass::default());
        assert_eq!(LoadClass::of(310, low), low);
        let high = LoadClass::of(500, low);
        assert!(high > low);
        assert_eq!(LoadClass::of(290, high), high);
        assert_eq!(LoadClass::of(150, high), low);
    }

    #[tokio::test]
    async fn a_load_nobody_tells_of_is_remembered_for_a_while() {
        let (s, now) = (Duration::from_secs, Instant::now());
        let shards = ShardCount::new(3).unwrap();
        let mut memory = LoadMemory::new(s(60));
        let (one, two) = (ShardId::new(1), ShardId::new(2));
        memory.receive([(&one, &LoadClass(3)), (&two, &LoadClass(1)), (&one, &LoadClass(2))], now);
        assert_eq!(memory.weights(shards), [1, 8, 2]);
        memory.receive([(&two, &LoadClass(4))], now + s(59));
        assert_eq!(memory.weights(shards), [1, 8, 16]);
        memory.receive([(&two, &LoadClass(99))], now + s(61));
        assert_eq!(memory.weights(shards), [1, 1, 1024]);
    }

    #[tokio::test]
    async fn reports_keep_their_distance() {
        let now = Instant::now();
        let every = Duration::from_secs(30);
        let last = now.checked_sub(Duration::from_secs(10)).unwrap();
        assert_eq!(report_at(false, None, every, now), None);
        assert_eq!(report_at(true, None, every, now), Some(now));
        assert_eq!(report_at(true, Some(last), every, now), Some(last + every));
    }
}
