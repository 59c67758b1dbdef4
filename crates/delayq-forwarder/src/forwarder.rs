//! The forwarder: one loop that asks for all lanes, and a task for each ask and each batch in flight.
//!
//! ```text
//! ready channel, clock, ended tasks ─► hot shards ─► asks (reserve) ─► batches ─► encode, deliver, settle
//!                                          ▲                                             │
//!                                          └───────────── freed capacity ◄───────────────┘
//! ```
//! Messages that are not reserved stay in Redis. For each lane the loop tracks the shards that may have messages
//! (*hot*): the ready channel named the shard, or a reserve returned as many messages as allowed.

mod asking;
mod built;
mod judge;
mod lane_table;
mod polls;
mod run;
mod shared;
mod unrouted;

use crate::codes::SINK_UNUSABLE;
use crate::config::Settings;
use crate::destinations::{self, Checked, SinkTarget};
use crate::lane::NamedSink;
use crate::routes::Routes;
use crate::stats::Stats;
use built::Built;
use delayq::Client;
use delayq_service::config::RedisConfig;
use delayq_service::{Fault, Metrics, Readiness, Shutdown, Traces};
use run::Run;
use std::sync::Arc;
use std::time::Duration;

const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// The environment that a forwarder needs.
#[derive(Clone, Debug)]
pub struct Deps {
    /// The deployment.
    pub client: Client,
    /// The deployment's Redis, for sinks that deliver into the same Redis.
    pub redis: RedisConfig,
    /// The registry for the forwarder's metrics.
    pub metrics: Metrics,
    /// Receives the forwarder's readiness.
    pub readiness: Readiness,
    /// The exporter of message spans.
    pub traces: Traces,
}

/// A forwarder, built but not running.
pub struct Forwarder(Built);

/// Creates the sinks, resolves the routes and checks every known destination. Starts nothing.
///
/// # Errors
/// [`DESTINATION_REFUSED`](crate::codes::DESTINATION_REFUSED), [`SINK_UNUSABLE`], and
/// [`DESTINATION_UNREACHABLE`](crate::codes::DESTINATION_UNREACHABLE) unless the sink is not required.
pub async fn build(settings: Settings, deps: Deps) -> Result<Forwarder, Fault> {
    let sinks = destinations::make(&settings, &deps.redis)?;
    let routes = Routes::new(&settings).map_err(|message| Fault::new(&SINK_UNUSABLE, message))?;
    let Checked { fit, warnings, waiting } = destinations::check(&settings, &sinks, &routes).await?;
    for (SinkTarget { sink, destination }, warning) in warnings {
        tracing::warn!(sink, destination, "{warning}");
    }
    for (SinkTarget { sink, destination }, why) in waiting {
        tracing::warn!(sink, destination, why, "not available yet: messages wait");
    }
    let stats = Stats::new(&deps.metrics, deps.readiness.clone());
    routes.iter().for_each(|route| stats.expect(route));
    let condition = deps.readiness.condition("forwarder");
    let destinations = deps.readiness.condition("destinations");
    destinations.ready();
    Ok(Forwarder(Built {
        growth: deps.client.growth(),
        client: deps.client,
        settings,
        sinks,
        routes,
        checked: fit,
        stats,
        traces: deps.traces,
        condition,
        destinations,
        readiness: deps.readiness,
    }))
}

// === impl Forwarder ===

impl Forwarder {
    /// Names and kinds of the sinks, for an announcement.
    pub fn sinks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.sinks.iter().map(|(name, sink)| (name.as_str(), sink.kind))
    }

    /// Forwards until shutdown; then finishes deliveries in flight, releases all other messages, and closes the sinks.
    ///
    /// # Errors
    /// The deployment does not exist in this Redis.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fault> {
        let sinks: Vec<Arc<NamedSink>> = self.0.sinks.values().cloned().collect();
        let mut run = Run::new(self.0);
        let ended = run.until(&shutdown).await;
        run.drain().await;
        for to in sinks {
            match tokio::time::timeout(CLOSE_WITHIN, to.sink.close()).await {
                Ok(Ok(())) => {}
                Ok(Err(why)) => tracing::warn!(sink = to.name, why, "the sink did not close cleanly"),
                Err(_) => tracing::warn!(sink = to.name, "the sink did not close in time"),
            }
        }
        ended
    }
}
