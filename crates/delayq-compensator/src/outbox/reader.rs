//! The outbox as a source: turns of the database, each with rows.

use super::config::OutboxConfig;
use super::row::OutboxRow;
use super::side_job::SideJob;
use super::store::{Books, Store, StoreError, TurnTaken};
use crate::outcome::Outcome;
use crate::source::{HandedOut, RecordContent, Source, SourceState, Want};
use crate::source_metrics::SourceMetrics;
use crate::writes::Write;
use async_trait::async_trait;
use delayq_service::Condition;
use prometheus_client::metrics::gauge::Gauge;
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::time::{sleep, sleep_until};

/// The shortest time between two reads of the books.
pub(super) const BOOKS_EVERY: Duration = Duration::from_secs(2);
/// Maximum characters of a reason, which has to fit into a column.
const REASON: usize = 1000;

/// The outbox of a database.
pub(super) struct Outbox {
    pub(super) config: OutboxConfig,
    pub(super) store: Box<dyn Store>,
    pub(super) condition: Condition,
    pub(super) metrics: SourceMetrics,
    /// 1 while a transaction keeps settled rows from being truncated.
    pub(super) truncation_held: Gauge,
    /// The time of the next look, if nothing waited the last time.
    pub(super) idle_until: Option<Instant>,
    /// A turn was settled since the side jobs were looked at.
    pub(super) has_settled: bool,
    /// The rows of the turn rest.
    pub(super) is_aside: bool,
    /// Number of rows that rest, by the last books and the turns since.
    pub(super) resting: u64,
    pub(super) books: Books,
    pub(super) rotation: SideJob,
    pub(super) books_job: SideJob,
}

#[async_trait]
impl Source for Outbox {
    /// A turn settles rows in order.
    type Key = ();

    async fn next(&mut self, want: Want, until: Instant) -> Result<Vec<HandedOut<()>>, String> {
        // Rows come first: a turn reports an unusable database.
        if std::mem::take(&mut self.has_settled) {
            self.side_jobs().await;
        }
        let is_time = match (want, self.idle_until) {
            (Want::Rested, _) | (Want::New, None) => true,
            (Want::New, Some(at)) if at <= until => {
                sleep_until(at.into()).await;
                true
            }
            _ => false,
        };
        if is_time {
            return self.turn(want == Want::Rested).await.map_err(|error| error.to_string());
        }
        sleep_until(until.into()).await;
        Ok(Vec::new())
    }

    async fn settle(&mut self, what: Vec<((), Outcome)>) -> Result<(), String> {
        let mut outcomes: Vec<Outcome> = what.into_iter().map(|((), outcome)| shortened(outcome)).collect();
        // Rows behind a row that is still to be carried out are read again with that row. Rows aside are each settled by
        // itself.
        if !self.is_aside {
            let is_settled = |outcome: &&Outcome| !matches!(outcome, Outcome::Hold(..) | Outcome::Untried);
            outcomes.truncate(outcomes.iter().take_while(is_settled).count());
            let rests = |outcome: &&Outcome| matches!(outcome, Outcome::Rest(..));
            self.resting += outcomes.iter().filter(rests).count() as u64;
        }
        self.store.settle(outcomes.clone()).await.map_err(|error| error.to_string())?;
        self.report(&outcomes);
        self.has_settled = true;
        Ok(())
    }

    fn seen(&self) -> SourceState {
        let Books { oldest, rejected, bytes, .. } = self.books;
        let oldest = oldest.unwrap_or_default();
        SourceState {
            rejected: Some(rejected),
            resting: self.resting,
            oldest,
            bytes: Some(bytes),
            ..SourceState::default()
        }
    }

    async fn close(&mut self) {
        self.store.leave().await;
    }
}

// === impl Outbox ===

impl Outbox {
    /// Takes the turn, with rows; none: there are none for now.
    async fn turn(&mut self, resting: bool) -> Result<Vec<HandedOut<()>>, StoreError> {
        self.is_aside = resting;
        let taken = self.take(resting).await?;
        if !resting {
            let is_idle = !matches!(taken, TurnTaken::Turn(_));
            self.idle_until = is_idle.then(|| Instant::now() + *self.config.poll_interval);
        }
        let TurnTaken::Turn(rows) = taken else {
            self.side_jobs().await;
            return Ok(Vec::new());
        };
        if rows.is_empty() {
            self.store.settle(Vec::new()).await?;
            if resting {
                self.resting = 0;
            }
        }
        Ok(rows.into_iter().map(|row| recorded(row, resting)).collect())
    }

    /// A window that is read for long is no reason to be ready meanwhile.
    async fn take(&mut self, resting: bool) -> Result<TurnTaken, StoreError> {
        let Self { store, condition, config, .. } = self;
        let limit = *config.deadline;
        let slow = async {
            sleep(limit).await;
            condition.unready(format!("reading the waiting rows took longer than {limit:?}"));
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            taken = store.take(resting) => taken,
            never = slow => match never {},
        }
    }

    /// Rotates the tables and reads the books, if due.
    async fn side_jobs(&mut self) {
        let began = Instant::now();
        if self.rotation.is_due(began) {
            let rotated = self.store.rotate().await;
            self.rotation.ended(began, Instant::now(), rotated);
        }
        let began = Instant::now();
        if self.books_job.is_due(began) {
            let books = self.store.books().await;
            if let Some(books) = self.books_job.ended(began, Instant::now(), books) {
                self.truncation_held.set(i64::from(books.held.is_some()));
                self.resting = books.resting;
                self.books = books;
            }
        }
    }

    /// Counts and logs rows that are set aside for good.
    fn report(&self, outcomes: &[Outcome]) {
        let reasons = outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Reject(reason) => Some(reason),
            _ => None,
        });
        let rejected: Vec<&String> = reasons.collect();
        self.metrics.settled("rejected").inc_by(rejected.len() as u64);
        if let Some(reason) = rejected.first() {
            tracing::error!(
                rejected = rejected.len(),
                reason,
                "rejected outbox rows and set them aside: see delayq outbox rejected"
            );
        }
    }
}

/// A row; `resting`: the row rested before, and may have been carried out.
fn recorded(row: OutboxRow, resting: bool) -> HandedOut<()> {
    let id = Some(row.id());
    let what = match row.is_behind {
        true => RecordContent::Behind,
        false => match row.record(delayq_service::host_now()) {
            Ok(record) => RecordContent::Write(Write { record, id, tried: None, is_first: !resting }),
            Err(reason) => RecordContent::Unfit(reason),
        },
    };
    HandedOut { key: (), what }
}

/// An outcome with a reason that fits into the column.
fn shortened(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Reject(reason) => Outcome::Reject(short(reason)),
        Outcome::Rest(fate, why) => Outcome::Rest(fate, short(why)),
        outcome => outcome,
    }
}

fn short(mut reason: String) -> String {
    if let Some((end, _)) = reason.char_indices().nth(REASON) {
        reason.truncate(end);
    }
    reason
}
