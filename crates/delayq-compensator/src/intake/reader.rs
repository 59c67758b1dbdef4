//! An intake as a source: the records of a broker, which are settled there or go to the dead destination.
//!
//! Records that cannot be carried out yet are kept here, unsettled, up to the limit in flight. Records that the dead
//! destination does not accept wait too, over the same connection: a new connection would hand out finished records again.

use super::broker::{Arrived, Broker, Dead, Lost};
use super::config::IntakeConfig;
use super::metrics::IntakeMetrics;
use super::read::read;
use super::record::BrokerRecord;
use crate::outcome::Outcome;
use crate::resting::message_of;
use crate::source::{HandedOut, RecordContent, Source, SourceState, Want};
use crate::writes::Write;
use async_trait::async_trait;
use delayq::protocol::RecordId;
use delayq::{Fate, Topic, UnixMillis};
use delayq_service::host_now;
use futures_util::FutureExt as _;
use prometheus_client::metrics::counter::Counter;
use std::collections::{HashSet, VecDeque};
use std::mem;
use std::time::{Duration, Instant};
use tokio::time::{sleep_until, timeout, timeout_at};

/// Maximum bytes of records that wait for another try, exceeded by at most one call's records.
const MOST_WAITING_BYTES: usize = 64 << 20;
/// Maximum bytes of the records of one step, exceeded by at most one record.
const MOST_BYTES: usize = 16 << 20;
/// Maximum time for a broker to note settled or buried records, or to close. Longer than the brokers' own bounds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum characters of the reason that a dead record carries.
const LONGEST_REASON: usize = 300;

/// One intake.
pub(super) struct Intake<B: Broker> {
    pub(super) name: String,
    pub(super) config: IntakeConfig,
    pub(super) broker: B,
    pub(super) metrics: IntakeMetrics,
    pub(super) is_connected: bool,
    /// Records that arrived and are not taken yet.
    pub(super) early: VecDeque<Arrived<B::Ticket>>,
    /// Records to be tried again before others are taken.
    pub(super) untried: Vec<Origin<B::Ticket>>,
    pub(super) resting: Vec<Origin<B::Ticket>>,
    /// Records that the dead destination has not confirmed.
    pub(super) unburied: Vec<Letter<B::Ticket>>,
    /// The dead destination's last refusal.
    pub(super) stuck: Option<String>,
}

/// A record from the broker.
pub(super) struct Origin<T> {
    record: BrokerRecord,
    ticket: T,
    /// Time of taking.
    at: UnixMillis,
    /// Time of the first try, if that may have been applied.
    tried: Option<UnixMillis>,
    /// The record's message; `None`: the record is unreadable.
    message: Option<(Topic, Vec<u8>)>,
}

/// A record for the dead destination.
pub(super) struct Letter<T> {
    origin: Origin<T>,
    reason: String,
    /// Counts buried records.
    counter: Counter,
}

#[async_trait]
impl<B: Broker> Source for Intake<B> {
    type Key = Origin<B::Ticket>;

    async fn next(&mut self, want: Want, until: Instant) -> Result<Vec<HandedOut<Self::Key>>, String> {
        if !self.is_connected && want == Want::Nothing {
            sleep_until(until.into()).await;
            return Ok(Vec::new());
        }
        let taken = self.take(want, until).await;
        let origins = self.ended(taken).await?;
        if let Some(why) = self.stuck.clone().filter(|_| want != Want::Nothing) {
            return Err(why);
        }
        let behind: HashSet<_> = self.resting.iter().filter_map(|origin| origin.message.clone()).collect();
        Ok(origins.into_iter().map(|origin| self.recorded(origin, &behind)).collect())
    }

    async fn settle(&mut self, what: Vec<(Self::Key, Outcome)>) -> Result<(), String> {
        // Over the next connection the record is handed out again.
        if !self.is_connected {
            return Ok(());
        }
        let (now, mut done, mut dead) = (host_now(), Vec::new(), Vec::new());
        for (mut origin, outcome) in what {
            if let Outcome::Hold(Fate::Unknown, _) | Outcome::Rest(Fate::Unknown, _) = outcome {
                origin.tried.get_or_insert(now);
            }
            match outcome {
                Outcome::Done => done.push(origin),
                Outcome::Reject(reason) => dead.push(self.letter(origin, &reason)),
                Outcome::Rest(..) => self.resting.push(origin),
                Outcome::Hold(..) | Outcome::Untried => self.untried.push(origin),
            }
        }
        let mut settled = self.over(&done).await;
        if settled.is_ok() {
            settled = self.bury(dead).await;
        }
        self.ended(settled).await
    }

