//! The loop of one intake: take records, carry them out, settle or bury them; wait while that cannot be done.
//!
//! What was carried out is settled at once, and the rest keeps its order: after an outage of Redis all of it is tried again
//! before anything else is taken. What only its own shard or topic holds up rests alone, with the later records of its
//! message, and the others go on, until as much rests as may be in flight.

use super::config::IntakeConfig;
use super::health::Health;
use super::metrics::IntakeMetrics;
use super::read::read;
use super::record::Record;
use super::source::{Arrived, Dead, Source};
use crate::outcome::Settle;
use crate::resting::Resting;
use crate::wake::back_off;
use crate::writes::{Write, carry_out, probe};
use async_trait::async_trait;
use delayq::{Fate, Producer, UnixMillis};
use delayq_service::{Fault, Shutdown, host_now};
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until};

/// How often the metrics are brought up to date while nothing happens.
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// Maximum bytes of records that wait for another try, exceeded by one call's.
const MOST_WAITING_BYTES: usize = 64 << 20;

/// One intake.
pub(crate) struct Intake<S: Source> {
    pub(super) name: String,
    pub(super) config: IntakeConfig,
    pub(super) source: S,
    pub(super) producer: Producer,
    pub(super) metrics: IntakeMetrics,
    pub(super) health: Health,
    pub(super) waiting: Waiting<S::Ticket>,
}

/// Records that wait for another try, the oldest first.
pub(super) struct Waiting<T> {
    items: Vec<Item<T>>,
    bytes: usize,
    resting: Resting,
    /// Redis cannot be used: nothing more is taken.
    is_held: bool,
    /// Tries in a row after which some were left.
    tries: u32,
    again_at: Option<Instant>,
}

/// A record and what it asks for.
struct Item<T> {
    write: Write,
    origin: Origin<T>,
}

/// A record as it was handed out.
struct Origin<T> {
    record: Record,
    ticket: T,
}

/// An intake, whatever it takes in from.
#[async_trait]
pub(crate) trait Takes: Send {
    /// Takes in until shutdown; what is under way is finished.
    async fn run(self: Box<Self>, shutdown: Shutdown) -> Result<(), Fault>;
}

// === impl Waiting ===

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        let (items, resting) = (Vec::new(), Resting::default());
        Self { items, bytes: 0, resting, is_held: false, tries: 0, again_at: None }
    }
}

impl<T> Waiting<T> {
    fn push(&mut self, item: Item<T>) {
        self.bytes += item.origin.record.bytes();
        self.items.push(item);
    }

    /// All of them, where it is time to try them again; nothing waits then.
    fn take_due(&mut self, now: Instant) -> Vec<Item<T>> {
        if self.again_at.is_some_and(|at| at > now) {
            return Vec::new();
        }
        (self.bytes, self.resting, self.again_at) = (0, Resting::default(), None);
        std::mem::take(&mut self.items)
    }

    /// Plans the next try; `is_held`: of everything. Whether it is the first one.
    fn plan(&mut self, is_held: bool, longest_rest: Duration, now: Instant) -> bool {
        if self.items.is_empty() {
            (self.is_held, self.tries, self.again_at) = (false, 0, None);
            return false;
        }
        if is_held || self.again_at.is_none() {
            self.tries += 1;
            self.again_at = Some(now + back_off(self.tries, longest_rest));
        }
        self.is_held = is_held;
        self.tries == 1
    }

    fn oldest(&self) -> Duration {
        self.items.first().map_or(Duration::ZERO, |item| host_now().since(item.write.record.tried_at))
    }
}

// === impl Intake ===

#[async_trait]
impl<S: Source> Takes for Intake<S> {
    async fn run(mut self: Box<Self>, shutdown: Shutdown) -> Result<(), Fault> {
        let mut failures = 0;
        while let Err(why) = self.serve(&shutdown, &mut failures).await {
            failures += 1;
            self.lost(&why);
            let rest = back_off(failures, *self.config.longest_rest);
            if shutdown.or(sleep(rest)).await.is_none() {
                break;
            }
        }
        self.source.close().await;
        Ok(())
    }
}

impl<S: Source> Intake<S> {
    /// Takes in over one connection, until shutdown or until it is of no use any more.
    async fn serve(&mut self, shutdown: &Shutdown, failures: &mut u32) -> Result<(), String> {
        match shutdown.or(self.source.open()).await {
            None => return Ok(()),
            Some(opened) => opened?,
        }
        self.metrics.connected(true);
        if self.health.set(&self.name, None) {
            tracing::info!(intake = self.name, "connected");
        }
        loop {
            let Some(arrived) = shutdown.or(self.wait()).await else { return Ok(()) };
            self.step(arrived?).await?;
            *failures = 0;
        }
    }

