//! Some shards of a deployment, as ranges.

use crate::shard::{ShardCount, ShardId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Shards, written as inclusive ranges: `0-7,16-19`, or `3`. The default is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ShardRanges(Vec<(u16, u16)>);

/// A text that is not a list of shard ranges.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a list of shards from 0 to 4095: write ranges with both ends, such as \"0-7,16-19\"")]
pub struct ShardRangesError(String);

// === impl ShardRanges ===

impl ShardRanges {
    /// True without any shard.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every shard, in the order of the text.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.0.iter().flat_map(|&(first, last)| first..=last).map(ShardId::new)
    }
}

impl FromIterator<ShardId> for ShardRanges {
    /// Consecutive shards become one range.
    fn from_iter<I: IntoIterator<Item = ShardId>>(shards: I) -> Self {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for shard in shards.into_iter().map(ShardId::get) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == shard => *last = shard,
                _ => ranges.push((shard, shard)),
            }
        }
        Self(ranges)
    }
}

impl FromStr for ShardRanges {
    type Err = ShardRangesError;

    fn from_str(text: &str) -> Result<Self, ShardRangesError> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last < ShardCount::MAX).then_some((first, last))
        };
        let ranges: Option<Vec<(u16, u16)>> = text.split(',').map(range).collect();
        ranges.map(Self).ok_or_else(|| ShardRangesError(text.chars().take(80).collect()))
    }
}

impl fmt::Display for ShardRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &(first, last)) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for ShardRanges {
    type Error = ShardRangesError;

    fn try_from(text: String) -> Result<Self, ShardRangesError> {
        text.parse()
    }
}

impl From<ShardRanges> for String {
    fn from(ranges: ShardRanges) -> Self {
        ranges.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_back_with_both_ends() {
        for (text, shards) in [("0-2", vec![0, 1, 2]), ("5", vec![5]), ("0-1,8,4-5", vec![0, 1, 8, 4, 5])] {
            let ranges: ShardRanges = text.parse().unwrap();
            assert_eq!(ranges.shards().map(ShardId::get).collect::<Vec<_>>(), shards);
            assert_eq!(ranges.to_string(), text);
            assert_eq!(ranges.shards().collect::<ShardRanges>(), ranges);
        }
        assert_eq!("0 - 7, 9".parse::<ShardRanges>().unwrap().to_string(), "0-7,9");
        for text in ["", "7-0", "0-", "-3", "0-4096", "a", "0-7,", "0..7", "70000"] {
            assert!(text.parse::<ShardRanges>().is_err(), "{text}");
        }
    }
}
