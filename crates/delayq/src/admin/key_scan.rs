//! Walks over the keys of a Redis, or of a cluster node by node.

use crate::error::Error;
use crate::link::Link;
use crate::topology::Nodes;
use delayq_core::id::NodeName;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A walk over all keys of a pattern, step by step, in no order. Keys of a shard that moves to another node meanwhile
/// may be skipped, or returned twice.
#[derive(Clone, Debug)]
pub(super) struct KeyScan {
    pattern: String,
    /// Keys that Redis walks over in one step.
    step: usize,
    at: At,
    /// The addresses of the nodes to walk over; `None`: all nodes.
    only: Option<BTreeSet<String>>,
}

#[derive(Clone, Debug)]
enum At {
    Beginning,
    /// The remaining nodes with the present node last, and the cursor of the next step in that node.
    Within(Vec<String>, u64),
    End,
}

// === impl KeyScan ===

impl KeyScan {
    pub(super) const fn new(pattern: String, step: usize) -> Self {
        Self { pattern, step, at: At::Beginning, only: None }
    }

    /// Limits the walk to the keys of these nodes.
    pub(super) fn of_nodes(self, addresses: BTreeSet<String>) -> Self {
        Self { only: Some(addresses), ..self }
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self.at, At::End)
    }

    /// Returns the next keys; some steps have no keys. Safe to repeat after an error.
    ///
    /// # Errors
    /// Redis cannot be used, or [`Error::Walk`]: a node is gone, and the new place of the keys is unknown.
    pub(super) async fn next(&mut self, nodes: &Nodes) -> Result<Vec<Vec<u8>>, Error> {
        let mut links = nodes.all().await?;
        links.retain(|link| self.only.as_ref().is_none_or(|only| only.contains(link.address())));
        let node = self.node(&links).cloned();
        let mut found = self.next_of(&links).await?;
        if let Some(node) = node {
            // Remains of a moved shard, and keys at a replica, belong to another node.
            let home = |key: &[u8]| nodes.keys().parse(key).and_then(|(shard, _)| nodes.name(shard));
            found.retain(|key| home(key).is_none_or(|home| *home == node));
        }
        Ok(found)
    }

    /// Returns the name of the node of the next keys.
    fn node<'l>(&self, links: &'l [Arc<Link>]) -> Option<&'l NodeName> {
        let link = match &self.at {
            At::Beginning => links.last(),
            At::Within(left, _) => {
                links.iter().find(|link| Some(link.address()) == left.last().map(String::as_str))
            }
            At::End => None,
        };
        link?.name()
    }

    /// Returns the next keys of these nodes, regardless of the placement of the shards.
    pub(super) async fn next_of(&mut self, links: &[Arc<Link>]) -> Result<Vec<Vec<u8>>, Error> {
        if matches!(self.at, At::Beginning) {
            self.at = At::Within(links.iter().map(|link| link.address().to_owned()).collect(), 0);
        }
        let At::Within(left, cursor) = &mut self.at else { return Ok(Vec::new()) };
        let Some(address) = left.last() else {
            self.at = At::End;
            return Ok(Vec::new());
        };
        let link = links.iter().find(|link| link.address() == address).ok_or_else(|| {
            Error::Walk(format!("node {address} of the cluster is no longer a master: start over"))
        })?;
        let mut scan = redis::cmd("SCAN");
        scan.arg(*cursor).arg("MATCH").arg(&self.pattern).arg("COUNT").arg(self.step);
        let (next, found): (u64, Vec<Vec<u8>>) = link.query("SCAN", &scan).await?;
        *cursor = next;
        if next == 0 {
            left.pop();
        }
        if left.is_empty() {
            self.at = At::End;
        }
        Ok(found)
    }
}
