//! The layout and the identity of a client's deployment, shared by all clones of the client, with notification of
//! changes.

use delayq_core::id::Group;
use delayq_core::identity::DeploymentId;
use delayq_core::layout::{CallerLayout, Layout, LayoutRelation};
use delayq_core::shard::{ShardCount, ShardId};
use delayq_core::target::Target;
use tokio::sync::watch;

/// Shared by all clones of a client.
#[derive(Clone)]
pub(crate) struct SharedLayout {
    layout: watch::Sender<CallerLayout>,
    identity: watch::Sender<Option<DeploymentId>>,
}

/// Follows the number of shards. Made by [`Client::growth`](crate::client::Client::growth).
#[derive(Clone, Debug)]
pub struct Growth {
    shards: ShardCount,
    known: watch::Receiver<CallerLayout>,
}

// === impl SharedLayout ===

impl SharedLayout {
    pub(crate) fn configured(shards: ShardCount) -> Self {
        let layout = CallerLayout { layout: Layout::new(shards), asked: false };
        Self { layout: watch::Sender::new(layout), identity: watch::Sender::new(None) }
    }

    pub(crate) fn known(&self) -> CallerLayout {
        self.layout.borrow().clone()
    }

    pub(crate) fn shards(&self) -> ShardCount {
        self.layout.borrow().layout.shards()
    }

    /// The present shard first, then earlier shards from the latest to the oldest.
    pub(crate) fn shards_of(&self, target: &Target) -> Vec<ShardId> {
        self.known().layout.placement_of(&target.id, target.group.as_ref()).newest_first().collect()
    }

    /// `None` after all shards were asked. Call this after asking each shard, because any call may meet a growth.
    pub(crate) fn next_shard_of(&self, group: &Group, asked: &[ShardId]) -> Option<ShardId> {
        let placement = self.known().layout.placement(group.as_str());
        placement.newest_first().find(|shard| !asked.contains(shard))
    }

    pub(crate) fn growth(&self) -> Growth {
        let known = self.layout.subscribe();
        let shards = known.borrow().layout.shards();
        Growth { shards, known }
    }

    pub(crate) fn learn(&self, found: &Layout) -> LayoutRelation {
        let mut relation = LayoutRelation::Same;
        self.layout.send_if_modified(|known| {
            relation = known.relation(found);
            let newer = relation == LayoutRelation::Newer;
            if newer {
                let before = known.layout.shards();
                if before != found.shards() {
                    tracing::info!(shards = %found.shards(), %before, "the shard count has grown");
                }
                *known = CallerLayout { layout: found.clone(), asked: true };
            }
            newer
        });
        relation
    }

    pub(crate) fn identity(&self) -> Option<DeploymentId> {
        *self.identity.borrow()
    }

    pub(crate) fn identities(&self) -> watch::Receiver<Option<DeploymentId>> {
        self.identity.subscribe()
    }

    /// Learns the identity of the deployment to which a shard belongs.
    ///
    /// # Errors
    /// The shard belongs to another deployment; holds the identity of the served deployment.
    pub(crate) fn belongs(&self, found: Option<DeploymentId>) -> Result<(), DeploymentId> {
        let Some(found) = found else { return Ok(()) };
        let mut other = None;
        self.identity.send_if_modified(|known| {
            other = known.filter(|&known| known != found);
            other.is_none() && known.replace(found).is_none()
        });
        other.map_or(Ok(()), Err)
    }

    /// Without a deployment: a new deployment has a new identity.
    pub(crate) fn forget_identity(&self) {
        self.identity.send_if_modified(|known| known.take().is_some());
    }
}

// === impl Growth ===

impl Growth {
    /// The number of shards as last returned.
    pub fn shards(&self) -> ShardCount {
        self.shards
    }

    /// Waits until the number of shards changes. Cancel safe.
    pub async fn next(&mut self) -> ShardCount {
        loop {
            if let Some(shards) = self.try_next() {
                return shards;
            }
            if self.known.changed().await.is_err() {
                // The client is gone, so the number can no longer change.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the number of shards, if the number has changed.
    pub fn try_next(&mut self) -> Option<ShardCount> {
        let now = self.known.borrow().layout.shards();
        (now != std::mem::replace(&mut self.shards, now)).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Layout {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_identity_counts_until_the_deployment_is_gone() {
        let shared = SharedLayout::configured(ShardCount::default());
        let (one, other) = (DeploymentId::random(), DeploymentId::random());
        assert_eq!(shared.belongs(None), Ok(()));
        assert_eq!(shared.belongs(Some(one)), Ok(()));
        assert_eq!(shared.belongs(Some(other)), Err(one));
        assert_eq!((shared.belongs(None), shared.identity()), (Ok(()), Some(one)));
        shared.forget_identity();
        assert_eq!((shared.belongs(Some(other)), shared.identity()), (Ok(()), Some(other)));
    }

    #[test]
    fn a_client_that_has_not_asked_sends_a_layout_that_no_shard_has() {
        let shared = SharedLayout::configured(ShardCount::new(64).unwrap());
        let mut growth = shared.growth();
        assert_eq!(shared.known().word(), 0);
        shared.learn(&layout("64"));
        assert_eq!((shared.known().word(), growth.try_next()), (1, None));
        shared.learn(&layout("64,128"));
        assert_eq!(shared.known().word(), 2);
        assert_eq!(growth.try_next(), ShardCount::new(128).ok());
        assert_eq!(growth.try_next(), None);
    }
}
