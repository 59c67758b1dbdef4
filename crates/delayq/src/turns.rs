//! The turns of shards for messages with generated ids, by the number of messages in each shard. Pure.
//!
//! A shard's weight is the mean number of messages over the shard's own number, between a quarter and four times, in
//! quarters: a new shard fills up and a hot shard rests, while every shard still gets some messages. A difference of a
//! few hundred messages does not matter.

use delayq_core::shard::ShardId;

/// A number of messages that counts for nothing: added to the number in each shard.
const NOISE: f64 = 1000.0;
/// The weight of a shard with the mean number of messages, or with an unknown number; also the largest factor by which
/// another weight differs from this weight.
const MEAN_WEIGHT: f64 = 4.0;

/// As many turns as the weights need. A shard with `None` has an unknown number of messages.
pub(crate) fn turns(holds: &[Option<u64>]) -> Vec<ShardId> {
    let weights = weights(holds);
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    let mut order: Vec<(u32, u16)> = Vec::new();
    for (shard, weight) in weights.iter().map(|weight| weight / divisor).enumerate() {
        // A shard's turns are spread evenly over the whole round.
        let at = |turn: u32| (2 * turn + 1) * (1 << 16) / (2 * weight);
        order.extend((0..weight).map(|turn| (at(turn), u16::try_from(shard).expect("at most 4096 shards"))));
    }
    order.sort_unstable();
    order.into_iter().map(|(_, shard)| ShardId::new(shard)).collect()
}

/// 1 to 16.
fn weights(holds: &[Option<u64>]) -> Vec<u32> {
    let known: Vec<f64> = holds.iter().flatten().map(|&messages| messages as f64 + NOISE).collect();
    let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let weight = |messages: &Option<u64>| {
        let ratio = messages.map_or(1.0, |messages| mean / (messages as f64 + NOISE));
        (ratio * MEAN_WEIGHT).round().clamp(1.0, MEAN_WEIGHT * MEAN_WEIGHT) as u32
    };
    holds.iter().map(weight).collect()
}

fn gcd(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(holds: &[u64]) -> Vec<Option<u64>> {
        holds.iter().copied().map(Some).collect()
    }

    #[test]
    fn a_shard_weighs_what_the_others_hold_over_what_it_holds() {
        for (holds, weights_of) in [
            (vec![], vec![]),
            (of(&[0, 0, 0]), vec![4, 4, 4]),
            (of(&[50_000, 50_000]), vec![4, 4]),
            (of(&[0, 100, 200]), vec![4, 4, 4]),
            (of(&[1_000_000, 1_000_000, 0]), vec![3, 3, 16]),
            (of(&[1_000_000, 1_000_000, 1_000_000, 3_000_000]), vec![6, 6, 6, 2]),
            (of(&[0, 0, 0, 1_000_000_000]), vec![16, 16, 16, 1]),
            (vec![None, None], vec![4, 4]),
            (vec![Some(1_000_000), None, Some(1_000_000), Some(0)], vec![3, 4, 3, 16]),
            (of(&[u64::MAX, u64::MAX]), vec![4, 4]),
        ] {
            assert_eq!(weights(&holds), weights_of, "{holds:?}");
        }
    }

    #[test]
    fn equal_shards_take_turns_one_by_one() {
        let order: Vec<u16> = turns(&of(&[7, 7, 7])).iter().map(|shard| shard.get()).collect();
        assert_eq!(order, [0, 1, 2]);
        assert_eq!(turns(&[None; 4096]).len(), 4096);
    }

    #[test]
    fn every_shard_gets_its_turns_and_they_are_spread() {
        let order: Vec<u16> =
            turns(&of(&[1_000_000, 1_000_000, 0])).iter().map(|shard| shard.get()).collect();
        let count = |wanted| order.iter().filter(|&&shard| shard == wanted).count();
        assert_eq!((count(0), count(1), count(2)), (3, 3, 16));
        let gaps: Vec<usize> = order.split(|&shard| shard == 0).map(<[u16]>::len).collect();
        assert!(gaps.iter().all(|&gap| gap <= 9), "{order:?}");
    }
}
