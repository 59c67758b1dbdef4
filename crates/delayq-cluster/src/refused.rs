//! The reason why a member is kept out of its fleet.

use crate::error::ClusterError;
use std::sync::{Arc, Mutex, MutexGuard};

/// The reason why the fleet does not admit this member: the fleet belongs to another deployment. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Refused(Arc<Mutex<Option<ClusterError>>>);

// === impl Refused ===

impl Refused {
    pub(crate) fn why(&self) -> Option<ClusterError> {
        self.slot().clone()
    }

    pub(crate) fn note(&self, why: Option<ClusterError>) {
        *self.slot() = why;
    }

    fn slot(&self) -> MutexGuard<'_, Option<ClusterError>> {
        self.0.lock().expect("no code panics while holding the lock")
    }
}
