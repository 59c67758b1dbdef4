//! Counters of a member's use of etcd, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: Counter,
    pub(crate) keep_alives: Counter,
    pub(crate) reconnects: Counter,
    pub(crate) relists: Counter,
    pub(crate) compacted: Counter,
    pub(crate) leases_granted: Counter,
    pub(crate) leases_lost: Counter,
    pub(crate) plans_published: Counter,
    pub(crate) plans_overtaken: Counter,
    pub(crate) degraded: Counter,
}

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

// === impl Counter ===

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Counters ===

impl Counters {
    pub(crate) fn snapshot(&self) -> ClusterStats {
        ClusterStats {
            requests: self.requests.get(),
            keep_alives: self.keep_alives.get(),
            reconnects: self.reconnects.get(),
            relists: self.relists.get(),
            compacted: self.compacted.get(),
            leases_granted: self.leases_granted.get(),
            leases_lost: self.leases_lost.get(),
            plans_published: self.plans_published.get(),
            plans_overtaken: self.plans_overtaken.get(),
            degraded: self.degraded.get(),
        }
    }
}
