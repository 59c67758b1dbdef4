//! The identity of a deployment: created once, and copied to all shards.
//!
//! The first shard decides between concurrent callers: each caller offers an identity, and takes the identity in the
//! answer of the shard.

use super::Admin;
use crate::calls::Calls;
use crate::error::Error;
use delayq_core::identity::DeploymentId;
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::{identify, read_identity};

/// Shards in one pipeline.
const SHARDS_A_CALL: usize = 64;

/// A shard, and the identity that the shard records.
type Said = (ShardId, Result<Option<DeploymentId>, Error>);

// === impl Admin ===

impl Admin {
    /// Returns the identity of the deployment, which is different from every other deployment. Shards without an
    /// identity get this identity: in a deployment from before identities, that is every shard. Safe to repeat, and for
    /// concurrent callers.
    ///
    /// # Errors
    /// [`Error::Foreign`] if shards belong to different deployments. A shard is missing, or the Redis of a shard cannot
    /// be used: all other shards have the identity if any of them records an identity.
    pub async fn identify(&self) -> Result<DeploymentId, Error> {
        let calls = &self.client.calls;
        let all: Vec<ShardId> = calls.layout().await?.shards().shards().collect();
        let said = identities(calls, &all, None).await;
        for (shard, found) in &said {
            if let Ok(found) = found {
                calls.belongs(*shard, *found)?;
            }
        }
        let unheard = said.iter().find_map(|(_, found)| found.clone().err());
        let known = said.iter().find_map(|(_, found)| found.as_ref().ok().copied().flatten());
        let identity = match (known, &unheard) {
            (Some(known), _) => known,
            (None, Some(error)) => return Err(error.clone()),
            (None, None) => make_identity(calls).await?,
        };
        let without = |(shard, found): Said| matches!(found, Ok(None)).then_some(shard);
        let without: Vec<ShardId> = said.into_iter().filter_map(without).collect();
        for (shard, found) in identities(calls, &without, Some(identity)).await {
            calls.belongs(shard, found?)?;
        }
        unheard.map_or(Ok(identity), Err)
    }
}

/// Creates the identity, unless another caller has just done so.
async fn make_identity(calls: &Calls) -> Result<DeploymentId, Error> {
    let (first, made) = (ShardId::new(0), DeploymentId::random());
    let decided = calls.ask(identify(first, Some(made)), read_identity).await?;
    Ok(decided.unwrap_or(made))
}

/// Reads the identities of shards; shards without an identity get the given identity.
async fn identities(calls: &Calls, shards: &[ShardId], given: Option<DeploymentId>) -> Vec<Said> {
    let mut said = Vec::with_capacity(shards.len());
    for some in shards.chunks(SHARDS_A_CALL) {
        let asking = some.iter().map(|&shard| identify(shard, given)).collect();
        said.extend(some.iter().copied().zip(calls.ask_all(asking, read_identity).await));
    }
    said
}
