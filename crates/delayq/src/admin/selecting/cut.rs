//! The time at which a selection was frozen, and its text form.

use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::list::Listed;
use std::fmt;
use std::str::FromStr;

/// A time, and the counter of gens in each shard of a selection then. The text form has no spaces.
///
/// ```text
/// 1800000000000:0=52,1=80
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The time on the clock of Redis.
    pub at: UnixMillis,
    pub(super) gens: Vec<(ShardId, u64)>,
}

// === impl Cut ===

impl Cut {
    /// The shards of the selection, in the order of the walk.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = ShardId> + '_ {
        self.gens.iter().map(|(shard, _)| *shard)
    }

    /// True if the message has not been put or moved since. A message that has not moved during two billion moves in its shard
    /// counts as moved.
    pub(super) fn is_before(&self, listed: &Listed) -> bool {
        let Ok(envelope) = &listed.envelope else { return false };
        let cut = self.gens.iter().find(|(shard, _)| *shard == listed.shard);
        cut.is_some_and(|(_, cut)| is_at_most(envelope.generation, *cut))
    }
}

/// Gens count modulo 2^32; the lowest bit is a mark.
const fn is_at_most(generation: u32, counter: u64) -> bool {
    (counter as u32).wrapping_sub(generation & !1) < 1 << 31
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.at)?;
        for (place, (shard, gens)) in self.gens.iter().enumerate() {
            write!(f, "{}{shard}={gens}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |text: &str| {
            let (shard, gens) = text.split_once('=')?;
            Some((ShardId::new(shard.parse().ok()?), gens.parse().ok()?))
        };
        let parse = || {
            let (at, gens) = text.split_once(':')?;
            let gens = gens.split(',').map(one).collect::<Option<Vec<_>>>()?;
            Some(Self { at: UnixMillis::new(at.parse().ok()?), gens })
        };
        parse().ok_or_else(|| format!("{text:?} is not a cut"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_read_back() {
        for text in ["1800000000000:0=52", "1:0=0,7=18446744073709551615"] {
            assert_eq!(text.parse::<Cut>().unwrap().to_string(), text);
        }
        for bad in ["", "1", "1:", "1:0", "1:0=x", "x:0=1", "1:0=1,"] {
            assert!(bad.parse::<Cut>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_gen_is_compared_across_the_end_of_its_numbers() {
        let wrapped = (1_u64 << 32) + 10;
        for (generation, counter, is_before) in [
            (10, 10, true),
            (11, 10, true),
            (12, 10, false),
            (u32::MAX, wrapped, true),
            (10, wrapped, true),
            (12, wrapped, false),
            (0, (1 << 32) - 2, false),
        ] {
            assert_eq!(is_at_most(generation, counter), is_before, "{generation} {counter}");
        }
    }
}
