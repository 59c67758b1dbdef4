//! A member's registration: the document under its lease with the member's identity and condition.

use crate::config::ClusterConfig;
use crate::keys::MemberId;
use crate::planner::Candidate;
use delayq::ShardCount;
use delayq::protocol::ShardRanges;
use serde::{Deserialize, Serialize};

/// Unknown fields are ignored, so that newer members can add fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) address: String,
    #[serde(default)]
    pub(crate) draining: bool,
    #[serde(default, skip_serializing_if = "ShardRanges::is_empty")]
    pub(crate) hindered: ShardRanges,
    /// Number of shards that the member knows; the plan covers the highest number that any member knows.
    pub(crate) shards: ShardCount,
    /// Unix time of the registration, in milliseconds by the member's own clock; for people only.
    #[serde(default)]
    pub(crate) since_ms: u64,
}

// === impl Registration ===

impl Registration {
    pub(crate) fn of(config: &ClusterConfig, since_ms: u64) -> Self {
        let member = &config.member;
        Self {
            name: member.name.clone(),
            version: member.version.clone(),
            address: member.address.clone(),
            draining: false,
            hindered: ShardRanges::default(),
            shards: config.shards,
            since_ms,
        }
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a registration has only numbers and texts, which always serialise")
    }

    /// The registration does not know about an operator's drain, which `drained` adds.
    pub(crate) fn candidate(&self, id: MemberId, drained: bool) -> Candidate {
        let (name, hindered) = (self.name.clone(), self.hindered.clone());
        Candidate { id, name, draining: self.draining || drained, hindered }
    }
}
