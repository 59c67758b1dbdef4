//! Knows which members reach which shards. Pure.

use delayq::ShardCount;
use delayq::protocol::ShardRanges;

/// The shards that each member reaches. A shard that no member reaches counts as reached by all: the cause lies outside
/// of the members, and moving such a shard helps no member.
pub(crate) struct Reach {
    /// For each member, the shards out of its reach, by number; empty for a member that reaches all.
    out: Vec<Vec<bool>>,
}

// === impl Reach ===

impl Reach {
    /// `hindered`: for each member, the shards that the member reports as out of its reach.
    pub(crate) fn new<'a>(shards: ShardCount, hindered: impl Iterator<Item = &'a ShardRanges>) -> Self {
        let shards = usize::from(shards.get());
        let mut out: Vec<Vec<bool>> = hindered.map(|hindered| flags(hindered, shards)).collect();
        if out.iter().all(|member| !member.is_empty()) {
            for shard in 0..shards {
                if out.iter().all(|member| member[shard]) {
                    out.iter_mut().for_each(|member| member[shard] = false);
                }
            }
            out.iter_mut().filter(|member| !member.contains(&true)).for_each(Vec::clear);
        }
        Self { out }
    }

    pub(crate) fn has(&self, member: usize, shard: u16) -> bool {
        !self.out[member].get(usize::from(shard)).is_some_and(|&out| out)
    }

    pub(crate) fn is_whole(&self, member: usize) -> bool {
        self.out[member].is_empty()
    }
}

/// A flag for each shard; empty if `hindered` names none of the shards.
fn flags(hindered: &ShardRanges, shards: usize) -> Vec<bool> {
    let mut flags = Vec::new();
    for shard in hindered.shards().map(|shard| usize::from(shard.get())).filter(|&shard| shard < shards) {
        flags.resize(shards, false);
        flags[shard] = true;
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each member, the reached shards among four, and true for a member that reaches all that any member reaches.
    fn reached(hindered: &[&str]) -> Vec<(Vec<u16>, bool)> {
        let parse =
            |text: &&str| if text.is_empty() { ShardRanges::default() } else { text.parse().unwrap() };
        let hindered: Vec<ShardRanges> = hindered.iter().map(parse).collect();
        let reach = Reach::new(ShardCount::new(4).unwrap(), hindered.iter());
        let of = |member| (0..4).filter(|&shard| reach.has(member, shard)).collect();
        (0..hindered.len()).map(|member| (of(member), reach.is_whole(member))).collect()
    }

    #[test]
    fn a_shard_that_no_member_reaches_hinders_none() {
        let all = (vec![0, 1, 2, 3], true);
        assert_eq!(reached(&["", "1,3"]), [all.clone(), (vec![0, 2], false)]);
        assert_eq!(reached(&["0-3", "0-3"]), [all.clone(), all.clone()]);
        assert_eq!(reached(&["0-1", "1-2"]), [(vec![1, 2, 3], false), (vec![0, 1, 3], false)]);
        assert_eq!(reached(&["0-1", "1"]), [(vec![1, 2, 3], false), all.clone()]);
        assert_eq!(reached(&["4-9"]), [all], "shards that the deployment lacks");
    }
}
