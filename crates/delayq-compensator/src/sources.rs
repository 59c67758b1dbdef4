//! All sources of recorded writes in a process, each built and run separately.

use crate::compensator::{Compensator, Deps, build};
use crate::config::CompensatorConfig;
use crate::intake::{IntakeConfig, build_intakes};
use crate::outbox::{OutboxConfig, build_outbox, outbox_reader};
use crate::source_metrics::SourcesMetrics;
use crate::taking::{SourceDeps, SourceLoop};
use delayq::Client;
use delayq_service::{Fault, Metrics, Readiness, Tasks};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The configured sources.
pub struct SourcesConfig {
    /// The folder of the spool; `None`: there is none.
    pub spool: Option<PathBuf>,
    /// The settings of resubmitting.
    pub compensator: CompensatorConfig,
    /// The outbox; without a URL there is none.
    pub outbox: OutboxConfig,
    /// The intakes by name.
    pub intake: BTreeMap<String, IntakeConfig>,
}

/// The dependencies of sources.
pub struct SourcesDeps {
    /// The deployment.
    pub client: Client,
    /// The name of the spool's owner, as reported by a second compensator.
    pub holder: String,
    /// The registry of metrics.
    pub metrics: Metrics,
    /// The readiness, with a condition for each source.
    pub readiness: Readiness,
}

/// Sources that are ready to run. An unusable source is tried again, and the process is not ready meanwhile.
pub struct Sources(Vec<SourceLoop>);

// === impl SourcesConfig ===

impl SourcesConfig {
    /// Number of sources.
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
        let of_each =
            SourceDeps { client: client.clone(), metrics: metrics.clone(), readiness: readiness.clone() };
        let mut loops = build_intakes(&config.intake, &of_each)?;
        if let Some(spool) = config.spool {
            let deps = Deps { client, spool, holder, metrics, readiness };
            let compensator = match must_all {
                true => build(config.compensator, deps).await?,
                false => Compensator::unopened(config.compensator, deps),
            };
            loops.push(compensator.into_loop());
        }
        if config.outbox.url.is_some() {
            loops.push(match must_all {
                true => build_outbox(config.outbox, of_each).await?,
                false => outbox_reader(config.outbox, of_each)?,
            });
        }
        Ok(Self(loops))
    }

    /// Starts all sources, each as a separate task.
    pub fn run(self, tasks: &Tasks) {
        for source in self.0 {
            tasks.spawn(source.name().to_owned(), source.run(tasks.shutdown().clone()));
        }
    }
}
