//! Building a compensator, which may fail, and running it until shutdown.

use crate::codes::SPOOL;
use crate::config::CompensatorConfig;
use crate::metrics::SpoolMetrics;
use crate::redis_clock::RedisClock;
use crate::rests::back_off;
use crate::resubmit::{Report, Resubmitter};
use crate::room::{ROOM_BYTES, Room};
use crate::source_metrics::SourcesMetrics;
use crate::wake::{Wake, wake};
use delayq::Client;
use delayq::protocol::{Holder, Probe, ShardId};
use delayq_service::{Condition, Fault, Readiness, Shutdown};
use delayq_spool::{SpoolError, SpoolReader};
use std::future::Future;
use std::mem;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The shortest time between two reads of the books.
const BOOKS_EVERY: Duration = Duration::from_secs(1);

/// How long a step may take: what it resubmits is settled at its end, so until then nothing moves.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often Redis's clock is noted.
const CLOCK_EVERY: Duration = Duration::from_secs(60);

/// How often an idle Redis is asked whether it is still there.
const ASK_EVERY: Duration = Duration::from_secs(2);

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
pub struct Compensator {
    config: CompensatorConfig,
    client: Client,
    resubmitter: Resubmitter,
    metrics: SpoolMetrics,
    condition: Condition,
    room: Room,
    /// No room is reserved, so the spool is kept as small as possible.
    is_tight: bool,
    /// The folder has other files than those that are read.
    has_moved: bool,
    books_at: Option<Instant>,
    /// Passes over the spool in a row that ended with records that rest alone.
    passes: u32,
    /// When these are tried again.
    again_at: Option<Instant>,
}

/// Creates a compensator: takes the lease on the spool's folder, checks its file, and reserves room for its own work. Redis
/// may be unavailable.
///
/// # Errors
/// The folder cannot be used, another compensator has it, or its file is missing or damaged.
pub async fn build(config: CompensatorConfig, deps: Deps) -> Result<Compensator, Fault> {
    let Deps { client, spool, holder, metrics, readiness } = deps;
    let room = Room::of(&spool);
    let kept = room.clone();
    let opened = tokio::task::spawn_blocking(move || match SpoolReader::open(&spool, &holder) {
        // The index of its log is made again, in the room that an earlier process kept.
        Err(SpoolError::DiskFull { .. }) if kept.give() => SpoolReader::open(&spool, &holder),
        opened => opened,
    });
    let opened = opened.await;
    let reader = opened.unwrap_or(Err(SpoolError::Closed)).map_err(unusable)?;
    let batch = match config.rate {
        0 => config.batch.into(),
        rate => usize::from(config.batch).min(rate as usize),
    };
    let max_age = Some(*config.max_age).filter(|age| !age.is_zero());
    let resubmitter = Resubmitter::new(reader, client.clone(), batch).max_age(max_age);
    let condition = readiness.condition("compensator");
    let metrics = SpoolMetrics::register(&metrics);
    let mut compensator = Compensator {
        config,
        client,
        resubmitter,
        metrics,
        condition,
        room,
        is_tight: false,
        has_moved: false,
        books_at: None,
        passes: 0,
        again_at: None,
    };
    compensator.keep_room().await;
    Ok(compensator)
}

// === impl Compensator ===

impl Compensator {
    /// Resubmits until shutdown, and finishes the current batch.
    ///
    /// # Errors
    /// The spool can no longer be used.
    pub async fn run(mut self, shutdown: Shutdown) -> Result<(), Fault> {
        // It ends with this function.
        let mut beside = JoinSet::new();
        beside.spawn(stay_connected(self.client.clone()));
        beside.spawn(note_the_clock(self.resubmitter.clock()));
        self.condition.ready();
        let mut failures = 0;
        while !shutdown.is_requested() {
            self.try_again_in_time();
            let condition = self.condition.clone();
            let report = watched(&condition, self.step()).await?;
            failures = if report.held.is_some() { failures + 1 } else { 0 };
            self.report(&report, failures).await?;
            self.plan_pass(&report);
            let next = wake(&report, failures, *self.config.longest_rest, self.config.rate);
            if let Some(result) = shutdown.or(self.wait(next)).await {
                result.map_err(unusable)?;
            }
        }
        Ok(())
    }

    /// Plans the next try of what rests alone; the others go on meanwhile.
    fn plan_pass(&mut self, report: &Report) {
        if !report.at_end {
            return;
        }
        if report.resting == 0 {
            (self.passes, self.again_at) = (0, None);
        } else if self.again_at.is_none() {
            self.passes += 1;
            self.again_at = Some(Instant::now() + back_off(self.passes, *self.config.longest_rest));
            if self.passes == 1 {
                let why = self.resubmitter.resting().unwrap_or_default();
                tracing::warn!(records = report.resting, why, "spooled records rest alone, and are retried");
            }
        }
    }

    fn try_again_in_time(&mut self) {
        if self.again_at.is_some_and(|at| at <= Instant::now()) {
            self.again_at = None;
            self.resubmitter.try_again();
        }
    }

