//! What a member believes of the others' claims without asking: pure.
//!
//! A shard that the plan gives us usually still stands claimed by the member before. Trying at once would cost a request
//! that is bound to be refused, just when the first shards are given back; so such a shard is awaited instead. A belief
//! may be wrong: a member that awaits a shard by belief alone asks after a while all the same.

use crate::keys::MemberId;
use crate::plan::Plan;
use delayq::protocol::ShardId;
use std::collections::{BTreeMap, BTreeSet};

/// The beliefs, by what was read, what was seen to go, and what the plan before said.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    read_at: i64,
    /// Claimed by others when read, and not seen to go since.
    others: BTreeSet<ShardId>,
    /// When each key was last seen to go.
    freed: BTreeMap<ShardId, i64>,
    plan: Option<Plan>,
    plan_revision: i64,
}

// === impl Holders ===

impl Holders {
    /// All claims were read at this revision; these are others'.
    pub(crate) fn read(&mut self, read_at: i64, others: BTreeSet<ShardId>) {
        self.read_at = read_at;
        self.others = others;
        self.freed.clear();
    }

    /// A claim's key went at this revision.
    pub(crate) fn went(&mut self, shard: ShardId, at: i64) {
        self.others.remove(&shard);
        self.freed.insert(shard, at);
    }

    /// This plan is followed from now on.
    pub(crate) fn follow(&mut self, plan: Plan, revision: i64) {
        self.plan = Some(plan);
        self.plan_revision = revision;
    }

    /// How many members own shards by the plan that is followed.
    pub(crate) fn members(&self) -> usize {
        self.plan.as_ref().map_or(0, |plan| plan.members().len())
    }

    /// Nothing is believed any more: another life of the member, or of etcd.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether another probably holds the shard: it did when read, or the plan followed so far means it for another, and
    /// its key was not seen to go since.
    pub(crate) fn probably_held(&self, shard: ShardId, me: &MemberId) -> bool {
        let freed = self.freed.get(&shard).copied().unwrap_or(self.read_at);
        let owner = self.plan.as_ref().and_then(|plan| plan.owner_of(shard));
        self.others.contains(&shard)
            || freed <= self.plan_revision && owner.is_some_and(|owner| owner.id != *me)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlannedMember;

    fn id(name: &str) -> MemberId {
        MemberId::from_text(name)
    }

    fn plan(owners: &[Option<u16>]) -> Plan {
        let member = |name: &str| PlannedMember { id: id(name), name: name.into() };
        Plan::new(1, id("a"), vec![member("a"), member("b")], owners.to_vec())
    }

    #[test]
    fn who_is_believed_to_hold_what() {
        let (shard, me) = (ShardId::new(0), id("b"));
        let mut holders = Holders::default();
        assert!(!holders.probably_held(shard, &me), "nothing is known");
        holders.read(10, BTreeSet::from([shard]));
        assert!(holders.probably_held(shard, &me), "it was read so");
        holders.went(shard, 11);
        assert!(!holders.probably_held(shard, &me), "its key went");
        holders.follow(plan(&[Some(0)]), 12);
        assert!(holders.probably_held(shard, &me), "a plan since means it for another");
        assert!(!holders.probably_held(shard, &id("a")), "who is that other");
        holders.went(shard, 13);
        assert!(!holders.probably_held(shard, &me), "the other's key went too");
        holders.read(20, BTreeSet::new());
        assert!(!holders.probably_held(shard, &me), "nobody had it when read, after the plan");
        holders.follow(plan(&[None]), 21);
        assert!(!holders.probably_held(shard, &me), "it is meant for nobody");
    }
}
