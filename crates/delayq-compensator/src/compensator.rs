//! The compensator of a spool: building, which may fail, and running until shutdown.

use crate::codes::SPOOL;
use crate::config::CompensatorConfig;
use crate::report::Report;
use crate::source::Want;
use crate::source_metrics::SourcesMetrics;
use crate::spool::SpoolSource;
use crate::taking::{LoopTimes, SourceLoop, Taking};
use delayq::Client;
use delayq::protocol::MAX_PAYLOAD_BYTES;
use delayq_service::{Fault, Readiness, Shutdown};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The dependencies of a compensator.
#[derive(Clone)]
pub struct Deps {
    /// The deployment.
    pub client: Client,
    /// The folder of the spool.
    pub spool: PathBuf,
    /// The name of the folder's owner, as reported by a second compensator.
    pub holder: String,
    /// The registry of metrics.
    pub metrics: SourcesMetrics,
    /// The readiness, with the condition `spool`.
    pub readiness: Readiness,
}

/// A compensator that is ready to run.
pub struct Compensator(Box<Taking<SpoolSource>>);

/// Creates a compensator: takes the lease on the spool's folder, checks the file, and reserves room for resubmitting. Redis
/// may be unavailable.
///
/// # Errors
/// The folder cannot be used, another compensator has the lease, or the file is missing or damaged.
pub async fn build(config: CompensatorConfig, deps: Deps) -> Result<Compensator, Fault> {
    let mut compensator = Compensator::unopened(config, deps);
    let opened = compensator.0.source.try_open().await;
    opened.map_err(|error| Fault::new(&SPOOL, "the spool").because(error)).map(|()| compensator)
}

// === impl Compensator ===

impl Compensator {
    /// A compensator that opens the spool while running, and until then waits and reports why.
    pub(crate) fn unopened(config: CompensatorConfig, deps: Deps) -> Self {
        let Deps { client, spool, holder, metrics, readiness } = deps;
        let longest_rest = *config.longest_rest;
        let source = SpoolSource::new(config, client.clone(), (spool, holder), &metrics);
        let reports = (source.metrics().clone(), readiness.condition("spool"));
        // The producer of each record has checked its payload, perhaps by a limit above the default.
        let client = client.with_max_payload(MAX_PAYLOAD_BYTES);
        let limits = LoopTimes { longest_rest, deadline: Duration::MAX, noted_within: Duration::ZERO };
        Self(Box::new(Taking::new(source, client, reports, limits)))
    }

    /// Resubmits until shutdown, and finishes the current batch.
    ///
    /// # Errors
    /// None: an unusable Redis or spool is tried again.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fault> {
        self.into_loop().run(shutdown).await
    }

    /// Resubmits a batch of resting records, or of the others; if the spool is empty, after the poll interval. Do not drop
    /// the call.
    ///
    /// # Errors
    /// The spool cannot be read or written; resubmitted records are sent again, and Redis recognises the repeats.
    pub async fn step(&mut self, rested: bool) -> Result<Report, String> {
        let want = if rested { Want::Rested } else { Want::New };
        self.0.step(want, Instant::now() + Duration::from_secs(3600)).await
    }

    pub(crate) fn into_loop(self) -> SourceLoop {
        SourceLoop(self.0)
    }
}
