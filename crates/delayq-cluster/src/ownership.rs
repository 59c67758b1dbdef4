//! A member's view of the plan for the consumer of its shards; each change replaces the whole view.

use crate::trust::Trust;
use delayq::protocol::ShardId;
use std::collections::BTreeSet;

/// A member's view of the plan at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnershipView {
    /// The shards that the plan gives to this life of the member; none while the member has no lease.
    pub planned: BTreeSet<ShardId>,
    /// The shards that the plan gives to nobody: no successor will fence their owner.
    pub nobodys: BTreeSet<ShardId>,
    /// Number of members that have shards in the plan; 0: no plan was seen yet.
    pub members: usize,
    /// The plan's version; 0: no plan was seen yet.
    pub plan_version: u64,
    /// True while an operator keeps this member without shards.
    pub drained: bool,
    /// The member's standing with etcd when the view was made.
    pub trust: Trust,
}

// === impl OwnershipView ===

impl OwnershipView {
    /// Returns true if a plan exists that gives this member no shard. A member without shards that is no spare does not
    /// do its work.
    pub fn is_spare(&self) -> bool {
        self.plan_version > 0 && self.planned.is_empty()
    }
}
