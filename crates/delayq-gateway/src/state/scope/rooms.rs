//! The room of a gateway that a request takes: bytes of memory, and a place to wait.

use super::Scope;
use crate::problem::{Kind, Problem};
use delayq::Fate;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Taken until dropped: of the tenant's part, and of the gateway's whole.
#[derive(Debug)]
pub(crate) struct Room {
    _of_tenant: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

// === impl Scope ===

impl Scope {
    /// Room for the bytes of a body.
    pub(crate) fn room(&self, bytes: usize) -> Result<Room, Problem> {
        let tenant = self.names.tenant();
        let of_tenant = tenant.map(|tenant| self.app.quotas().room(tenant, bytes)).transpose()?;
        let permits = u32::try_from(bytes).expect("a body is bounded");
        let of_all = Arc::clone(&self.app.room).try_acquire_many_owned(permits).map_err(|_| {
            let why = "no memory left for this body: other requests use it all";
            Problem::new(Kind::Full, why).fate(Fate::NotApplied)
        })?;
        Ok(Room { _of_tenant: of_tenant, _of_all: of_all })
    }

    /// A place for a reserve that waits.
    pub(crate) fn place(&self) -> Result<Room, Problem> {
        let tenant = self.names.tenant();
        let of_tenant = tenant.map(|tenant| self.app.quotas().place(tenant)).transpose()?;
        let full = || Problem::new(Kind::Full, "too many reserves are waiting").fate(Fate::NotApplied);
        let of_all = self.app.unscoped().dispatcher.place().ok_or_else(full)?;
        Ok(Room { _of_tenant: of_tenant, _of_all: of_all })
    }

    /// Longest time for a body.
    pub(crate) fn body_timeout(&self) -> Duration {
        self.app.body_timeout
    }
}
