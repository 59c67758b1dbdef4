//! The compensator of a spool: building it, which may fail, and running it until shutdown.

use crate::codes::SPOOL;
use crate::config::CompensatorConfig;
use crate::report::Report;
use crate::source::Want;
use crate::source_metrics::SourcesMetrics;
use crate::spool::Spool;
use crate::taking::{SourceLoop, Taking};
use crate::writes::Carrier;
use delayq::Client;
use delayq_service::{Fault, Readiness, Shutdown};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a compensator works with.
#[derive(Clone)]
pub struct Deps {
    /// The deployment.
    pub client: Client,
    /// The folder of the spool.
    pub spool: PathBuf,
    /// What a second compensator reports as the owner of the folder.
    pub holder: String,
    /// Where it registers its metrics.
    pub metrics: SourcesMetrics,
    /// Where it reports whether it can resubmit, as the condition `compensator`.
    pub readiness: Readiness,
}

/// A compensator that is ready to run.
pub struct Compensator(Box<Taking<Spool>>);

/// Creates a compensator: takes the lease on the spool's folder, checks its file, and reserves room for its own work. Redis
/// may be unavailable.
///
/// # Errors
/// The folder cannot be used, another compensator has it, or its file is missing or damaged.
pub async fn build(config: CompensatorConfig, deps: Deps) -> Result<Compensator, Fault> {
    let mut compensator = Compensator::unopened(config, deps);
    let opened = compensator.0.source.try_open().await;
    opened.map_err(|error| Fault::new(&SPOOL, "the spool").because(error)).map(|()| compensator)
}

// === impl Compensator ===

impl Compensator {
    /// One whose spool is opened while it runs: until it can be, it waits, and says so.
    pub(crate) fn unopened(config: CompensatorConfig, deps: Deps) -> Self {
        let Deps { client, spool, holder, metrics, readiness } = deps;
        let longest_rest = *config.longest_rest;
        let source = Spool::new(config, client.clone(), (spool, holder), &metrics);
        Self(Box::new(Taking {
            name: "spool".to_owned(),
            metrics: source.metrics().clone(),
            source,
            carrier: Carrier::new(client),
            condition: readiness.condition("compensator"),
            longest_rest,
            deadline: Duration::MAX,
            noted_within: Duration::ZERO,
            settled: VecDeque::new(),
            is_doubtful: false,
        }))
    }

    /// Resubmits until shutdown, and finishes the current batch.
    ///
    /// # Errors
    /// None: what cannot be used is tried again.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fault> {
        self.into_loop().run(shutdown).await
    }

    /// Resubmits one batch of those that rest, or of the others; of an empty spool after its poll interval. Do not drop it.
    ///
    /// # Errors
    /// The spool cannot be read or written; what was resubmitted is resubmitted again, which Redis recognises.
    pub async fn step(&mut self, rested: bool) -> Result<Report, String> {
        let want = if rested { Want::Rested } else { Want::New };
        self.0.step(want, Instant::now() + Duration::from_secs(3600)).await
    }

    pub(crate) fn into_loop(self) -> SourceLoop {
        SourceLoop(self.0)
    }
}
