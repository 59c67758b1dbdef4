//! The loop of one intake: take records, carry them out, settle or bury them; wait while that cannot be done.
//!
//! What was carried out is settled at once, and the rest keeps its order: after an outage of Redis all of it is tried again
//! before anything else is taken. What only its own shard or topic holds up rests alone, with the later records of its
//! message, and the others go on, until as much rests as may be in flight. What the dead destination does not take waits for
//! it, over the same connection: a new one would hand out again what is done already.

use super::config::IntakeConfig;
use super::health::Health;
use super::metrics::IntakeMetrics;
use super::read::read;
use super::record::Record;
use super::source::{Arrived, Dead, Lost, Source};
use crate::outcome::Settle;
use crate::resting::{Resting, message_of};
use crate::rests::back_off;
use crate::writes::{Carrier, Write};
use async_trait::async_trait;
use delayq::protocol::RecordId;
use delayq::{Fate, Target, UnixMillis};
use delayq_service::{Fault, Shutdown, host_now};
use prometheus_client::metrics::counter::Counter;
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until, timeout};

/// How often the metrics are brought up to date while nothing happens.
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// Maximum bytes of records that wait for another try, exceeded by one call's.
const MOST_WAITING_BYTES: usize = 64 << 20;
/// How long a broker may take to note what is settled or buried, or to close. Longer than the sources' own bounds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long Redis keeps the answers to settled records: the brokers' clients note what is settled a little later.
const NOTED_WITHIN: Duration = Duration::from_secs(10);
/// Maximum characters of the reason that a dead record carries.
const LONGEST_REASON: usize = 300;

/// One intake.
pub(crate) struct Intake<S: Source> {
    pub(super) name: String,
    pub(super) config: IntakeConfig,
    pub(super) source: S,
    pub(super) carrier: Carrier,
    pub(super) metrics: IntakeMetrics,
    pub(super) health: Health,
    pub(super) waiting: Waiting<S::Ticket>,
    pub(super) settled: Settled,
}

/// What Redis keeps of records that are settled, and since when: the oldest first.
#[derive(Default)]
pub(super) struct Settled(VecDeque<(Instant, Target, RecordId)>);

/// Records that wait for another try, the oldest first.
pub(super) struct Waiting<T> {
    items: Vec<Item<T>>,
    /// What the dead destination has not confirmed.
    unburied: Vec<Letter<T>>,
    resting: Resting,
    /// Redis or the dead destination cannot be used: nothing more is taken.
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
    /// What Redis keeps of it until it is settled.
    carried: Option<(Target, RecordId)>,
}

/// A record for the dead destination.
struct Letter<T> {
    origin: Origin<T>,
    reason: String,
    /// Counts it once it is there.
    counter: Counter,
}

/// An intake, whatever it takes in from.
#[async_trait]
pub(crate) trait Takes: Send {
    /// Takes in until shutdown; what is under way is finished.
    async fn run(self: Box<Self>, shutdown: Shutdown) -> Result<(), Fault>;
}

// === impl Settled ===

impl Settled {
    fn add<'c>(&mut self, carried: impl Iterator<Item = &'c (Target, RecordId)>, now: Instant) {
        self.0.extend(carried.map(|(target, record)| (now, target.clone(), *record)));
    }

    /// Those that were settled at this time or before.
    fn until(&mut self, then: Instant) -> Vec<(Target, RecordId)> {
        let some = self.0.partition_point(|(at, ..)| *at <= then);
        self.0.drain(..some).map(|(_, target, record)| (target, record)).collect()
    }
}

// === impl Waiting ===

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        let (items, unburied, resting) = (Vec::new(), Vec::new(), Resting::default());
        Self { items, unburied, resting, is_held: false, tries: 0, again_at: None }
    }
}

impl<T> Waiting<T> {
    fn origins(&self) -> impl Iterator<Item = &Origin<T>> {
        let unburied = self.unburied.iter().map(|letter| &letter.origin);
        self.items.iter().map(|item| &item.origin).chain(unburied)
    }

    fn count(&self) -> usize {
        self.items.len() + self.unburied.len()
    }

    fn bytes(&self) -> usize {
        self.origins().map(|origin| origin.record.bytes()).sum()
    }

