//! Whether a fleet in etcd is that of this deployment: the first member records the identity of its own, and no member of
//! another one joins.

use crate::config::ClusterConfig;
use crate::error::ClusterError;
use crate::etcd::{Entry, EtcdError, Fence, Link, Range};
use crate::keys::Keys;
use delayq::protocol::DeploymentId;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Why this member is not let into the fleet: it is that of another deployment. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Refused(Arc<Mutex<Option<ClusterError>>>);

// === impl Refused ===

impl Refused {
    pub(crate) fn why(&self) -> Option<ClusterError> {
        self.slot().clone()
    }

    /// Compares the deployment of the fleet with this member's, and records this member's if there is none. Returns the
    /// condition under which the member may register.
    pub(crate) async fn admit(
        &self,
        link: &Link,
        keys: &Keys,
        config: &ClusterConfig,
    ) -> Result<Option<Fence>, EtcdError> {
        let Some(mine) = *config.deployment.borrow() else { return Ok(None) };
        let key = keys.deployment();
        let entry = match recorded(link, &key).await? {
            Some(entry) => entry,
            None => {
                let first = [Fence::Created(key.clone(), 0)];
                // Another member may have been faster: the record says so.
                link.write(&first, &key, mine.to_string().into_bytes(), 0).await?;
                let gone = || EtcdError::Silent(format!("{key} was removed"));
                recorded(link, &key).await?.ok_or_else(gone)?
            }
        };
        let other = read(&entry).filter(|&recorded| recorded != mine);
        let foreign = other.map(|recorded| EtcdError::Foreign { base: config.base(), recorded, mine });
        self.note(foreign.as_ref().map(|error| error.to_error(link.config(), Duration::ZERO)));
        match foreign {
            Some(error) => Err(error),
            None => Ok(Some(Fence::Written(key, entry.mod_revision))),
        }
    }

    fn note(&self, why: Option<ClusterError>) {
        *self.slot() = why;
    }

    fn slot(&self) -> MutexGuard<'_, Option<ClusterError>> {
        self.0.lock().expect("nothing panics while it holds the reason")
    }
}

async fn recorded(link: &Link, key: &str) -> Result<Option<Entry>, EtcdError> {
    let (_, read) = link.read(&[Range::Key(key.to_owned())]).await?;
    Ok(read.into_iter().flatten().next())
}

/// The identity in a record; `None` if it cannot be read: then nobody is kept out.
pub(crate) fn read(entry: &Entry) -> Option<DeploymentId> {
    std::str::from_utf8(&entry.value).ok()?.parse().ok()
}
