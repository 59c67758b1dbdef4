//! The deployment as a whole: whether its Redis is fit, its layout, and creating its shards.

use super::Admin;
use crate::error::Error;
use crate::link::SentinelReport;
use crate::server::{self, ServerFacts};
use delayq_core::call::Call;
use delayq_core::layout::Layout;
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::{self, Init, ShardLayout};

// === impl Admin ===

impl Admin {
    /// Checks that the server would lose no message and denies no command that the client's role needs, and that a deployment that is there is
    /// the configured one. Costs about a millisecond and a short connection.
    ///
    /// # Errors
    /// [`Error::Unfit`] names the setting and what to do; [`Error::Deployment`] if the deployment never had the
    /// configured number of shards; others if the server cannot be reached.
    pub async fn check_server(&self) -> Result<ServerFacts, Error> {
        server::check(&self.client.calls, self.client.role).await
    }

    /// What each sentinel of the Redis says now, one that is down included; `None`: the address names no sentinels. Waits
    /// at most about `connect_timeout`.
    pub async fn sentinels(&self) -> Option<Vec<SentinelReport>> {
        self.client.calls.link().sentinels().await
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
