//! A compensator in steps: the test decides when resting records are tried again.

use super::Host;
use delayq::Client;
use delayq_compensator::{Compensator, CompensatorConfig, Deps, SourcesMetrics, build};
use delayq_service::config::HumanDuration;
use delayq_service::{Metrics, Readiness};
use delayq_spool::{SpoolError, SpoolReader, SpoolStats};
use std::mem;
use std::path::{Path, PathBuf};

/// A compensator that acts on request alone.
pub(super) struct Resubmitter {
    compensator: Compensator,
    folder: PathBuf,
    is_time: bool,
    why: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) sent: u64,
    pub(super) resubmitted: u64,
    pub(super) rejected: u64,
    pub(super) held: Option<String>,
    pub(super) at_end: bool,
    pub(super) resting: u64,
}

// === impl Resubmitter ===

impl Resubmitter {
    pub(super) async fn new(folder: &Path, client: Client, batch: u16) -> Self {
        let deps = Deps {
            client,
            spool: folder.to_owned(),
            holder: "the test".to_owned(),
            metrics: SourcesMetrics::register(&Metrics::new()),
            readiness: Readiness::new(),
        };
        let poll_interval = HumanDuration::from_millis(10);
        let config = CompensatorConfig { batch, poll_interval, ..CompensatorConfig::default() };
        let compensator = build(config, deps).await.unwrap();
        Self { compensator, folder: folder.to_owned(), is_time: false, why: None }
    }

    pub(super) fn try_again(&mut self) {
        self.is_time = true;
    }

    pub(super) fn resting(&self) -> Option<&str> {
        self.why.as_deref()
    }

    pub(super) async fn stats(&self) -> Result<SpoolStats, SpoolError> {
        SpoolReader::open_beside(&self.folder)?.stats()
    }

    pub(super) async fn run_once(&mut self) -> Result<Report, String> {
        let mut report = Report::default();
        if mem::take(&mut self.is_time) {
            self.step(true, &mut report).await?;
        }
        if report.held.is_none() {
            self.step(false, &mut report).await?;
        }
        if report.at_end {
            report.resting = resting(&self.folder);
        }
        Ok(report)
    }

    async fn step(&mut self, rested: bool, report: &mut Report) -> Result<(), String> {
        let step = self.compensator.step(rested).await?;
        report.sent += step.sent;
        report.resubmitted += step.done;
        report.rejected += step.rejected;
        report.at_end = !rested && step.taken == 0;
        report.held = step.held;
        self.why = step.why.or(self.why.take());
        Ok(())
    }
}

// === impl Host ===

impl Host {
    pub(super) async fn resubmitter(&self) -> Resubmitter {
        Resubmitter::new(self.folder.path(), self.deployment.client.clone(), 500).await
    }
}

pub(super) fn resting(folder: &Path) -> u64 {
    let database = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
    database.query_row("SELECT count(*) FROM resting", [], |row| row.get(0)).unwrap()
}
