//! All that recorded writes come from in one process: each source is built and runs for itself.

use crate::compensator::{Compensator, Deps, build};
use crate::config::CompensatorConfig;
use crate::intake::{IntakeConfig, IntakeDeps, Intakes, build_intakes};
use crate::outbox::{OutboxConfig, OutboxDeps, build_outbox, outbox_reader};
use crate::source_metrics::SourcesMetrics;
use crate::taking::SourceLoop;
use delayq::Client;
use delayq_service::{Fault, Metrics, Readiness, Shutdown, Tasks};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How often a spool that cannot be opened is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

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
pub struct Sources {
    spool: Option<Spooled>,
    outbox: Option<SourceLoop>,
    intakes: Intakes,
    readiness: Readiness,
}

/// The compensator of a spool.
enum Spooled {
    Opened(Box<Compensator>),
    /// It cannot be opened for now, for this reason.
    Closed(Box<(Fault, CompensatorConfig, Deps)>),
}

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
        let intakes = build_intakes(&config.intake, &of_intakes)?;
        let spool = match config.spool {
            None => None,
            Some(spool) => {
                let (client, metrics, readiness) = (client.clone(), metrics.clone(), readiness.clone());
                let deps = Deps { client, spool, holder, metrics, readiness };
                Some(Spooled::open(config.compensator, deps, must_all).await?)
            }
        };
        let of_outbox = OutboxDeps { client, metrics, readiness: readiness.clone() };
        let outbox = match config.outbox.url {
            None => None,
            Some(_) if must_all => Some(build_outbox(config.outbox, of_outbox).await?),
            Some(_) => Some(outbox_reader(config.outbox, of_outbox)?),
        };
        Ok(Self { spool, outbox, intakes, readiness })
    }

    /// Starts them, each as a task of its own.
    pub fn run(self, tasks: &Tasks) {
        let shutdown = tasks.shutdown().clone();
        if let Some(spool) = self.spool {
            tasks.spawn("compensator", spool.run(self.readiness, shutdown.clone()));
        }
        if let Some(outbox) = self.outbox {
            tasks.spawn("outbox", outbox.run(shutdown));
        }
        self.intakes.run(tasks);
    }
}

// === impl Spooled ===

impl Spooled {
    async fn open(config: CompensatorConfig, deps: Deps, must: bool) -> Result<Self, Fault> {
        match build(config.clone(), deps.clone()).await {
            Ok(opened) => Ok(Self::Opened(Box::new(opened))),
            Err(fault) if must => Err(fault),
            Err(fault) => Ok(Self::Closed(Box::new((fault, config, deps)))),
        }
    }

    async fn run(self, readiness: Readiness, shutdown: Shutdown) -> Result<(), Fault> {
        let (mut fault, config, deps) = match self {
            Self::Opened(opened) => return opened.run(shutdown).await,
            Self::Closed(closed) => *closed,
        };
        tracing::error!(%fault, "the spool cannot be opened; what else is recorded is carried out");
        let condition = readiness.condition("compensator");
        loop {
            condition.unready(format!("the spool cannot be opened: {fault}"));
            if shutdown.or(tokio::time::sleep(TRY_AGAIN)).await.is_none() {
                return Ok(());
            }
            match build(config.clone(), deps.clone()).await {
                Ok(opened) => return opened.run(shutdown).await,
                Err(again) => fault = again,
            }
        }
    }
}
