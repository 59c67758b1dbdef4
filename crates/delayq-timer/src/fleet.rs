//! This timer's view of the fleet: its planned shards, the trust in etcd, the number of timers.

use crate::events;
use crate::metrics::TimerMetrics;
use delayq_cluster::{ClusterStats, Handle, OwnershipView, Trust};
use std::sync::Arc;
use tokio::sync::watch;

pub(crate) struct Fleet {
    handle: Handle,
    /// `None` once this timer has left.
    views: Option<watch::Receiver<Arc<OwnershipView>>>,
    trust: Option<Trust>,
    /// True while an operator keeps this timer without shards.
    drained: bool,
    counted: ClusterStats,
}

// === impl Fleet ===

impl Fleet {
    pub(crate) fn new(handle: Handle) -> Self {
        let mut views = handle.subscribe();
        views.mark_changed();
        Self { handle, views: Some(views), trust: None, drained: false, counted: ClusterStats::default() }
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Once the timer has left, an empty view, and then nothing. Cancel safe.
    pub(crate) async fn next(&mut self) -> Arc<OwnershipView> {
        let Some(views) = &mut self.views else { return std::future::pending().await };
        match views.changed().await {
            Ok(()) => views.borrow_and_update().clone(),
            Err(_) => {
                self.views = None;
                Arc::new(OwnershipView { trust: Trust::Left, ..OwnershipView::default() })
            }
        }
    }

    pub(crate) fn trust(&mut self, trust: Trust, metrics: &TimerMetrics) {
        if self.trust.as_ref().is_none_or(|before| before.name() != trust.name()) {
            events::trust_changed(metrics, trust);
            self.trust = Some(trust);
        }
    }

    pub(crate) fn show_drain(&mut self, metrics: &TimerMetrics) {
        let drained = self.handle.view().drained;
        if std::mem::replace(&mut self.drained, drained) != drained {
            events::drain_changed(metrics, drained);
        }
    }

    /// Returns true if no plan replaces a timer that ends: etcd is silent, or takes no writes.
    pub(crate) fn is_unled(&self) -> bool {
        !matches!(self.trust, Some(Trust::Trusted { .. })) || self.handle.refusal().is_some()
    }

    /// Seconds for which the lease is trusted without another answer: 0 without a lease, infinite without etcd.
    pub(crate) fn lease_margin(&self) -> f64 {
        let now = tokio::time::Instant::now();
        match self.handle.trust() {
            Trust::Trusted { until: None } | Trust::Draining { until: None } => f64::INFINITY,
            Trust::Trusted { until: Some(until) } | Trust::Draining { until: Some(until) } => {
                until.saturating_duration_since(now).as_secs_f64()
            }
            Trust::Joining | Trust::Degraded { .. } | Trust::Lost { .. } | Trust::Left => 0.0,
        }
    }

    /// The number of other timers in the plan; without a plan, an estimate from this timer's share of the shards.
    pub(crate) fn others(&self, given: usize, shards: usize) -> usize {
        match (self.handle.view().members, given) {
            (0, 0) => 1,
            (0, given) => shards.div_ceil(given) - 1,
            (members, 0) => members,
            (members, _) => members - 1,
        }
    }

    pub(crate) fn count(&mut self, metrics: &TimerMetrics) {
        let stats = self.handle.stats();
        metrics.etcd(&self.counted, &stats);
        self.counted = stats;
    }
}
