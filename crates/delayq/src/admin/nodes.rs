//! The nodes of a deployment: checks, sentinels, and the nodes that are left out.

use super::Admin;
use crate::error::Error;
use crate::link::SentinelReport;
use crate::server::{self, NodeFacts};
use delayq_core::id::NodeName;

/// Checks the Redises of a deployment. See [`Admin::nodes`].
///
/// ```no_run
/// # async fn example(admin: delayq::Admin) -> Result<(), delayq::Error> {
/// for node in admin.nodes().check_each().await? {
///     println!("{node:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NodesAdmin<'a> {
    admin: &'a Admin,
}

// === impl Admin ===

impl Admin {
    /// Returns the handle to the nodes of the deployment: the only Redis, the Redises of a map, or the masters of a
    /// cluster.
    pub const fn nodes(&self) -> NodesAdmin<'_> {
        NodesAdmin { admin: self }
    }
}

// === impl NodesAdmin ===

impl<'a> NodesAdmin<'a> {
    /// Like [`Admin::check_server`], for each master of a cluster. Returns the facts of each node.
    ///
    /// # Errors
    /// Like [`Admin::check_server`], for any node; also if only one node cannot be reached.
    pub async fn check(self) -> Result<Vec<NodeFacts>, Error> {
        server::check(&self.admin.client.calls, self.admin.client.role).await
    }

    /// Like [`Self::check`], with the facts or the outage of each node.
    ///
    /// # Errors
    /// Like [`Admin::check_server`], except for a node that cannot be reached.
    pub async fn check_each(self) -> Result<Vec<Result<NodeFacts, Error>>, Error> {
        server::check_each(&self.admin.client.calls, self.admin.client.role).await
    }

    /// Returns true if the Redis is a cluster.
    pub fn is_cluster(self) -> bool {
        self.admin.client.calls.nodes().is_cluster()
    }

    /// Returns true if several nodes have the shards: nodes of a map, or of a cluster.
    pub fn are_several(self) -> bool {
        self.admin.client.calls.nodes().only().is_none()
    }

    /// Reports the answer or outage of each sentinel, for every Redis whose address names sentinels. The reports are
    /// listed by that address. Waits at most about `connect_timeout`.
    pub async fn sentinels(self) -> Vec<(String, Vec<SentinelReport>)> {
        self.admin.client.calls.nodes().sentinels().await
    }

    /// Returns the nodes that are left out.
    pub fn left_out(self) -> impl Iterator<Item = &'a NodeName> {
        self.admin.without.iter()
    }
}
