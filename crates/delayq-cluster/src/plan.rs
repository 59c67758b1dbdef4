//! The plan: one versioned document that assigns each shard to a member. The plan is the only claim that etcd holds:
//! the named member takes the shard's epoch from Redis.

use crate::keys::MemberId;
use delayq::protocol::ShardId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The document's format. A reader refuses a newer format by name and keeps its shards.
const FORMAT: u16 = 1;

/// The planned owner of each shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    format: u16,
    /// Rises by one with every change; starts from scratch when etcd does.
    pub version: u64,
    /// The leader that wrote the plan.
    pub by: MemberId,
    members: Vec<PlannedMember>,
    /// For each shard, in order, its member's place in `members`; null while no member can take it.
    owners: Vec<Option<u16>>,
}

/// A member as the plan names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedMember {
    /// This life of the member.
    pub id: MemberId,
    /// The member's name, which identifies a member that comes back.
    pub name: String,
}

/// The reason why a plan cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A newer program wrote the plan.
    #[error("the plan has format {0}, newer than this program can read ({FORMAT})")]
    Newer(u16),
    /// The document is not a plan.
    #[error("the plan is damaged: {0}")]
    Damaged(String),
}

#[derive(Deserialize)]
struct FormatOnly {
    format: u16,
}

// === impl Plan ===

impl Plan {
    pub(crate) fn new(
        version: u64,
        by: MemberId,
        members: Vec<PlannedMember>,
        owners: Vec<Option<u16>>,
    ) -> Self {
        Self { format: FORMAT, version, by, members, owners }
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// A newer format, or a damaged or incomplete plan.
    pub fn from_json(json: &[u8]) -> Result<Self, PlanError> {
        let damaged = |e: serde_json::Error| PlanError::Damaged(e.to_string());
        let FormatOnly { format } = serde_json::from_slice(json).map_err(damaged)?;
        if format > FORMAT {
            return Err(PlanError::Newer(format));
        }
        let plan: Self = serde_json::from_slice(json).map_err(damaged)?;
        let known = plan.members.len();
        match plan.owners.iter().flatten().find(|&&place| usize::from(place) >= known) {
            Some(place) => Err(PlanError::Damaged(format!("member {place} of {known}"))),
            None => Ok(plan),
        }
    }

    /// Serialises the plan.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a plan has only numbers and texts, which always serialise")
    }

    /// The number of planned shards.
    pub fn shard_count(&self) -> usize {
        self.owners.len()
    }

    /// The planned member of a shard; `None` if no member can take the shard, or if the plan does not cover the shard.
    pub fn owner_of(&self, shard: ShardId) -> Option<&PlannedMember> {
        let place = (*self.owners.get(usize::from(shard.get()))?)?;
        self.members.get(usize::from(place))
    }

    /// The shards planned for a member.
    pub fn shards_of(&self, member: &MemberId) -> BTreeSet<ShardId> {
        let Some(mine) = self.members.iter().position(|m| m.id == *member) else { return BTreeSet::new() };
        self.shards_where(|place| place.is_some_and(|place| usize::from(place) == mine))
    }

    /// The shards that no member can take.
    pub fn shards_of_nobody(&self) -> BTreeSet<ShardId> {
        self.shards_where(|place| place.is_none())
    }

    fn shards_where(&self, so: impl Fn(Option<u16>) -> bool) -> BTreeSet<ShardId> {
        let all = (0..).map(ShardId::new).zip(&self.owners);
        all.filter(|(_, place)| so(**place)).map(|(shard, _)| shard).collect()
    }

    /// The members that have a shard.
    pub fn members(&self) -> &[PlannedMember] {
        &self.members
    }

    /// In the order of the shards; each is a place in [`Plan::members`].
    pub(crate) fn places(&self) -> &[Option<u16>] {
        &self.owners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let id = MemberId::new("a", 1);
        let members = vec![PlannedMember { id: id.clone(), name: "a".into() }];
        Plan::new(3, id, members, vec![Some(0), None, Some(0)])
    }

    #[test]
    fn a_plan_reads_back_as_it_was_written() {
        assert_eq!(Plan::from_json(&plan().to_json()), Ok(plan()));
    }

    #[test]
    fn a_newer_or_damaged_plan_is_refused_by_name() {
        assert_eq!(Plan::from_json(br#"{"format":2,"zones":[]}"#), Err(PlanError::Newer(2)));
        let foreign_place = br#"{"format":1,"version":1,"by":"a","members":[],"owners":[0]}"#;
        for damaged in [&b"{}"[..], b"", b"{\"format\":1}", foreign_place] {
            assert!(matches!(Plan::from_json(damaged), Err(PlanError::Damaged(_))), "{damaged:?}");
        }
    }

    #[test]
    fn a_member_finds_its_shards() {
        let mine: Vec<u16> = plan().shards_of(&MemberId::new("a", 1)).into_iter().map(ShardId::get).collect();
        assert_eq!(mine, [0, 2]);
        assert!(plan().shards_of(&MemberId::new("a", 2)).is_empty());
        assert_eq!(plan().shards_of_nobody(), [ShardId::new(1)].into());
        assert!(plan().owner_of(ShardId::new(1)).is_none());
        assert!(plan().owner_of(ShardId::new(99)).is_none());
    }
}
