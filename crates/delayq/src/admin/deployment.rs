//! The deployment as a whole: whether its Redis is fit, its layout, and creating its shards.

use super::Admin;
use crate::error::Error;
use crate::link::SentinelReport;
use crate::server::{self, NodeFacts, ServerFacts};
use delayq_core::call::Call;
use delayq_core::layout::Layout;
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::{self, Init, ShardLayout};
use std::collections::BTreeMap;

// === impl Admin ===

impl Admin {
    /// Checks that the server would lose no message and denies no command that the client's role needs, and that a deployment that is there is
    /// the configured one. Costs about a millisecond and a short connection. Of a cluster, each master is checked that can
    /// be reached.
    ///
    /// # Errors
    /// [`Error::Unfit`] names the setting and what to do; [`Error::Deployment`] if the deployment never had the
    /// configured number of shards; others if the server cannot be reached.
    pub async fn check_server(&self) -> Result<ServerFacts, Error> {
        let first = server::check_usable(&self.client.calls, self.client.role).await?.into_iter().next();
        first.map(|node| node.facts).ok_or_else(|| Error::Unfit("it has no nodes".to_owned()))
    }

    /// As [`Self::check_server`], of a cluster each of its masters: what each of them says.
    ///
    /// # Errors
    /// As those of [`Self::check_server`], of any of them; also if only one cannot be reached.
    pub async fn check_nodes(&self) -> Result<Vec<NodeFacts>, Error> {
        server::check(&self.client.calls, self.client.role).await
    }

    /// Whether its Redis is a cluster.
    pub fn is_cluster(&self) -> bool {
        self.client.calls.nodes().is_cluster()
    }

    /// The shards of each node of a cluster, by its address; of one Redis, all of them.
    ///
    /// # Errors
    /// No node says who has which slot, or none has that of a shard.
    pub async fn shards_by_node(&self) -> Result<BTreeMap<String, Vec<ShardId>>, Error> {
        let shards: Vec<ShardId> = self.client.shards().shards().collect();
        let nodes = self.client.calls.by_node(&shards).await?.into_iter();
        Ok(nodes.map(|(link, shards)| (link.address().to_owned(), shards)).collect())
    }

    /// What each sentinel of the Redis says now, one that is down included; `None`: the address names no sentinels. Waits
    /// at most about `connect_timeout`.
    pub async fn sentinels(&self) -> Option<Vec<SentinelReport>> {
        self.client.calls.nodes().sentinels().await
    }

    /// The deployment's layout as Redis knows it, which is asked the first time only.
    ///
    /// # Errors
    /// [`Error::Uninitialised`] without a deployment, [`Error::Deployment`] if it never had the configured number of
    /// shards; a Redis that cannot be used.
    pub async fn layout(&self) -> Result<Layout, Error> {
        self.client.calls.layout().await
    }

    /// What shards know of their deployment, in one round trip; `None`: the shard does not exist.
    pub async fn shard_layouts(&self, shards: &[ShardId]) -> Vec<Result<Option<ShardLayout>, Error>> {
        self.client.calls.shard_layouts(shards).await
    }

    /// Creates the missing shards of the deployment, and checks the others. Returns how many it created.
    ///
    /// # Errors
    /// [`Error::Deployment`] if a shard was created with other numbers, or the deployment never had the configured number
    /// of shards; a Redis that cannot be used.
    pub async fn init(&self) -> Result<u16, Error> {
        let calls = &self.client.calls;
        let layout = match calls.layout().await {
            Ok(layout) => layout,
            Err(Error::Uninitialised(_)) => calls.known().layout,
            Err(error) => return Err(error),
        };
        let shards: Vec<ShardId> = layout.shards().shards().collect();
        let inits: Vec<Call> = shards.iter().map(|&shard| deployment::init(shard, &layout)).collect();
        let mut created = 0;
        for (shard, reply) in shards.into_iter().zip(calls.scripts().send_all(&inits).await) {
            match deployment::read_init(reply?)? {
                Init::Created => created += 1,
                Init::Exists => {}
                Init::Differs(found, number, counts) => {
                    return Err(Error::Deployment(format!(
                        "shard {shard} was created with layout {found} as number {number} of {counts}; \
                         this process is configured for layout {} and {layout} shards",
                        layout.number()
                    )));
                }
            }
        }
        calls.shared_layout().learn(&layout);
        Ok(created)
    }
}
