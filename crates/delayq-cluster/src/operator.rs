//! What an operator asks of a fleet from outside: that a member gives up its shards and takes none, or takes some again.

use crate::config::ClusterConfig;
use crate::drains::{Drain, Drains};
use crate::error::ClusterError;
use crate::etcd::Fence;
use crate::overview::{Observer, Overview};
use crate::wall_clock;

/// Changes what members of a fleet may be given, without being in it.
#[derive(Clone)]
pub struct Operator {
    observer: Observer,
}

/// What became of a request to drain a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainOutcome {
    /// It is drained: the leader plans its shards for others from now on.
    Drained,
    /// It was drained already; nothing changed.
    Already,
    /// No member of this name is registered; nothing changed.
    Unknown,
    /// No other member could take its shards, and that was not allowed; nothing changed.
    NobodyLeft,
}

/// What became of a request to let a member have shards again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndrainOutcome {
    /// It is not drained any more: the leader plans shards for it from now on, if it is registered.
    Undrained,
    /// It was not drained; nothing changed.
    NotDrained,
    /// Neither drained nor registered; nothing changed.
    Unknown,
}

// === impl Operator ===

impl Operator {
    /// An operator of the fleet that this configuration would join. Connects with the first request.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(config: &ClusterConfig) -> Result<Self, ClusterError> {
        Ok(Self { observer: Observer::new(config)? })
    }

    /// The fleet as it stands.
    ///
    /// # Errors
    /// As of [`Observer::overview`].
    pub async fn overview(&self) -> Result<Overview, ClusterError> {
        self.observer.overview().await
    }

    /// Drains a member by its name, for as long as nobody undrains it, over its restarts and changes of the leader: the
    /// plan gives its shards to others, and it none. Where no other member could take them, only with `nobody_left`.
    /// Safe to repeat.
    ///
    /// # Errors
    /// etcd unreachable (the drain may have been written: repeat it) or refusing, or a document of a newer format.
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
            drains.add(name, Drain { since_ms: wall_clock::unix_ms(), reason: reason.to_owned() });
            // Refused if another drain came between: both together might have left nobody.
            if self.write(&drains, written).await? {
                return Ok(DrainOutcome::Drained);
            }
        }
    }

    /// Ends the drain of a member, registered or not. Safe to repeat.
    ///
    /// # Errors
    /// etcd unreachable (the drain may be over: repeat it) or refusing, or a document of a newer format.
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

    /// The fleet, its drains, and the revision at which they were written; 0: never.
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