    /// All of them, where it is time to try them again; nothing waits then.
    fn take_due(&mut self, now: Instant) -> (Vec<Item<T>>, Vec<Letter<T>>) {
        if self.again_at.is_some_and(|at| at > now) {
            return Default::default();
        }
        (self.resting, self.again_at) = (Resting::default(), None);
        (std::mem::take(&mut self.items), std::mem::take(&mut self.unburied))
    }

    /// Forgets what was lost to another process.
    fn forget(&mut self, is_lost: impl Fn(&T) -> bool) {
        self.items.retain(|item| !is_lost(&item.origin.ticket));
        self.unburied.retain(|letter| !is_lost(&letter.origin.ticket));
    }

    /// Plans the next try; `is_held`: of everything. Whether that is news: the first try, or the first of its kind.
    fn plan(&mut self, is_held: bool, longest_rest: Duration, now: Instant) -> bool {
        if self.count() == 0 {
            (self.is_held, self.tries, self.again_at) = (false, 0, None);
            return false;
        }
        if is_held || self.again_at.is_none() {
            self.tries += 1;
            self.again_at = Some(now + back_off(self.tries, longest_rest));
        }
        let was_held = std::mem::replace(&mut self.is_held, is_held);
        self.tries == 1 || was_held != is_held
    }

    fn oldest(&self) -> Duration {
        let items = self.items.first().map(|item| item.write.record.tried_at);
        let unburied = self.unburied.iter().filter_map(|letter| letter.origin.record.at);
        items.into_iter().chain(unburied).min().map_or(Duration::ZERO, |at| host_now().since(at))
    }
}

impl<T> Letter<T> {
    fn new(origin: Origin<T>, reason: &str, counter: &Counter) -> Self {
        Self { origin, reason: brief(reason), counter: counter.clone() }
    }
}

/// A reason as it may stand in a header and in a log: it may quote what a producer wrote, and a record that it makes too
/// large for the dead destination would block all behind it.
fn brief(reason: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut brief: String = reason.chars().map(plain).take(LONGEST_REASON).collect();
    if reason.chars().nth(LONGEST_REASON).is_some() {
        brief.push('…');
    }
    brief
}

// === impl Intake ===

