//! Building a compensator, which may fail, and running it, which only ends when asked to.

use crate::codes::SPOOL;
use crate::config::CompensatorConfig;
use crate::metrics::CompensatorMetrics;
use crate::replay::{Replayer, Report};
use crate::room::{ROOM_BYTES, Room};
use crate::wake::{Wake, wake};
use delayq_core::{Client, SpoolError, SpoolReader};
use delayq_service::{Condition, Fault, Metrics, Readiness, Shutdown};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the books are read at most: it costs a look at every waiting record's number.
const BOOKS_EVERY: Duration = Duration::from_secs(1);

/// What a compensator works with.
pub struct Deps {
    /// The deployment.
    pub client: Client,
    /// The folder of the spool.
    pub spool: PathBuf,
    /// How a second compensator is told who has the folder.
    pub holder: String,
    /// Where it registers its numbers.
    pub metrics: Metrics,
    /// Where it says whether it can replay, as the condition `compensator`.
    pub readiness: Readiness,
}

/// A compensator that is ready to run.
pub struct Compensator {
    config: CompensatorConfig,
    replayer: Replayer,
    metrics: CompensatorMetrics,
    condition: Condition,
    room: Room,
    /// There is no room kept: the spool is kept as small as can be.
    is_tight: bool,
    books_at: Option<Instant>,
}

/// Makes a compensator: takes the lease on the spool's folder, checks its file, and keeps room for its own work beside
/// it. Redis may be away.
///
/// # Errors
/// The folder cannot be used, another compensator has it, its file is none or damaged.
pub async fn build(config: CompensatorConfig, deps: Deps) -> Result<Compensator, Fault> {
    let Deps { client, spool, holder, metrics, readiness } = deps;
    let room = Room::of(&spool);
    let opened = tokio::task::spawn_blocking(move || SpoolReader::open(&spool, &holder)).await;
    let reader = opened.unwrap_or(Err(SpoolError::Closed)).map_err(unusable)?;
    let replayer = Replayer::new(reader, client, config.batch.into());
    let condition = readiness.condition("compensator");
    let metrics = CompensatorMetrics::register(&metrics);
    let mut compensator =
        Compensator { config, replayer, metrics, condition, room, is_tight: false, books_at: None };
    compensator.keep_room().await;
    Ok(compensator)
}

// === impl Compensator ===

impl Compensator {
    /// Replays until shutdown is asked for, and finishes the batch it is at.
    ///
    /// # Errors
    /// The spool cannot be used any more.
    pub async fn run(mut self, shutdown: Shutdown) -> Result<(), Fault> {
        self.condition.ready();
        let mut failures = 0;
        while !shutdown.is_requested() {
            let report = self.step().await?;
            failures = if report.held.is_some() { failures + 1 } else { 0 };
            self.tell(&report, failures).await?;
            let next = wake(&report, failures, *self.config.longest_rest);
            if let Some(result) = shutdown.or(self.wait(next)).await {
                result.map_err(unusable)?;
            }
        }
        Ok(())
    }

    /// One step of the replay, also where the disk is full.
    async fn step(&mut self) -> Result<Report, Fault> {
        loop {
            match self.replayer.run_once().await {
                Err(full @ SpoolError::DiskFull { .. }) => {
                    self.is_tight = true;
                    if !self.room.give() {
                        return Ok(Report { held: Some(full.to_string()), ..Report::default() });
                    }
                    tracing::warn!("{full}: what waits takes the room that was kept for it");
                }
                result => return result.map_err(unusable),
            }
            self.squeeze().await?;
        }
    }

    /// Takes the room, unless the disk has none to spare.
    async fn keep_room(&mut self) {
        let room = self.room.clone();
        let taken = tokio::task::spawn_blocking(move || room.take()).await;
        let result = taken.unwrap_or_else(|panicked| Err(std::io::Error::other(panicked)));
        if let (Err(error), false) = (&result, self.is_tight) {
            tracing::warn!(%error, bytes = ROOM_BYTES, "no room could be kept for the replay on a full disk");
        }
        self.is_tight = result.is_err();
    }

    /// Brings the spool's log into its file, and gives the disk back what both do not need.
    async fn squeeze(&self) -> Result<(), Fault> {
        match self.replayer.shrink().await {
            Err(SpoolError::DiskFull { .. }) => Ok(()),
            result => result.map_err(unusable),
        }
    }

    async fn wait(&self, next: Wake) -> Result<(), SpoolError> {
        match next {
            Wake::Now => {}
            Wake::Rest(rest) => tokio::time::sleep(rest).await,
            Wake::Change => {
                while !self.replayer.has_changed().await? {
                    tokio::time::sleep(*self.config.look).await;
                }
            }
        }
        Ok(())
    }

    async fn tell(&mut self, report: &Report, failures: u32) -> Result<(), Fault> {
        self.metrics.replayed.inc_by(report.replayed);
        self.metrics.rejected.inc_by(report.rejected);
        match (&report.held, failures) {
            (Some(why), 1) => {
                tracing::warn!(why, "what is spooled cannot be replayed now, and keeps its place");
                self.condition.unready(why.clone());
            }
            (Some(_), _) => {}
            (None, _) => self.condition.ready(),
        }
        self.metrics.held.inc_by(u64::from(report.held.is_some()));
        if report.replayed > 0 {
            tracing::info!(replayed = report.replayed, rejected = report.rejected, "replayed");
        }
        let idle = *report == Report::default();
        if self.is_tight || idle && self.books_at.is_some() {
            self.squeeze().await?;
        }
        if idle && self.is_tight {
            self.keep_room().await;
        }
        if idle || self.books_at.is_none_or(|at| at.elapsed() >= BOOKS_EVERY) {
            self.metrics.show(&self.replayer.stats().await.map_err(unusable)?);
            self.books_at = Some(Instant::now());
        }
        Ok(())
    }
}

fn unusable(error: SpoolError) -> Fault {
    Fault::new(&SPOOL, "the spool").because(error)
}
