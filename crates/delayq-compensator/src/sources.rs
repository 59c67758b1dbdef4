//! All that recorded writes come from in one process: each source is built and runs for itself.

use crate::compensator::{Compensator, Deps, build};
use crate::config::CompensatorConfig;
use crate::intake::{IntakeConfig, IntakeDeps, build_intakes};
use crate::outbox::{OutboxConfig, OutboxDeps, build_outbox, outbox_reader};
use crate::source_metrics::SourcesMetrics;
use crate::taking::SourceLoop;
use delayq::Client;
use delayq_service::{Fault, Metrics, Readiness, Tasks};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Which sources there are.
pub struct SourcesConfig {
    /// The folder of the spool; `None`: there is none.
    pub spool: Option<PathBuf>,
    /// How it is resubmitted.
    pub compensator: CompensatorConfig,
    /// The outbox; without a URL there is none.
    pub outbox: OutboxConfig,
    /// The intakes by their names.
    pub intake: BTreeMap<String, IntakeConfig>,
}

/// What sources work with.
pub struct SourcesDeps {
    /// The deployment.
    pub client: Client,
    /// What a second compensator reports as the owner of the spool.
    pub holder: String,
    /// Where they register their metrics.
    pub metrics: Metrics,
    /// Where each reports its condition.
    pub readiness: Readiness,
}

/// Sources that are ready to run. One that cannot be used for now is tried again, and the process is not ready meanwhile.
pub struct Sources(Vec<SourceLoop>);

// === impl SourcesConfig ===

impl SourcesConfig {
    /// How many sources there are.
    pub fn count(&self) -> usize {
        self.intake.len() + usize::from(self.spool.is_some()) + usize::from(self.outbox.url.is_some())
    }
}

// === impl Sources ===

impl Sources {
    /// Creates them. Brokers, the database and Redis may be unavailable.
    ///
    /// # Errors
    /// Settings that cannot be used; with `must_all`, also a source that cannot be.
    pub async fn build(config: SourcesConfig, deps: SourcesDeps, must_all: bool) -> Result<Self, Fault> {
        let SourcesDeps { client, holder, metrics, readiness } = deps;
        let metrics = SourcesMetrics::register(&metrics);
        let of_intakes =
            IntakeDeps { client: client.clone(), metrics: metrics.clone(), readiness: readiness.clone() };
        let mut loops = build_intakes(&config.intake, &of_intakes)?;
        if let Some(spool) = config.spool {
            let (client, metrics, readiness) = (client.clone(), metrics.clone(), readiness.clone());
            let deps = Deps { client, spool, holder, metrics, readiness };
            let compensator = match must_all {
                true => build(config.compensator, deps).await?,
                false => Compensator::unopened(config.compensator, deps),
            };
            loops.push(compensator.into_loop());
        }
        if config.outbox.url.is_some() {
            let deps = OutboxDeps { client, metrics, readiness };
            loops.push(match must_all {
                true => build_outbox(config.outbox, deps).await?,
                false => outbox_reader(config.outbox, deps)?,
            });
        }
        Ok(Self(loops))
    }

    /// Starts them, each as a task of its own.
    pub fn run(self, tasks: &Tasks) {
        for source in self.0 {
            tasks.spawn(source.name().to_owned(), source.run(tasks.shutdown().clone()));
        }
    }
}
