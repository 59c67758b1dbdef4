//! What every batch needs, from being asked for to being settled.

use crate::stats::Stats;
use delayq_core::Client;
use delayq_service::Shutdown;
use std::time::Duration;

/// What every batch needs.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) client: Client,
    pub(crate) lease: Duration,
    pub(crate) stats: Stats,
    /// When what is not delivered yet is given back.
    pub(crate) give_up: Shutdown,
}

// === impl Means ===

impl Means {
    pub(crate) fn new(client: Client, lease: Duration, stats: Stats) -> Self {
        Self { client, lease, stats, give_up: Shutdown::new() }
    }
}
