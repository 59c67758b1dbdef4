//! The shards of a deployment: overviews, layouts and places, growths and moves.

mod growing;
mod listeners;
mod moving;
mod settling;

pub use growing::{GrowthReport, GrowthStep};
pub use moving::{MoveReport, MoveStep};

use super::Admin;
use crate::error::Error;
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::ShardLayout;
use delayq_core::verbs::overview::{self, Overview};
use std::collections::BTreeMap;

/// Inspects, adds and moves the shards of a deployment. See [`Admin::shards`].
///
/// ```no_run
/// # async fn example(admin: delayq::Admin, count: delayq::ShardCount) -> Result<(), delayq::Error> {
/// for (node, shards) in admin.shards().by_node().await? {
///     println!("{node}: {shards:?}");
/// }
/// let report = admin.shards().grow(count, |_| {}).await?;
/// println!("{} shards added", report.added);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ShardsAdmin<'a> {
    admin: &'a Admin,
}

// === impl Admin ===

impl Admin {
    /// Returns the handle to the shards of the deployment.
    pub const fn shards(&self) -> ShardsAdmin<'_> {
        ShardsAdmin { admin: self }
    }
}

// === impl ShardsAdmin ===

impl ShardsAdmin<'_> {
    /// Returns the known shards of the deployment in order, without the shards that are left out.
    pub fn all(self) -> Vec<ShardId> {
        self.admin.client.shards().shards().filter(|&shard| !self.admin.leaves_out(shard)).collect()
    }

    /// Returns the shards that are left out, in order.
    pub fn left_out(self) -> Vec<ShardId> {
        self.admin.client.shards().shards().filter(|&shard| self.admin.leaves_out(shard)).collect()
    }

    /// Reads the overview of every shard.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn overview(self) -> Result<Vec<(ShardId, Overview)>, Error> {
        let (mut all, mut shards) = (Vec::new(), self.admin.every_shard().await?);
        loop {
            let some: Vec<ShardId> = std::iter::from_fn(|| shards.next()).collect();
            if some.is_empty() {
                return Ok(all);
            }
            let overviews = self.overview_of(&some).await;
            for (shard, overview) in some.into_iter().zip(overviews) {
                all.push((shard, overview?));
            }
        }
    }

    /// Reads the overviews of these shards in one round trip, at a cost that does not grow with the number of messages.
    pub async fn overview_of(self, shards: &[ShardId]) -> Vec<Result<Overview, Error>> {
        let calls = shards.iter().map(|&shard| overview::request(shard)).collect();
        self.admin.client.calls.ask_all(calls, overview::read).await
    }

    /// Returns the shards of each node: by name for several Redises, by address for a cluster. A single Redis has all
    /// shards.
    ///
    /// # Errors
    /// No node reports the placement of slots, or no node has the slot of a shard.
    pub async fn by_node(self) -> Result<BTreeMap<String, Vec<ShardId>>, Error> {
        let shards = self.all();
        let nodes = self.admin.client.calls.by_node(&shards).await?.into_iter();
        Ok(nodes.map(|(link, shards)| (link.label().to_owned(), shards)).collect())
    }

    /// Reads the layouts that shards record, in one round trip; `None`: the shard does not exist.
    pub async fn layouts(self, shards: &[ShardId]) -> Vec<Result<Option<ShardLayout>, Error>> {
        self.admin.client.calls.shard_layouts(shards).await
    }
}
