//! The forwarder as a standalone process.

use crate::config::{Config, Settings};
use crate::forwarder::{Deps, Forwarder, build};
use delayq::admin::Role;
use delayq_service::deployment::client_of;
use delayq_service::traces::{self, Exporter};
use delayq_service::{Fault, Fitness, Process, Program, Service, Tasks, name_of_process};

/// `delayq-forwarder`.
pub struct ForwarderService {
    forwarder: Forwarder,
    fitness: Fitness,
    /// `None` without a collector.
    exporter: Option<Exporter>,
}

// === impl ForwarderService ===

impl Service for ForwarderService {
    type Config = Config;

    const PROGRAM: Program = Program { name: "delayq-forwarder", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, process: &Process) -> Result<Self, Fault> {
        let client = client_of(Role::Forwarder, &config.deployment, &config.redis)?;
        let fitness = Fitness::required(&client, &process.readiness).await?;
        let own = config.forwarder.name.clone();
        let name = if own.is_empty() { name_of_process() } else { own };
        let (traces, exporter) = traces::open(&config.traces, process, &name)?;
        let deps = Deps {
            client,
            redis: config.redis.clone(),
            metrics: process.metrics.clone(),
            readiness: process.readiness.clone(),
            traces,
        };
        let settings = Settings { locations: process.locations.clone(), ..config.settings() };
        let forwarder = build(settings, deps).await?;
        Ok(Self { forwarder, fitness, exporter })
    }

    fn run(self, tasks: &Tasks) {
        for (name, kind) in self.forwarder.sinks() {
            tracing::info!(sink = name, kind, "delivering");
        }
        if let Some(exporter) = self.exporter {
            tasks.spawn("traces", exporter.run());
        }
        tasks.spawn("fitness of Redis", self.fitness.watch(tasks.shutdown().clone()));
        tasks.spawn("forwarder", self.forwarder.run(tasks.shutdown().clone()));
    }
}
