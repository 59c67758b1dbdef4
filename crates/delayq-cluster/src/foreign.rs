//! Checks that a fleet in etcd belongs to this deployment: the first member records the identity of its deployment, and
//! members of other deployments do not join.

use crate::etcd::{Entry, EtcdError, Fence, Range};
use crate::membership::Base;
use delayq::protocol::DeploymentId;
use std::time::Duration;

// === impl Base ===

impl Base {
    /// Compares the deployment of the fleet with this member's, and records this member's if there is no record.
    /// Returns a condition that must still hold when the member registers.
    pub(crate) async fn belong(&self) -> Result<Option<Fence>, EtcdError> {
        let Some(mine) = *self.config.deployment.borrow() else { return Ok(None) };
        let key = self.keys.deployment();
        let recorded = match self.recorded(&key).await? {
            Some(entry) => entry,
            None => {
                let first = [Fence::Created(key.clone(), 0)];
                // Another member may have been faster: the record decides.
                self.link.write(&first, &key, mine.to_string().into_bytes(), 0).await?;
                let gone = || EtcdError::Silent(format!("{key} was removed"));
                self.recorded(&key).await?.ok_or_else(gone)?
            }
        };
        let of_fleet = read(&recorded).filter(|&recorded| recorded != mine);
        let foreign =
            of_fleet.map(|recorded| EtcdError::Foreign { base: self.config.base(), recorded, mine });
        self.refused.note(foreign.as_ref().map(|error| error.to_error(self.link.config(), Duration::ZERO)));
        match foreign {
            Some(error) => Err(error),
            None => Ok(Some(Fence::Written(key, recorded.mod_revision))),
        }
    }

    async fn recorded(&self, key: &str) -> Result<Option<Entry>, EtcdError> {
        let (_, read) = self.link.read(&[Range::Key(key.to_owned())]).await?;
        Ok(read.into_iter().flatten().next())
    }
}

/// The identity in a record; `None` if the record cannot be read: then no member is kept out.
pub(crate) fn read(entry: &Entry) -> Option<DeploymentId> {
    std::str::from_utf8(&entry.value).ok()?.parse().ok()
}
