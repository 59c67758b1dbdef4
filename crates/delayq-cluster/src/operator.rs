//! An operator's requests to a fleet from outside: a member gives up its shards and takes none, or takes shards again;
//! the fleet changes to another deployment.

use crate::config::ClusterConfig;
use crate::drains::{Drain, Drains};
use crate::error::ClusterError;
use crate::etcd::Fence;
use crate::overview::{Observer, Overview};
use delayq::protocol::DeploymentId;
use delayq_service::host_now;

/// Changes a fleet from outside: drains and undrains members, replaces the deployment.
#[derive(Clone)]
pub struct Operator {
    observer: Observer,
}

/// The outcome of a request to drain a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainOutcome {
    /// The member is drained: the leader plans its shards for other members from now on.
    Drained,
    /// The member was already drained; nothing changed.
    Already,
    /// No member of this name is registered; nothing changed.
    Unknown,
    /// No other member could take the shards, and that was not allowed; nothing changed.
    NobodyLeft,
}

/// The outcome of a request to undrain a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndrainOutcome {
    /// The member is no longer drained: the leader plans shards for the member from now on, if registered.
    Undrained,
    /// The member was not drained; nothing changed.
    NotDrained,
    /// The member is neither drained nor registered; nothing changed.
    Unknown,
}

// === impl Operator ===

impl Operator {
    /// Creates an operator of the fleet that this configuration would join. Connects with the first request.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(config: &ClusterConfig) -> Result<Self, ClusterError> {
        Ok(Self { observer: Observer::new(config)? })
    }

    /// Reads the fleet's current state.
    ///
    /// # Errors
    /// As of [`Observer::overview`].
    pub async fn overview(&self) -> Result<Overview, ClusterError> {
        self.observer.overview().await
    }

    /// Drains a member by its name until an operator undrains the member, across restarts and changes of the leader:
    /// the plan gives the shards to other members. Drains the last able member only with `nobody_left`. Safe to repeat.
    ///
    /// # Errors
    /// etcd unreachable (the drain may have been written: repeat the call) or refusing, or a document of a newer
    /// format.
    pub async fn drain(
        &self,
        name: &str,
        reason: &str,
        nobody_left: bool,
    ) -> Result<DrainOutcome, ClusterError> {
        loop {
            let (overview, mut drains, written) = self.read().await?;
            if drains.holds(name) {
                return Ok(DrainOutcome::Already);
            }
            if !overview.members.iter().any(|member| member.name == name) {
                return Ok(DrainOutcome::Unknown);
            }
            if !nobody_left && overview.heirs(name).next().is_none() {
                return Ok(DrainOutcome::NobodyLeft);
            }
            drains.add(name, Drain { since_ms: host_now().get(), reason: reason.to_owned() });
            // Refused if another drain came between: both drains together might leave no member.
            if self.write(&drains, written).await? {
                return Ok(DrainOutcome::Drained);
            }
        }
    }

    /// Ends the drain of a member, registered or not. Safe to repeat.
    ///
    /// # Errors
    /// etcd unreachable (the drain may be over: repeat the call) or refusing, or a document of a newer format.
    pub async fn undrain(&self, name: &str) -> Result<UndrainOutcome, ClusterError> {
        loop {
            let (overview, mut drains, written) = self.read().await?;
            if !drains.remove(name) {
                let is_registered = overview.members.iter().any(|member| member.name == name);
                return Ok(if is_registered { UndrainOutcome::NotDrained } else { UndrainOutcome::Unknown });
            }
            if self.write(&drains, written).await? {
                return Ok(UndrainOutcome::Undrained);
            }
        }
    }

    /// Records a deployment as the fleet's, replacing the recorded deployment: members of the former deployment are
    /// kept out from their next registration on. Returns the replaced deployment, if different. Safe to repeat.
    ///
    /// # Errors
    /// etcd unreachable (the record may have been written: repeat the call) or refusing.
    pub async fn replace_deployment(&self, with: DeploymentId) -> Result<Option<DeploymentId>, ClusterError> {
        let before = self.overview().await?.deployment;
        if before != Some(with) {
            let key = self.observer.keys().deployment();
            let document = with.to_string().into_bytes();
            self.observer.ask(|link| link.write(&[], &key, document.clone(), 0)).await?;
        }
        Ok(before.filter(|&before| before != with))
    }

    /// The revision belongs to the drains' last write; 0: never written.
    async fn read(&self) -> Result<(Overview, Drains, i64), ClusterError> {
        let read = self.observer.read().await?;
        let entry = read.drains();
        let drains = Drains::read(entry)
            .map_err(|cause| ClusterError::Document { key: self.observer.keys().drains(), cause })?;
        let written = entry.map_or(0, |entry| entry.mod_revision);
        Ok((self.observer.compose(&read)?, drains, written))
    }

    async fn write(&self, drains: &Drains, written: i64) -> Result<bool, ClusterError> {
        let key = self.observer.keys().drains();
        let fence = [Fence::Written(key.clone(), written)];
        let written = self.observer.ask(|link| link.write(&fence, &key, drains.to_json(), 0)).await?;
        Ok(written.is_some())
    }
}
