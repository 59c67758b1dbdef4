//! The forwarder as a process of its own.

use crate::{
    config::{Config, Settings},
    forwarder::{Deps, Forwarder, build},
};
use delayq_service::{Fault, Process, Program, Service, Tasks, deployment::client};

/// `delayq-forwarder`.
pub struct ForwarderService(Forwarder);

// === impl ForwarderService ===

impl Service for ForwarderService {
    type Config = Config;

    const PROGRAM: Program = Program { name: "delayq-forwarder", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, process: &Process) -> Result<Self, Fault> {
        let client = client(&config.deployment, &config.redis)?;
        let deps = Deps {
            client,
            redis: config.redis.clone(),
            metrics: process.metrics.clone(),
            readiness: process.readiness.clone(),
        };
        let settings = Settings { places: process.places.clone(), ..config.settings() };
        build(settings, deps).await.map(Self)
    }

    fn run(self, tasks: &Tasks) {
        for (name, kind) in self.0.sinks() {
            tracing::info!(sink = name, kind, "delivering");
        }
        tasks.spawn("forwarder", self.0.run(tasks.shutdown().clone()));
    }
}
