//! Counters of a member's use of etcd, for metrics.

use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<ClusterStats>);

/// The counters at one moment; each only rises while the process lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterStats {
    /// Requests to etcd, keep-alives on their stream not counted.
    pub requests: u64,
    /// Keep-alives sent on their stream.
    pub keep_alives: u64,
    /// Connections given up.
    pub reconnects: u64,
    /// Times that the keys were read again because a watch ended.
    pub relists: u64,
    /// Watches that ended because their history was compacted.
    pub compacted: u64,
    /// Leases granted; more than one means that a lease was lost.
    pub leases_granted: u64,
    /// Leases that etcd reported as gone.
    pub leases_lost: u64,
    /// Plans written as leader.
    pub plans_published: u64,
    /// Plans refused because this member no longer led.
    pub plans_overtaken: u64,
    /// Times that the trusted time ran out without an answer.
    pub degraded: u64,
}

// === impl Counters ===

impl Counters {
    pub(crate) fn count(&self, event: impl FnOnce(&mut ClusterStats)) {
        event(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn snapshot(&self) -> ClusterStats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
