//! Reading an outbox: turn after turn, until shutdown.

use super::carry::carry_out;
use super::config::OutboxConfig;
use super::metrics::OutboxMetrics;
use super::notices::Notices;
use super::row::Row;
use super::store::{Store, StoreError, Taken, Verdict};
use crate::wake::back_off;
use delayq::Producer;
use delayq_service::{Condition, Fault, Shutdown};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Longest rest between two tries while Redis or the database is unavailable.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// The shortest time between two reads of the books.
const BOOKS_EVERY: Duration = Duration::from_secs(2);

/// The outbox of a database, and the deployment that its rows are carried out in.
pub struct OutboxReader {
    pub(super) config: OutboxConfig,
    pub(super) store: Box<dyn Store>,
    pub(super) producer: Producer,
    pub(super) metrics: OutboxMetrics,
    pub(super) condition: Condition,
    pub(super) notices: Notices,
    /// What tells them, where producers notify.
    pub(super) listen: Option<Listen>,
    /// Turns in a row that were held up.
    pub(super) failures: u32,
    /// How often the rows that rest were tried in vain, and when they are tried again.
    pub(super) resting: Resting,
    pub(super) rotate_at: Instant,
    pub(super) books_at: Instant,
}

/// Listens for as long as it is polled.
pub(super) type Listen = Pin<Box<dyn Future<Output = Infallible> + Send>>;

struct AbortOnDrop(JoinHandle<Infallible>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Rows that rest.
#[derive(Debug, Default)]
pub(super) struct Resting {
    tries: u32,
    again_at: Option<Instant>,
}

/// How a turn ended.
enum Step {
    /// There may be more.
    More,
    /// Nothing waits, or another one reads it.
    Idle,
    /// Redis or the database cannot be used.
    Held(String),
}

// === impl OutboxReader ===

impl OutboxReader {
    /// Carries out rows until shutdown, and finishes the current batch.
    ///
    /// # Errors
    /// None at present: what cannot be used now is tried again.
    pub async fn run(mut self, shutdown: Shutdown) -> Result<(), Fault> {
        let listening = self.listen.take().map(|listen| AbortOnDrop(tokio::spawn(listen)));
        while !shutdown.is_requested() {
            let step = match self.step().await {
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
            };
            let _ = shutdown.or(tokio::time::timeout(rest, self.notices.next())).await;
        }
        self.store.leave().await;
        drop(listening);
        Ok(())
    }

    async fn step(&mut self) -> Result<Step, StoreError> {
        let now = Instant::now();
        if self.rotate_at <= now {
            self.rotate_at = now + (*self.config.rotate_every / 10).min(Duration::from_secs(10));
            self.store.rotate().await?;
        }
        if self.books_at <= now {
            self.books_at = now + BOOKS_EVERY;
            let books = self.store.books().await?;
            self.resting.plan(books.resting, now);
            self.metrics.show(&books);
        }
        let mut hurries = false;
        if self.resting.is_due(now)
            && let Taken::Turn(rows) = self.store.take(true).await?
        {
            let (step, done) = self.carry_out(rows).await?;
            if let Step::Held(_) = step {
                return Ok(step);
            }
            // What kept them seems to be over: the others do not wait for their next try.
            hurries = done;
            if hurries {
                self.resting.hurry(now);
            }
        }
        match self.store.take(false).await? {
            Taken::Turn(rows) => self.carry_out(rows).await.map(|(step, _)| step),
            _ if hurries => Ok(Step::More),
            Taken::Nothing | Taken::Busy => Ok(Step::Idle),
        }
    }

    /// Carries out rows, and settles what is done; whether any is.
    async fn carry_out(&mut self, rows: Vec<Row>) -> Result<(Step, bool), StoreError> {
        let limit = *self.config.deadline;
        let carrying = carry_out(&self.producer, rows);
        let Ok((verdicts, held)) = tokio::time::timeout(limit, carrying).await else {
            self.store.leave().await;
            return Ok((Step::Held(format!("a batch was not carried out within {limit:?}")), false));
        };
        let (mut rejected, mut first) = (0, None);
        for verdict in &verdicts {
            match verdict {
                Verdict::Rejected(reason) => {
                    rejected += 1;
                    first.get_or_insert(reason);
                }
                Verdict::Rests(_) => self.books_at = Instant::now(),
                Verdict::Done | Verdict::Untried => {}
            }
        }
        if let Some(reason) = first {
            tracing::error!(
                rejected,
                reason,
                "outbox rows are rejected and set aside: see delayq outbox rejected"
            );
        }
        self.store.settle(verdicts.clone()).await?;
        self.metrics.count(&verdicts);
        let done = verdicts.contains(&Verdict::Done);
        Ok((held.map_or(Step::More, Step::Held), done))
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
    /// Plans the next try, by how many rows rest.
    fn plan(&mut self, rows: u64, now: Instant) {
        if rows == 0 {
            *self = Self::default();
        } else if self.again_at.is_none() {
            self.tries += 1;
            self.again_at = Some(now + back_off(self.tries, LONGEST_REST));
            if self.tries == 1 {
                tracing::warn!(rows, "outbox rows rest alone, and are tried again");
            }
        }
    }

    /// Has them tried again at once.
    fn hurry(&mut self, now: Instant) {
        (self.tries, self.again_at) = (0, Some(now));
    }

    /// Whether to try them now; then a next try has to be planned.
    fn is_due(&mut self, now: Instant) -> bool {
        self.again_at.take_if(|at| *at <= now).is_some()
    }
}
