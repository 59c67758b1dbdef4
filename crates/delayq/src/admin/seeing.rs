//! Finds the part of a deployment that answers now.

use super::Admin;
use crate::calls::Calls;
use crate::error::Error;
use delayq_core::shard::ShardId;
use delayq_core::verbs::overview::Overview;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The part of a deployment that answers, and the rest.
#[derive(Debug)]
#[non_exhaustive]
pub struct Seen {
    /// Counts, lists and walks over the shards that answered.
    pub admin: Admin,
    /// The overviews of these shards.
    pub overviews: Vec<(ShardId, Overview)>,
    /// The other shards, grouped by node.
    pub unseen: Vec<Unseen>,
}

/// Shards of a node that did not answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unseen {
    /// The shards, in order.
    pub shards: Vec<ShardId>,
    /// The error of the first of these shards.
    pub error: Error,
}

// === impl Admin ===

impl Admin {
    /// Asks every shard in one round trip, and leaves out shards that do not answer: the node is down or empty, or the
    /// shard is moving to another node.
    ///
    /// # Errors
    /// The first shard's, if no shard answers.
    pub async fn seen(&self) -> Result<Seen, Error> {
        self.client.calls.layout().await?;
        let asked = self.shards().all();
        let answers = self.shards().overview_of(&asked).await.into_iter();
        let (mut overviews, mut failed) = (Vec::new(), Vec::new());
        for (shard, answer) in asked.into_iter().zip(answers) {
            match answer {
                Ok(overview) => overviews.push((shard, overview)),
                Err(error) => failed.push((shard, error)),
            }
        }
        if overviews.is_empty() && !failed.is_empty() {
            return Err(failed.swap_remove(0).1);
        }
        let unseen: BTreeSet<ShardId> = failed.iter().map(|(shard, _)| *shard).collect();
        let admin = Self { unseen: Arc::new(unseen), ..self.clone() };
        Ok(Seen { admin, overviews, unseen: by_its_node(&self.client.calls, failed).await })
    }
}

/// Groups shards that did not answer by node.
async fn by_its_node(calls: &Calls, failed: Vec<(ShardId, Error)>) -> Vec<Unseen> {
    let shards: Vec<ShardId> = failed.iter().map(|(shard, _)| *shard).collect();
    let (placed, nowhere) = calls.placed(&shards).await;
    let of_node = |shards: Vec<ShardId>| {
        let (_, error) = failed.iter().find(|(shard, _)| shards.contains(shard))?;
        Some(Unseen { error: error.clone(), shards })
    };
    let lost = nowhere.into_iter().map(|(shard, _)| shard).collect();
    placed.into_iter().map(|(_, shards)| shards).chain([lost]).filter_map(of_node).collect()
}
