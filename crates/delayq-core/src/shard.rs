//! Shards: slices of the key space, and the mapping of names to shards.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A slice of the key space: a hash tag in Redis and the unit of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShardId(u16);

/// The number of shards of a deployment: 1 to [`ShardCount::MAX`], default [`ShardCount::DEFAULT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct ShardCount(u16);

/// A shard count outside 1..=4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a deployment has 1 to {max} shards, not {0}", max = ShardCount::MAX)]
pub struct ShardCountError(pub u16);

// === impl ShardId ===

impl ShardId {
    /// The shard with this number. [`ShardCount`] checks that the deployment has it.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The shard's number, from 0.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl ShardCount ===

impl ShardCount {
    /// Maximum shards of a deployment: a generated id carries its shard in 12 bits.
    pub const MAX: u16 = 4096;

    /// The default number of shards: own ids scatter over all shards, and with fewer shards more messages share a call.
    /// A single Redis needs no more than one shard; a deployment grows online.
    pub const DEFAULT: Self = Self(1);

    /// Creates a count of shards.
    ///
    /// # Errors
    /// The count is zero or exceeds [`ShardCount::MAX`].
    pub const fn new(count: u16) -> Result<Self, ShardCountError> {
        if count == 0 || count > Self::MAX { Err(ShardCountError(count)) } else { Ok(Self(count)) }
    }

    /// The number of shards.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// `1 shard`, `8 shards`.
    pub fn in_words(self) -> String {
        format!("{} shard{}", self.0, if self.0 == 1 { "" } else { "s" })
    }

    /// Every shard, in order.
    pub fn shards(self) -> impl ExactSizeIterator<Item = ShardId> {
        (0..self.0).map(ShardId)
    }

    /// True if the deployment has this shard.
    pub const fn contains(self, shard: ShardId) -> bool {
        shard.0 < self.0
    }

    /// The shard of a name (a group, or an own id): CRC-32 (IEEE) of its bytes modulo the count.
    pub fn shard_of_name(self, name: impl AsRef<[u8]>) -> ShardId {
        let hash = crc32fast::hash(name.as_ref());
        ShardId((hash % u32::from(self.0)) as u16)
    }
}

impl Default for ShardCount {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<u16> for ShardCount {
    type Error = ShardCountError;

    fn try_from(count: u16) -> Result<Self, ShardCountError> {
        Self::new(count)
    }
}

impl From<ShardCount> for u16 {
    fn from(count: ShardCount) -> u16 {
        count.0
    }
}

impl fmt::Display for ShardCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_one_to_4096() {
        assert_eq!(ShardCount::new(0), Err(ShardCountError(0)));
        assert_eq!(ShardCount::new(4097), Err(ShardCountError(4097)));
        assert_eq!(ShardCount::new(4096).unwrap().get(), 4096);
    }

    #[test]
    fn names_spread_over_all_shards() {
        let count = ShardCount::new(16).unwrap();
        let mut seen = [0_u32; 16];
        for n in 0..16_000 {
            seen[usize::from(count.shard_of_name(format!("order-{n}")).get())] += 1;
        }
        assert!(seen.iter().all(|&n| (700..1300).contains(&n)), "{seen:?}");
    }
}