    /// One step, also on a full disk.
    async fn step(&mut self) -> Result<Report, Fault> {
        loop {
            match self.resubmitter.run_once().await {
                Err(full @ SpoolError::DiskFull { .. }) => {
                    self.is_tight = true;
                    if !self.room.give() {
                        return Ok(Report { held: Some(full.to_string()), ..Report::default() });
                    }
                    tracing::warn!("{full}: using the room that was reserved for it");
                }
                result => return result.map_err(unusable),
            }
            self.squeeze().await?;
        }
    }

    /// Reserves room, unless the disk has none to spare.
    async fn keep_room(&mut self) {
        let room = self.room.clone();
        let taken = tokio::task::spawn_blocking(move || room.take()).await;
        let result = taken.unwrap_or_else(|panicked| Err(std::io::Error::other(panicked)));
        if let (Err(error), false) = (&result, self.is_tight) {
            tracing::warn!(%error, bytes = ROOM_BYTES, "cannot reserve room for resubmitting on a full disk");
        }
        self.is_tight = result.is_err();
    }

    /// Merges the spool's log into its file, and returns unused space to the disk.
    async fn squeeze(&self) -> Result<(), Fault> {
        match self.resubmitter.shrink().await {
            Err(SpoolError::DiskFull { .. }) => Ok(()),
            result => result.map_err(unusable),
        }
    }

    async fn wait(&self, next: Wake) -> Result<(), SpoolError> {
        match next {
            Wake::Now => {}
            Wake::Rest(rest) => tokio::time::sleep(rest).await,
            Wake::Change => {
                while self.again_at.is_none_or(|at| at > Instant::now())
                    && !self.resubmitter.has_changed().await?
                {
                    tokio::time::sleep(*self.config.poll_interval).await;
                    if self.resubmitter.has_moved().await?.is_some() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Follows the folder where its files are others by now, but not before all is carried out that waits in those that are
    /// open: it was acknowledged, and no other process can read it.
    async fn follow_folder(&mut self, is_idle: bool) -> Result<(), Fault> {
        let Some(moved) = self.resubmitter.has_moved().await.map_err(unusable)? else {
            self.has_moved = false;
            return Ok(());
        };
        if !mem::replace(&mut self.has_moved, true) {
            tracing::error!("{moved}: what waits in the files that are open is carried out first");
        }
        match is_idle {
            true => match self.resubmitter.follow_folder().await {
                Ok(()) => tracing::info!("the spool is read from its folder again"),
                Err(error) => self.condition.unready(error.to_string()),
            },
            false => self.condition.unready(moved.to_string()),
        }
        Ok(())
    }

    async fn report(&mut self, report: &Report, failures: u32) -> Result<(), Fault> {
        self.metrics.count(report);
        match (&report.held, failures) {
            (Some(why), 1) => {
                tracing::warn!(why, "spooled records cannot be resubmitted now, and stay in order");
                self.condition.unready(why.clone());
            }
            (Some(_), _) => {}
            (None, _) => self.condition.ready(),
        }
        if report.resubmitted > 0 {
            tracing::info!(resubmitted = report.resubmitted, rejected = report.rejected, "resubmitted");
        }
        let idle = report.at_end && report.resting == 0;
        if self.is_tight || idle && self.books_at.is_some() {
            self.squeeze().await?;
        }
        if idle && self.is_tight {
            self.keep_room().await;
        }
        if idle || self.books_at.is_none_or(|at| at.elapsed() >= BOOKS_EVERY) {
            self.follow_folder(idle && report.held.is_none()).await?;
            self.metrics.show(&self.resubmitter.books().await.map_err(unusable)?);
            self.books_at = Some(Instant::now());
        }
        Ok(())
    }
}

/// Asks one shard of each Redis now and then whether it takes messages, so that a connection that has become silent is
/// replaced before a record needs it.
async fn stay_connected(client: Client) {
    let places = Holder::new(client.clone()).places();
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        let by_node = places.by_node(client.shards().shards(), |&shard| shard);
        let of_each: Vec<ShardId> = by_node.iter().map(|shards| shards[0]).collect();
        // What fails is replaced by the client itself.
        let _ = Probe::new(&client).takes_puts(&of_each).await;
    }
}

/// Notes Redis's clock from time to time, so that an outage across a reboot finds a note of the boot before.
async fn note_the_clock(clock: RedisClock) {
    loop {
        tokio::time::sleep(CLOCK_EVERY).await;
        clock.note().await;
    }
}

/// Waits for a step, and reports one that takes too long; the next report clears that.
async fn watched<T>(condition: &Condition, step: impl Future<Output = T>) -> T {
    let mut step = pin!(step);
    if let Ok(ended) = tokio::time::timeout(PATIENCE, &mut step).await {
        return ended;
    }
    tracing::error!("no spooled record has been settled for 2 s: not ready");
    condition.unready("no record has been settled for 2 s");
    step.await
}

fn unusable(error: SpoolError) -> Fault {
    Fault::new(&SPOOL, "the spool").because(error)
}