    /// Waits for records, or until it is time to try again those that wait: then there are none.
    async fn wait(&mut self) -> Result<Vec<Arrived<S::Ticket>>, String> {
        let Self { source, waiting, config, metrics, .. } = self;
        let mut shows = interval(SHOW_EVERY);
        shows.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let free = usize::from(config.in_flight).saturating_sub(waiting.items.len());
        let is_full = free == 0 || waiting.bytes >= MOST_WAITING_BYTES;
        let is_paused = waiting.is_held || is_full;
        metrics.paused(is_paused);
        loop {
            let again = async {
                match waiting.again_at {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let take = async {
                if is_paused {
                    let held: Vec<&S::Ticket> =
                        waiting.items.iter().map(|item| &item.origin.ticket).collect();
                    source.hold(&held).await.map(|()| Vec::new())
                } else {
                    source.next(free.min(config.batch.into())).await
                }
            };
            tokio::select! {
                biased;
                () = again => return Ok(Vec::new()),
                taken = take => return taken,
                _ = shows.tick() => {}
            }
            metrics.lag(source.lag());
            metrics.waiting(waiting.items.len(), waiting.oldest());
        }
    }

    async fn step(&mut self, arrived: Vec<Arrived<S::Ticket>>) -> Result<(), String> {
        let Self { source, waiting, .. } = self;
        let mut due = waiting.take_due(Instant::now());
        due.retain(|item| !source.is_lost(&item.origin.ticket));
        waiting.items.retain(|item| !source.is_lost(&item.origin.ticket));
        let (now, mut dead) = (host_now(), Vec::new());
        for Arrived { record, ticket } in arrived.into_iter().filter(|new| !source.is_lost(&new.ticket)) {
            let read = read(&record, self.config.topic.as_ref(), now);
            let origin = Origin { record, ticket };
            match read {
                Ok(record) => due.push(Item { write: Write { record, tried: None }, origin }),
                Err(reason) => dead.push((origin, reason)),
            }
        }
        self.metrics.unreadable.inc_by(dead.len() as u64);
        // In a box: the calls to Redis nest too deep for the compiler to lay all of it out in one.
        let done = Box::pin(self.carry_out(due, now, &mut dead)).await;
        self.settle(&done, &dead).await
    }

    /// Carries out what can be, and lets the others wait. Returns what is done, and adds what is rejected to the dead.
    async fn carry_out(
        &mut self,
        due: Vec<Item<S::Ticket>>,
        now: UnixMillis,
        dead: &mut Vec<(Origin<S::Ticket>, String)>,
    ) -> Vec<Origin<S::Ticket>> {
        if self.waiting.is_held
            && let Err(error) = probe(&self.producer).await
        {
            due.into_iter().for_each(|item| self.waiting.push(item));
            self.plan(Some(&error.to_string()));
            return Vec::new();
        }
        let (writes, origins): (Vec<_>, Vec<_>) =
            due.into_iter().map(|item| (item.write, item.origin)).unzip();
        let settled = carry_out(&self.producer, &mut self.waiting.resting, &writes).await;
        let (mut done, mut held) = (Vec::new(), None);
        let buried = dead.len();
        for ((mut write, origin), settle) in writes.into_iter().zip(origins).zip(settled) {
            match settle {
                Settle::Done => done.push(origin),
                Settle::Reject(reason) => dead.push((origin, reason)),
                Settle::Untried => self.waiting.push(Item { write, origin }),
                Settle::Hold(fate, _) | Settle::Rest(fate, _) => {
                    if fate == Fate::Unknown {
                        write.tried.get_or_insert(now);
                    }
                    if let Settle::Hold(_, why) = settle {
                        held.get_or_insert(why);
                    }
                    self.waiting.push(Item { write, origin });
                }
            }
        }
        let rejected = dead.len() - buried;
        self.metrics.done.inc_by(done.len() as u64);
        self.metrics.rejected.inc_by(rejected as u64);
        if done.is_empty() && rejected == 0 && held.is_none() && !self.waiting.items.is_empty() {
            held = probe(&self.producer).await.err().map(|error| error.to_string());
        }
        self.plan(held.as_deref());
        done
    }

    /// Plans the next try of what waits, and says why it does.
    fn plan(&mut self, held: Option<&str>) {
        let first = self.waiting.plan(held.is_some(), *self.config.longest_rest, Instant::now());
        let (intake, records) = (&self.name, self.waiting.items.len());
        self.metrics.held.inc_by(u64::from(held.is_some()));
        match (held, self.waiting.resting.why()) {
            (Some(why), _) if first => {
                tracing::warn!(intake, records, why, "records cannot be carried out now, and stay in order");
            }
            (None, Some(why)) if first => {
                tracing::warn!(intake, records, why, "records rest alone, and are tried again");
            }
            _ => {}
        }
        self.health.set(&self.name, held);
    }

    async fn settle(
        &mut self,
        done: &[Origin<S::Ticket>],
        dead: &[(Origin<S::Ticket>, String)],
    ) -> Result<(), String> {
        if !done.is_empty() {
            self.source.settle(&done.iter().map(|origin| &origin.ticket).collect::<Vec<_>>()).await?;
        }
        if dead.is_empty() {
            return Ok(());
        }
        let letters: Vec<_> = dead
            .iter()
            .map(|(Origin { record, ticket }, reason)| {
                tracing::error!(intake = self.name, origin = %ticket, reason, "a record goes to the dead destination");
                Dead { record, ticket, reason }
            })
            .collect();
        self.source.bury(&letters).await?;
        self.source.settle(&dead.iter().map(|(origin, _)| &origin.ticket).collect::<Vec<_>>()).await
    }

    /// The connection is gone, and with it what was taken over it: the broker hands it out again.
    fn lost(&mut self, why: &str) {
        self.waiting = Waiting::default();
        self.metrics.connected(false);
        self.metrics.waiting(0, Duration::ZERO);
        if self.health.set(&self.name, Some(why)) {
            tracing::warn!(intake = self.name, why, "the broker cannot be used: connecting again");
        }
    }
}
