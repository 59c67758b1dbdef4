//! Reading an outbox: turn after turn, until shutdown.

use super::carry::{Carried, carry_out};
use super::config::OutboxConfig;
use super::metrics::OutboxMetrics;
use super::notices::Notices;
use super::row::Row;
use super::side_job::SideJob;
use super::store::{Store, StoreError, Taken, Verdict};
use crate::wake::back_off;
use crate::writes::Carrier;
use delayq_service::{Condition, Fault, Shutdown};
use futures_util::FutureExt as _;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Longest rest between two tries while Redis or the database is unavailable, and between two looks for rows that rest.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// The shortest time between two reads of the books.
pub(super) const BOOKS_EVERY: Duration = Duration::from_secs(2);

/// The outbox of a database, and the deployment that its rows are carried out in.
pub struct OutboxReader {
    pub(super) config: OutboxConfig,
    pub(super) store: Box<dyn Store>,
    pub(super) carrier: Carrier,
    pub(super) metrics: OutboxMetrics,
    pub(super) condition: Condition,
    pub(super) notices: Notices,
    /// What tells them, where producers notify.
    pub(super) listen: Option<Listen>,
    /// Turns in a row that were held up.
    pub(super) failures: u32,
    /// How often the rows that rest were tried in vain, and when they are tried again.
    pub(super) resting: Resting,
    pub(super) rotation: SideJob,
    pub(super) books: SideJob,
}

/// Listens for as long as it is polled.
pub(super) type Listen = Pin<Box<dyn Future<Output = Infallible> + Send>>;