    fn seen(&self) -> SourceState {
        let oldest = self.waiting().map(|origin| origin.record.at.unwrap_or(origin.at)).min();
        SourceState {
            waiting: Some(self.waiting().count() as u64),
            resting: self.resting.len() as u64,
            oldest: oldest.map_or(Duration::ZERO, |at| host_now().since(at)),
            ..SourceState::default()
        }
    }

    async fn close(&mut self) {
        (self.early, self.untried, self.resting, self.unburied, self.stuck) = Default::default();
        self.is_connected = false;
        self.metrics.connected(false);
        // A broker that does not answer notices by itself.
        let _ = timeout(PATIENCE, self.broker.close()).await;
    }
}

// === impl Intake ===

impl<B: Broker> Intake<B> {
    /// Takes due records; none: nothing came until then, or the dead destination is waited for.
    async fn take(&mut self, want: Want, until: Instant) -> Result<Vec<Origin<B::Ticket>>, String> {
        if !self.is_connected {
            self.broker.open().await?;
            self.is_connected = true;
            self.metrics.connected(true);
            tracing::info!(intake = self.name, "connected");
        }
        let broker = &self.broker;
        self.untried.retain(|origin| !broker.is_lost(&origin.ticket));
        self.resting.retain(|origin| !broker.is_lost(&origin.ticket));
        self.unburied.retain(|letter| !broker.is_lost(&letter.origin.ticket));
        if want != Want::Nothing {
            let unburied = mem::take(&mut self.unburied);
            self.bury(unburied).await?;
        }
        match want {
            _ if self.stuck.is_some() && want != Want::Nothing => Ok(Vec::new()),
            Want::Rested => Ok(mem::take(&mut self.resting)),
            Want::New if !self.untried.is_empty() => Ok(mem::take(&mut self.untried)),
            Want::New | Want::Nothing => self.wait(want == Want::Nothing, until).await,
        }
    }

    /// Waits for records. Takes none while the source is held or too many records wait.
    async fn wait(&mut self, is_held: bool, until: Instant) -> Result<Vec<Origin<B::Ticket>>, String> {
        let free = usize::from(self.config.in_flight).saturating_sub(self.waiting().count());
        let bytes: usize = self.waiting().map(|origin| origin.record.bytes()).sum();
        let is_paused = is_held || free == 0 || bytes >= MOST_WAITING_BYTES;
        self.metrics.paused(is_paused);
        let most = free.min(self.config.batch.into());
        let received = timeout_at(until.into(), self.receive(is_paused, most)).await;
        let taken = received.unwrap_or_else(|_| Ok(Vec::new()));
        for Lost { records, place } in self.broker.lost() {
            self.metrics.lost.inc_by(records);
            tracing::error!(
                intake = self.name,
                records,
                place,
                "the broker dropped records before they were read: its retention was shorter than an outage"
            );
        }
        self.metrics.lag(self.broker.lag());
        let at = host_now();
        let arrived = taken?.into_iter().filter(|arrived| !self.broker.is_lost(&arrived.ticket));
        let origin = |Arrived { record, ticket }| Origin { record, ticket, at, tried: None, message: None };
        Ok(arrived.map(origin).collect())
    }

    /// Waits for records, and takes those that are there; while paused, only keeps what comes. Cancel safe.
    async fn receive(&mut self, is_paused: bool, most: usize) -> Result<Vec<Arrived<B::Ticket>>, String> {
        let Self { broker, early, .. } = self;
        if is_paused {
            loop {
                early.extend(broker.receive(true).await?);
            }
        }
        while early.is_empty() {
            early.extend(broker.receive(false).await?);
        }
        let (mut all, mut bytes) = (Vec::new(), 0);
        while all.len() < most && bytes < MOST_BYTES {
            if early.is_empty()
                && let Some(more) = broker.receive(false).now_or_never()
            {
                early.extend(more?);
            }
            let Some(arrived) = early.pop_front() else { break };
            bytes += arrived.record.bytes();
            all.push(arrived);
        }
        Ok(all)
    }