#[async_trait]
impl<S: Source> Takes for Intake<S> {
    async fn run(mut self: Box<Self>, shutdown: Shutdown) -> Result<(), Fault> {
        let mut failures = 0;
        while let Err(why) = self.serve(&shutdown, &mut failures).await {
            failures += 1;
            self.lost(&why).await;
            let rest = back_off(failures, *self.config.longest_rest);
            if shutdown.or(sleep(rest)).await.is_none() {
                break;
            }
        }
        self.close().await;
        // Closed, the client has noted all of them.
        let noted = self.settled.until(Instant::now());
        self.carrier.settled(&noted).await;
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
            if let Some(then) = Instant::now().checked_sub(NOTED_WITHIN) {
                let noted = self.settled.until(then);
                self.carrier.settled(&noted).await;
            }
            *failures = 0;
        }
    }

    /// Waits for records, or until it is time to try again those that wait: then there are none.
    async fn wait(&mut self) -> Result<Vec<Arrived<S::Ticket>>, String> {
        let Self { name, source, waiting, config, metrics, .. } = self;
        let mut shows = interval(SHOW_EVERY);
        shows.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let free = usize::from(config.in_flight).saturating_sub(waiting.count());
        let is_full = free == 0 || waiting.bytes() >= MOST_WAITING_BYTES;
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
                    source.hold().await.map(|never| match never {})
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
            for Lost { records, place } in source.lost() {
                metrics.lost.inc_by(records);
                tracing::error!(
                    intake = name,
                    records,
                    place,
                    "the broker dropped records before they were read: its retention is shorter than this outage"
                );
            }
            metrics.lag(source.lag());
            metrics.waiting(waiting.count(), waiting.oldest());
        }
    }

    async fn step(&mut self, arrived: Vec<Arrived<S::Ticket>>) -> Result<(), String> {
        let Self { source, waiting, .. } = self;
        waiting.forget(|ticket| source.is_lost(ticket));
        let (mut due, mut dead) = waiting.take_due(Instant::now());
        let now = host_now();
        for Arrived { record, ticket } in arrived.into_iter().filter(|new| !source.is_lost(&new.ticket)) {
            let read = read(&record, self.config.topic.as_ref(), now);
            let id = source.place(&ticket).map(|place| id_of(&place, &record));
            match read.map(|read| Write::new(read, id, None)) {
                Ok(write) => {
                    let carried = write.carried();
                    due.push(Item { write, origin: Origin { record, ticket, carried } });
                }
                Err(reason) => {
                    let origin = Origin { record, ticket, carried: None };
                    dead.push(Letter::new(origin, &reason, &self.metrics.unreadable));
                }
            }
        }
        let mut held = None;
        for some in apart(due) {
            if held.is_some() {
                self.waiting.items.extend(some);
                continue;
            }
            // In a box: the calls to Redis nest too deep for the compiler to lay all of it out in one.
            let done = Box::pin(self.carry_out(some, now, &mut dead));
            let (done, why) = done.await;
            self.settle(done.iter()).await?;
            held = why;
        }
        let unburied = self.bury(dead).await?;
        self.plan(held.or(unburied).as_deref());
        Ok(())
    }

    /// Carries out what can be, and lets the others wait. Returns what is done, and why not all could be tried, and adds
    /// what is rejected to the dead.
    async fn carry_out(
        &mut self,
        due: Vec<Item<S::Ticket>>,
        now: UnixMillis,
        dead: &mut Vec<Letter<S::Ticket>>,
    ) -> (Vec<Origin<S::Ticket>>, Option<String>) {
        if due.is_empty() {
            return (Vec::new(), None);
        }
        if self.waiting.is_held
            && let Err(error) = self.carrier.probe().await
        {
            self.waiting.items.extend(due);
            return (Vec::new(), Some(error.to_string()));
        }
        let (writes, origins): (Vec<_>, Vec<_>) =
            due.into_iter().map(|item| (item.write, item.origin)).unzip();
        let settled =
            self.carrier.carry_out(&mut self.waiting.resting, &writes.iter().collect::<Vec<_>>()).await;
        let (mut done, mut held) = (Vec::new(), None);
        let buried = dead.len();
        for ((mut write, origin), settle) in writes.into_iter().zip(origins).zip(settled) {
            match settle {
                Settle::Done => done.push(origin),
                Settle::Reject(reason) => dead.push(Letter::new(origin, &reason, &self.metrics.rejected)),
                Settle::Untried => self.waiting.items.push(Item { write, origin }),
                Settle::Hold(fate, _) | Settle::Rest(fate, _) => {
                    if fate == Fate::Unknown {
                        write.tried.get_or_insert(now);
                        write.is_first = false;
                    }
                    if let Settle::Hold(_, why) = settle {
                        held.get_or_insert(why);
                    }
                    self.waiting.items.push(Item { write, origin });
                }
            }
        }
        self.metrics.done.inc_by(done.len() as u64);
        let is_stuck = done.is_empty() && dead.len() == buried && held.is_none();
        if is_stuck && !self.waiting.items.is_empty() {
            held = self.carrier.probe().await.err().map(|error| error.to_string());
        }
        (done, held)
    }

    /// Plans the next try of what waits, and says why it does.
    fn plan(&mut self, held: Option<&str>) {
        let is_news = self.waiting.plan(held.is_some(), *self.config.longest_rest, Instant::now());
        let (intake, records) = (&self.name, self.waiting.count());
        if held.is_some() {
            self.metrics.hold();
        }
        match (held, self.waiting.resting.why()) {
            (Some(why), _) if is_news => {
                tracing::warn!(intake, records, why, "records cannot be carried out now, and stay in order");
            }
            (None, Some(why)) if is_news => {
                tracing::warn!(intake, records, why, "records rest alone, and are tried again");
            }
            _ => {}
        }
        self.health.set(&self.name, held);
    }

    async fn settle<'o>(&mut self, origins: impl Iterator<Item = &'o Origin<S::Ticket>>) -> Result<(), String>
    where
        S: 'o,
    {
        let origins: Vec<&Origin<S::Ticket>> = origins.collect();
        if origins.is_empty() {
            return Ok(());
        }
        let tickets: Vec<&S::Ticket> = origins.iter().map(|origin| &origin.ticket).collect();
        within(self.source.settle(&tickets)).await?;
        self.settled.add(origins.iter().filter_map(|origin| origin.carried.as_ref()), Instant::now());
        Ok(())
    }

    /// Buries and settles records; those that the dead destination does not take wait, and why is returned.
    async fn bury(&mut self, dead: Vec<Letter<S::Ticket>>) -> Result<Option<String>, String> {
        if dead.is_empty() {
            return Ok(None);
        }
        let letters: Vec<_> = dead
            .iter()
            .map(|Letter { origin: Origin { record, ticket, .. }, reason, .. }| Dead {
                record,
                ticket,
                reason,
            })
            .collect();
        let answers = within(self.source.bury(&letters)).await;
        let answers = answers.unwrap_or_else(|why| vec![Err(why); dead.len()]);
        let (mut buried, mut held) = (Vec::new(), None);
        for (letter, answer) in dead.into_iter().zip(answers) {
            if let Err(why) = answer {
                held.get_or_insert(why);
                self.waiting.unburied.push(letter);
                continue;
            }
            let Letter { origin, reason, counter } = letter;
            counter.inc();
            tracing::error!(intake = self.name, origin = %origin.ticket, reason, "a record went to the dead destination");
            buried.push(origin);
        }
        self.settle(buried.iter()).await.map(|()| held)
    }

    /// The connection is gone, and with it what was taken over it: the broker hands it out again, to another process too.
    async fn lost(&mut self, why: &str) {
        self.waiting = Waiting::default();
        self.metrics.connected(false);
        self.metrics.waiting(0, Duration::ZERO);
        if self.health.set(&self.name, Some(why)) {
            tracing::warn!(intake = self.name, why, "the broker cannot be used: connecting again");
        }
        self.close().await;
    }

    async fn close(&mut self) {
        // A broker that does not answer learns of it by itself.
        let _ = timeout(PATIENCE, self.source.close()).await;
    }
}