struct AbortOnDrop(JoinHandle<Infallible>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Rows that rest, or may: another process, or an operator, lets rows rest too.
#[derive(Debug)]
pub(super) struct Resting {
    tries: u32,
    again_at: Instant,
    /// It was logged that there are some.
    is_known: bool,
}

/// How a turn ended.
enum Step {
    /// There may be more.
    More,
    /// Nothing waits, or another one reads it.
    Idle,
    /// Redis or the database cannot be used.
    Held(String),
    /// This process is to end.
    Over,
}

// === impl OutboxReader ===

impl OutboxReader {
    /// Carries out rows until shutdown, and finishes the current batch.
    ///
    /// # Errors
    /// None: what cannot be used is tried again, tables that do not fit any more included, for a restore may bring them
    /// back.
    pub async fn run(mut self, shutdown: Shutdown) -> Result<(), Fault> {
        let listening = self.listen.take().map(|listen| AbortOnDrop(tokio::spawn(listen)));
        while !shutdown.is_requested() {
            let step = match self.step(&shutdown).await {
                Ok(step) => step,
                Err(error) => Step::Held(error.to_string()),
            };
            let rest = match step {
                Step::More => {
                    self.is_well();
                    continue;
                }
                Step::Idle => {
                    self.is_well();
                    *self.config.poll_interval
                }
                Step::Held(why) => self.hold(why),
                Step::Over => break,
            };
            let _ = shutdown.or(tokio::time::timeout(rest, self.notices.next())).await;
        }
        self.store.leave().await;
        drop(listening);
        Ok(())
    }

    /// Rows come first: a database that cannot be used is reported by them.
    async fn step(&mut self, shutdown: &Shutdown) -> Result<Step, StoreError> {
        let step = self.rows(shutdown).await?;
        if !shutdown.is_requested() {
            self.side_jobs().await;
        }
        Ok(step)
    }

    async fn rows(&mut self, shutdown: &Shutdown) -> Result<Step, StoreError> {
        let mut hurries = false;
        if self.resting.is_due(Instant::now()) {
            match self.take(true, shutdown).await? {
                None => return Ok(Step::Over),
                Some(Taken::Turn(rows)) => {
                    if rows.is_empty() {
                        self.resting = Resting::none(Instant::now());
                    }
                    let (step, done) = self.carry_out(rows, true).await?;
                    if let Step::Held(_) = step {
                        return Ok(step);
                    }
                    // What kept them seems to be over: the others do not wait for their next try.
                    hurries = done;
                    if hurries {
                        self.resting.hurry(Instant::now());
                    }
                }
                Some(Taken::Nothing | Taken::Busy) => {}
            }
        }
        match self.take(false, shutdown).await? {
            None => Ok(Step::Over),
            Some(Taken::Turn(rows)) => self.carry_out(rows, false).await.map(|(step, _)| step),
            Some(_) if hurries => Ok(Step::More),
            Some(Taken::Nothing | Taken::Busy) => Ok(Step::Idle),
        }
    }

    /// Takes the turn; `None`: this process is to end. A window that is read for long is no reason to be ready meanwhile.
    async fn take(&mut self, resting: bool, shutdown: &Shutdown) -> Result<Option<Taken>, StoreError> {
        let Self { store, condition, config, .. } = self;
        let limit = *config.deadline;
        let slow = async {
            tokio::time::sleep(limit).await;
            condition.unready(format!("the rows that wait have been read for longer than {limit:?}"));
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            taken = shutdown.or(store.take(resting)) => taken.transpose(),
            never = slow => match never {},
        }
    }

    /// Rotates the tables and reads the books, if it is time.
    async fn side_jobs(&mut self) {
        let began = Instant::now();
        if self.rotation.is_due(began) {
            let rotated = self.store.rotate().await;
            self.rotation.ended(began, Instant::now(), rotated);
        }
        let began = Instant::now();
        if self.books.is_due(began) {
            let books = self.store.books().await;
            if let Some(books) = self.books.ended(began, Instant::now(), books) {
                self.resting.note(books.resting, Instant::now());
                self.metrics.show(&books);
            }
        }
    }

    /// Carries out rows, and settles what is done; whether any is.
    async fn carry_out(&mut self, rows: Vec<Row>, resting: bool) -> Result<(Step, bool), StoreError> {
        let limit = *self.config.deadline;
        // In a box: the calls to Redis nest too deep for the compiler to see whether all of it may be sent.
        let carrying = carry_out(&mut self.carrier, rows, resting).boxed();
        let Ok(Carried { mut verdicts, held, records }) = tokio::time::timeout(limit, carrying).await else {
            self.store.leave().await;
            return Ok((Step::Held(format!("a batch was not carried out within {limit:?}")), false));
        };
        // What follows a row that is still to be carried out is read again with it. Rows aside are each settled by itself.
        if !resting {
            let settled = verdicts.iter().take_while(|verdict| **verdict != Verdict::Untried).count();
            verdicts.truncate(settled);
        }
        self.store.settle(verdicts.clone()).await?;
        let is_over = |verdict: &Verdict| matches!(verdict, Verdict::Done | Verdict::Rejected(_));
        let over = verdicts.iter().zip(records).filter(|(verdict, _)| is_over(verdict));
        let over: Vec<_> = over.filter_map(|(_, record)| record).collect();
        self.carrier.settled(&over).await;
        self.report(&verdicts);
        Ok((held.map_or(Step::More, Step::Held), verdicts.contains(&Verdict::Done)))
    }

    /// Counts and logs what became of rows.
    fn report(&mut self, verdicts: &[Verdict]) {
        self.metrics.count(verdicts);
        let mut rejected = Vec::new();
        let mut resting = 0;
        for verdict in verdicts {
            match verdict {
                Verdict::Rejected(reason) => rejected.push(reason),
                Verdict::Rests(_) => resting += 1,
                Verdict::Done | Verdict::Untried => {}
            }
        }
        if let Some(reason) = rejected.first() {
            tracing::error!(
                rejected = rejected.len(),
                reason,
                "outbox rows are rejected and set aside: see delayq outbox rejected"
            );
        }
        if resting > 0 {
            self.resting.note(resting, Instant::now());
        }
    }

    fn is_well(&mut self) {
        self.failures = 0;
        self.condition.ready();
    }

    /// Reports what holds the rows up, and how long to rest.
    fn hold(&mut self, why: String) -> Duration {
        self.failures += 1;
        self.metrics.hold();
        if self.failures == 1 {
            tracing::warn!(why, "outbox rows cannot be carried out now, and stay in order");
        }
        self.condition.unready(why);
        back_off(self.failures, LONGEST_REST)
    }
}

// === impl Resting ===

impl Resting {
    /// Due at once: rows may rest since before this process.
    pub(super) fn new() -> Self {
        Self { tries: 0, again_at: Instant::now(), is_known: false }
    }

    fn none(now: Instant) -> Self {
        Self { tries: 0, again_at: now + LONGEST_REST, is_known: false }
    }

    /// So many rows rest.
    fn note(&mut self, rows: u64, now: Instant) {
        if rows == 0 {
            // What is due stays so.
            let again_at = self.again_at.min(now + LONGEST_REST);
            *self = Self { again_at, ..Self::none(now) };
        } else if !std::mem::replace(&mut self.is_known, true) {
            tracing::warn!(rows, "outbox rows rest alone, and are tried again");
            self.plan(now);
        }
    }

    /// Has them tried again at once.
    fn hurry(&mut self, now: Instant) {
        (self.tries, self.again_at) = (0, now);
    }

    /// Whether to try them now; the next try is planned then.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.again_at <= now;
        if is_due {
            self.plan(now);
        }
        is_due
    }

    fn plan(&mut self, now: Instant) {
        self.tries += 1;
        let rest = if self.is_known { back_off(self.tries, LONGEST_REST) } else { LONGEST_REST };
        self.again_at = now + rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_another_process_lets_rest_are_looked_for_whatever_is_known() {
        let mut resting = Resting::new();
        let now = Instant::now();
        assert!(resting.is_due(now), "at the start");
        // The books say so each time they are read.
        resting.note(0, now);
        resting.note(0, now + LONGEST_REST / 2);
        assert!(!resting.is_due(now) && resting.is_due(now + LONGEST_REST));
        resting.note(1, now + LONGEST_REST);
        assert!(
            resting.is_due(now + LONGEST_REST + LONGEST_REST / 2),
            "they are tried sooner once they are known"
        );
    }
}
