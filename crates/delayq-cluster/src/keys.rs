//! The keys in etcd: building and parsing.

use crate::config::ClusterConfig;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One life of a member: its name and its lease. A process that lost its lease comes back with another identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FleetKeys {
    base: String,
}

// === impl MemberId ===

impl MemberId {
    /// The life of `name` under this lease.
    pub(crate) fn new(name: &str, lease: i64) -> Self {
        Self(format!("{name}-{lease:x}"))
    }

    /// An identity read from a document or a key.
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The identity as written in keys.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl FleetKeys ===

impl FleetKeys {
    pub(crate) fn of(config: &ClusterConfig) -> Self {
        Self { base: config.base() }
    }

    pub(crate) fn members(&self) -> String {
        format!("{}/members/", self.base)
    }

    pub(crate) fn member(&self, id: &MemberId) -> String {
        format!("{}/members/{id}", self.base)
    }

    pub(crate) fn plan(&self) -> String {
        format!("{}/plan", self.base)
    }

    /// The identity of the deployment whose shards the fleet divides.
    pub(crate) fn deployment(&self) -> String {
        format!("{}/deployment", self.base)
    }

    pub(crate) fn drains(&self) -> String {
        format!("{}/drains", self.base)
    }

    pub(crate) fn member_of(&self, key: &[u8]) -> Option<MemberId> {
        let text = std::str::from_utf8(key).ok()?;
        let id = text.strip_prefix(&self.base)?.strip_prefix("/members/")?;
        Some(MemberId::from_text(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EtcdConfig;
    use delayq_service::config::DeploymentConfig;

    #[test]
    fn a_key_reads_back_as_what_it_was_made_from() {
        let config = ClusterConfig::new(&EtcdConfig::default(), &DeploymentConfig::default(), "t");
        let keys = FleetKeys::of(&config);
        let member = MemberId::new("t", 0x1f);
        assert_eq!(keys.member(&member), "/delayq/dq/timer/members/t-1f");
        assert_eq!(keys.member_of(keys.member(&member).as_bytes()), Some(member));
        assert_eq!(keys.member_of(b"/delayq/dq/forwarder/members/t-1f"), None);
        assert_eq!(keys.member_of(keys.plan().as_bytes()), None);
    }
}