/// Items in parts. What Redis cannot recognise is settled before a later write of its message is sent, so that a repeat cannot
/// undo that one: a cancel that came before a put would cancel it.
fn apart<T>(items: Vec<Item<T>>) -> Vec<Vec<Item<T>>> {
    let (mut parts, mut open) = (vec![Vec::new()], HashSet::new());
    for item in items {
        if item.write.id.is_none() && !open.insert(message_of(&item.write.record)) {
            parts.push(Vec::new());
            open = HashSet::from([message_of(&item.write.record)]);
        }
        parts.last_mut().expect("there is a first part").push(item);
    }
    parts
}

/// What Redis recognises a record by: a topic that was made again has its offsets again.
fn id_of(place: &str, record: &Record) -> RecordId {
    let at = record.at.map_or(0, UnixMillis::get).to_be_bytes();
    let headers = record.headers.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_slice()]);
    RecordId::of([place.as_bytes(), &at[..], record.body.as_slice()].into_iter().chain(headers))
}

/// An answer of a broker, or that there is none.
async fn within<T>(answer: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let answered = timeout(PATIENCE, answer).await;
    answered.unwrap_or_else(|_| Err(format!("the broker did not answer within {PATIENCE:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::spool::SpoolRecord;
    use delayq::{MessageId, Target, Topic};

    fn item() -> Item<()> {
        let target = Target::from(MessageId::own("a").unwrap());
        let record = SpoolRecord::cancel(&Topic::new("t").unwrap(), &target, UnixMillis::new(1));
        let origin = Origin { record: Record::default(), ticket: (), carried: None };
        Item { write: Write::new(record, None, None), origin }
    }

    #[test]
    fn an_outage_is_news_while_others_rest_alone_and_so_is_its_end() {
        let (mut waiting, mut now, rest) = (Waiting::default(), Instant::now(), Duration::from_secs(1));
        let mut plan = |held| {
            let due = waiting.take_due(now).0;
            waiting.items.extend(due);
            waiting.items.resize_with(1, item);
            let is_news = waiting.plan(held, rest, now);
            now += rest;
            is_news
        };
        let tries = [false, false, true, true, false, false];
        assert_eq!(tries.map(&mut plan), [true, false, true, false, true, false]);
    }
}
