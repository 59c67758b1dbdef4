//! The forwarder: one loop that asks for all lanes, and a task for each ask and each batch under way.
//!
//! ```text
//! ready channel, clock, ended tasks ─► hot shards ─► asks (reserve) ─► batches ─► encode, deliver, settle
//!                                          ▲                                             │
//!                                          └───────────── room is free again ◄───────────┘
//! ```
//! What is not reserved stays in Redis. For each lane the loop keeps which shards may have messages for it (*hot*): the ready
//! channel named them, or a reserve brought as much as it was allowed to.

mod asking;
mod board;
mod judge;
mod polls;
mod refused;
mod run;
mod unrouted;

use crate::codes::SINK_UNUSABLE;
use crate::config::Settings;
use crate::destinations::{self, Checked, Target};
use crate::lane::NamedSink;
use crate::routes::Routes;
use crate::stats::Stats;
use delayq::Client;
use delayq::protocol::Growth;
use delayq_service::config::RedisConfig;
use delayq_service::{Condition, Fault, Metrics, Readiness, Shutdown, Traces};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long the closing of one sink may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// What a forwarder needs from the process around it.
#[derive(Clone, Debug)]
pub struct Deps {
    /// The deployment.
    pub client: Client,
    /// Its Redis, for sinks that deliver into the same one.
    pub redis: RedisConfig,
    /// Where to register what is counted.
    pub metrics: Metrics,
    /// Where to report whether it can work.
    pub readiness: Readiness,
    /// Where the spans of its messages go.
    pub traces: Traces,
}

/// A forwarder that has been built and not yet run.
pub struct Forwarder {
    client: Client,
    settings: Settings,
    sinks: BTreeMap<String, Arc<NamedSink>>,
    routes: Routes,
    /// Destinations that were checked.
    checked: BTreeSet<Target>,
    stats: Stats,
    traces: Traces,
    condition: Condition,
    /// Whether no destination rests because it rejects message after message.
    destinations: Condition,
    /// Where to report whether ready messages move, and that the loop is alive.
    readiness: Readiness,
    growth: Growth,
}

/// Makes a forwarder: creates the sinks, resolves the routes and checks every known destination. Starts nothing.
///
/// # Errors
/// [`DESTINATION_REFUSED`](crate::codes::DESTINATION_REFUSED), [`SINK_UNUSABLE`], and
/// [`DESTINATION_UNREACHABLE`](crate::codes::DESTINATION_UNREACHABLE) unless the sink is not required.
pub async fn build(settings: Settings, deps: Deps) -> Result<Forwarder, Fault> {
    let sinks = destinations::make(&settings, &deps.redis)?;
    let routes = Routes::new(&settings).map_err(|message| Fault::new(&SINK_UNUSABLE, message))?;
    let Checked { fit, warnings, waiting } = destinations::check(&settings, &sinks, &routes).await?;
    for (Target { sink, destination }, warning) in warnings {
        tracing::warn!(sink, destination, "{warning}");
    }
    for (Target { sink, destination }, why) in waiting {
        tracing::warn!(sink, destination, why, "not available yet: its messages wait");
    }
    let stats = Stats::new(&deps.metrics);
    routes.classes().for_each(|(sink, class)| stats.expect(sink, class));
    let condition = deps.readiness.condition("forwarder");
    let destinations = deps.readiness.condition("destinations");
    destinations.ready();
    Ok(Forwarder {
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
    })
}

// === impl Forwarder ===

impl Forwarder {
    /// The sinks' names and kinds, for an announcement.
    pub fn sinks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sinks.iter().map(|(name, sink)| (name.as_str(), sink.kind))
    }

    /// Forwards until shutdown; then finishes what the sinks have begun, gives back the rest, and closes the sinks.
    ///
    /// # Errors
    /// The deployment does not exist in this Redis.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fault> {
        let sinks: Vec<Arc<NamedSink>> = self.sinks.values().cloned().collect();
        let mut run = run::Run::new(self);
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
