//! The parts of a forwarder that is built and not running.

use crate::config::Settings;
use crate::destinations::SinkTarget;
use crate::lane::NamedSink;
use crate::routes::Routes;
use crate::stats::Stats;
use delayq::Client;
use delayq::protocol::Growth;
use delayq_service::{Condition, Readiness, Traces};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The parts of a forwarder that is built and not running.
pub(super) struct Built {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) sinks: BTreeMap<String, Arc<NamedSink>>,
    pub(super) routes: Routes,
    pub(super) checked: BTreeSet<SinkTarget>,
    pub(super) stats: Stats,
    pub(super) traces: Traces,
    pub(super) condition: Condition,
    /// False while a brake keeps a destination at rest.
    pub(super) destinations: Condition,
    /// Reports whether ready messages move, and that the loop is alive.
    pub(super) readiness: Readiness,
    pub(super) growth: Growth,
}