    /// A record to be tried, unless a resting record is ahead.
    fn recorded(
        &self,
        mut origin: Origin<B::Ticket>,
        behind: &HashSet<(Topic, Vec<u8>)>,
    ) -> HandedOut<Origin<B::Ticket>> {
        let what = match read(&origin.record, self.config.topic.as_ref(), origin.at) {
            Err(why) => RecordContent::Unfit(why),
            Ok(record) => {
                let message = message_of(&record);
                let is_behind = behind.contains(&message);
                origin.message = Some(message);
                let id = self.broker.place(&origin.ticket).map(|place| id_of(&place, &origin.record));
                if is_behind {
                    RecordContent::Behind
                } else {
                    RecordContent::Write(Write::new(record, id, origin.tried))
                }
            }
        };
        HandedOut { key: origin, what }
    }

    fn waiting(&self) -> impl Iterator<Item = &Origin<B::Ticket>> {
        let unburied = self.unburied.iter().map(|letter| &letter.origin);
        self.untried.iter().chain(&self.resting).chain(unburied)
    }

    fn letter(&self, origin: Origin<B::Ticket>, reason: &str) -> Letter<B::Ticket> {
        let is_read = origin.message.is_some();
        let counter = if is_read { &self.metrics.rejected } else { &self.metrics.unreadable };
        Letter { origin, reason: brief(reason), counter: counter.clone() }
    }

    /// Settles records.
    async fn over(&mut self, origins: &[Origin<B::Ticket>]) -> Result<(), String> {
        if origins.is_empty() {
            return Ok(());
        }
        let tickets: Vec<&B::Ticket> = origins.iter().map(|origin| &origin.ticket).collect();
        within(self.broker.settle(&tickets)).await
    }

    /// Buries and settles records; records that the dead destination does not accept wait.
    async fn bury(&mut self, dead: Vec<Letter<B::Ticket>>) -> Result<(), String> {
        if dead.is_empty() {
            return Ok(());
        }
        let letters: Vec<_> = dead.iter().map(Letter::dead).collect();
        let answers = within(self.broker.bury(&letters)).await;
        let answers = answers.unwrap_or_else(|why| vec![Err(why); dead.len()]);
        let mut buried = Vec::new();
        self.stuck = None;
        for (letter, answer) in dead.into_iter().zip(answers) {
            if let Err(why) = answer {
                self.stuck.get_or_insert(why);
                self.unburied.push(letter);
                continue;
            }
            let Letter { origin, reason, counter } = letter;
            counter.inc();
            tracing::error!(intake = self.name, origin = %origin.ticket, reason, "sent a record to the dead \
                 destination");
            buried.push(origin);
        }
        self.over(&buried).await
    }

    /// Closes the connection after an error: the broker hands out all its records again, perhaps to another process.
    async fn ended<T>(&mut self, result: Result<T, String>) -> Result<T, String> {
        if result.is_err() {
            self.close().await;
        }
        result
    }
}

// === impl Letter ===

impl<T> Letter<T> {
    fn dead(&self) -> Dead<'_, T> {
        let Self { origin: Origin { record, ticket, .. }, reason, .. } = self;
        Dead { record, ticket, reason }
    }
}

/// Shortens a reason for a header and a log. The reason may quote a producer's text, and a record that becomes too large for
/// the dead destination would block all later records.
fn brief(reason: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut brief: String = reason.chars().map(plain).take(LONGEST_REASON).collect();
    if reason.chars().nth(LONGEST_REASON).is_some() {
        brief.push('…');
    }
    brief
}

/// The id by which Redis recognises a record. A topic that was created again repeats its offsets, so the content counts too.
fn id_of(place: &str, record: &BrokerRecord) -> RecordId {
    let at = record.at.map_or(0, UnixMillis::get).to_be_bytes();
    let headers = record.headers.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_slice()]);
    RecordId::of([place.as_bytes(), &at[..], record.body.as_slice()].into_iter().chain(headers))
}

/// An answer of a broker, or that there is none.
async fn within<T>(answer: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let answered = timeout(PATIENCE, answer).await;
    answered.unwrap_or_else(|_| Err(format!("no reply from the broker within {PATIENCE:?}")))
}
