//! The deployment as a whole: checks the servers, reads the layout, and creates shards.

use super::Admin;
use crate::calls::Calls;
use crate::error::Error;
use crate::server::{self, ServerFacts};
use crate::topology::NodeMap;
use delayq_core::layout::Layout;
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::{self, Init, ShardLayout};

// === impl Admin ===

impl Admin {
    /// Checks that the server would lose no message and denies no command that the client's role needs, and that an
    /// existing deployment is the configured deployment. Costs about a millisecond and a short connection. For a
    /// cluster, checks each master that can be reached.
    ///
    /// # Errors
    /// [`Error::Unfit`] names the setting and what to do; [`Error::Deployment`] if the deployment never had the
    /// configured number of shards; others if the server cannot be reached.
    pub async fn check_server(&self) -> Result<ServerFacts, Error> {
        let first = server::check_usable(&self.client.calls, self.client.role).await?.into_iter().next();
        first.map(|node| node.facts).ok_or_else(|| Error::Unfit("no nodes".to_owned()))
    }

    /// Returns the deployment's layout as known by Redis. Only the first call asks Redis.
    ///
    /// # Errors
    /// [`Error::Uninitialised`] without a deployment, [`Error::Deployment`] if the deployment never had the configured
    /// number of shards; a Redis that cannot be used.
    pub async fn layout(&self) -> Result<Layout, Error> {
        self.client.calls.layout().await
    }

    /// Creates the missing shards of the deployment, and checks the existing shards; all shards get the deployment's
    /// identity ([`Self::identify`]). Returns the number of created shards.
    ///
    /// # Errors
    /// [`Error::Deployment`] if a shard was created with other numbers or is at another node, the deployment never had
    /// the configured number of shards, or a new deployment would not have the number of shards of all nodes; a Redis
    /// that cannot be used. With several Redises, each Redis has to confirm that a missing shard is not there.
    pub async fn init(&self) -> Result<u16, Error> {
        let calls = &self.client.calls;
        let layout = match calls.layout().await {
            Ok(layout) => layout,
            Err(Error::Uninitialised(_)) => new_layout(calls)?,
            Err(error) => return Err(error),
        };
        let mut shards: Vec<ShardId> = layout.shards().shards().collect();
        if calls.nodes().map().is_some() {
            shards = missing(calls, shards, &layout).await?;
        }
        let inits = shards.iter().map(|&shard| deployment::init(shard, &layout)).collect();
        let mut created = 0;
        for (shard, reply) in shards.into_iter().zip(calls.send_plain(inits).await) {
            match deployment::read_init(reply?)? {
                Init::Created => created += 1,
                Init::Exists => {}
                Init::Differs(found, number, counts) => {
                    return Err(differs(shard, &format!("{found} as number {number} of {counts}"), &layout));
                }
            }
        }
        calls.shared_layout().learn(&layout);
        // A deployment whose shards are all new has another identity than a former one of this client.
        if created == layout.shards().get() {
            calls.shared_layout().forget_identity();
        }
        self.identify().await?;
        Ok(created)
    }
}

/// Returns the missing shards, once all other shards are known to be of this deployment: a shard that is created
/// with a wrong layout, or twice, cannot be mended.
async fn missing(calls: &Calls, shards: Vec<ShardId>, layout: &Layout) -> Result<Vec<ShardId>, Error> {
    let found = calls.certain_layouts(&shards).await?;
    let mut missing = Vec::new();
    for (shard, found) in shards.into_iter().zip(found) {
        let Some(ShardLayout { layout: found, .. }) = found else {
            missing.push(shard);
            continue;
        };
        // Either layout may be from before a growth that is in progress.
        if found != *layout && !found.continues(layout) && !layout.continues(&found) {
            let found = format!("{} as number {shard} of {found}", found.number());
            return Err(differs(shard, &found, layout));
        }
    }
    Ok(missing)
}

/// Returns the layout of a new deployment: with several nodes, the number of shards is the number that the nodes
/// have.
fn new_layout(calls: &Calls) -> Result<Layout, Error> {
    let (layout, map) = (calls.known().layout, calls.nodes().map());
    match map.map(NodeMap::shards).filter(|&all| all != usize::from(layout.shards().get())) {
        Some(all) => Err(Error::Deployment(format!(
            "the nodes have {all} shards, but [deployment] shards is {}: make both the same",
            layout.shards()
        ))),
        None => Ok(layout),
    }
}

/// Creates the error of a shard that was created with another configuration.
fn differs(shard: ShardId, found: &str, layout: &Layout) -> Error {
    Error::Deployment(format!(
        "shard {shard} was created with layout {found}; this process is configured for layout {} and shard count {layout}",
        layout.number()
    ))
}
