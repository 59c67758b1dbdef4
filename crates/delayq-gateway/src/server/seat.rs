//! The place of a connection among those of a tenant.
//!
//! A connection has no tenant before the first request. Behind a proxy, tenants share a connection, which counts for the tenant of
//! the latest request.

use crate::problem::Problem;
use crate::quotas::TenantQuotas;
use crate::tenant::Tenant;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedSemaphorePermit;

/// Clones share the place. The end of the connection frees the place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat(Arc<Mutex<Option<(Tenant, OwnedSemaphorePermit)>>>);

// === impl Seat ===

impl Seat {
    /// # Errors
    /// Other connections of the tenant have every place.
    pub(crate) fn take(&self, quotas: &TenantQuotas, tenant: &Tenant) -> Result<(), Problem> {
        let mut seat = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seat.as_ref().is_none_or(|(known, _)| known != tenant) {
            *seat = Some((tenant.clone(), quotas.connection(tenant)?));
        }
        Ok(())
    }
}
