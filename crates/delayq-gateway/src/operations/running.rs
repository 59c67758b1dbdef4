//! Advancing operations: a task for each slot.

use super::pace::OperationPace;
use super::state::{Operation, Phase};
use super::store::{Begun, Saved, Store, all_slots};
use crate::metrics::{GatewayMetrics, GaugeGuard};
use delayq::admin::{Selected, Step, Tag};
use delayq::{Admin, Advice, Error, Target, Topic, UnixMillis};
use delayq_service::Shutdown;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Between two looks at a slot.
const POLL: Duration = Duration::from_secs(1);
/// A holder that finds nothing to change saves so often.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Maximum silence of a holder before another gateway takes over.
const SILENCE: Duration = Duration::from_secs(5);
/// After an outage.
const PAUSE: Duration = Duration::from_millis(500);

/// Clones share the state.
#[derive(Clone)]
pub(crate) struct Running {
    admin: Admin,
    store: Store,
    metrics: GatewayMetrics,
    /// Distinguishes this process.
    holder: Arc<str>,
    begun: Arc<Notify>,
}

/// An operation that this process holds.
struct HeldOperation<'r> {
    running: &'r Running,
    slot: &'static str,
    version: u64,
    operation: Operation,
    /// The time of the last save, on the clock of Redis.
    now: UnixMillis,
    saved: Instant,
    pace: OperationPace,
    _counted: GaugeGuard,
}

/// The version of a slot's note, and the time of the first look at that version.
struct Seen {
    version: u64,
    since: Instant,
}

/// What became of the calls for a page.
enum Carried<'p> {
    /// Every call was made; the outcomes of the last one are not saved yet. `None`: there was none.
    Out(Option<Step<'p>>),
    /// A call was made before, so the page has to be read again.
    Before,
    /// Another process holds the operation.
    Lost,
}

enum Ending {
    /// Another process holds the operation.
    Lost,
    Over(Phase, Option<String>),
}

// === impl Running ===

impl Running {
    pub(crate) fn new(admin: Admin, metrics: GatewayMetrics) -> Self {
        let holder = format!("{:016x}", fastrand::u64(..)).into();
        Self { store: Store::new(admin.clone()), admin, metrics, holder, begun: Arc::default() }
    }

    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// Begins an operation, which this or another gateway advances.
    pub(crate) async fn begin(&self, operation: &Operation) -> Result<Begun, Error> {
        let begun = self.store.begin(operation).await?;
        self.begun.notify_waiters();
        Ok(begun)
    }

    pub(crate) async fn run(self, shutdown: Shutdown) {
        join_all(all_slots().map(|slot| self.follow(slot, &shutdown))).await;
    }

    async fn follow(&self, slot: &'static str, shutdown: &Shutdown) {
        let mut seen = None;
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                () = self.begun.notified() => {}
                () = sleep(POLL) => {}
            }
            match self.take(slot, &mut seen).await {
                Ok(Some(held)) => held.advance(shutdown).await,
                Ok(None) => {}
                Err(error) => tracing::debug!(slot, %error, "cannot look for operations"),
            }
        }
    }

    /// Takes the operation of a slot if no other process holds it, or its holder is silent.
    async fn take(
        &self,
        slot: &'static str,
        seen: &mut Option<Seen>,
    ) -> Result<Option<HeldOperation<'_>>, Error> {
        let Some((version, mut operation)) = self.store.in_slot(slot).await? else {
            *seen = None;
            return Ok(None);
        };
        let now = Instant::now();
        let since = seen.as_ref().filter(|seen| seen.version == version).map_or(now, |seen| seen.since);
        *seen = Some(Seen { version, since });
        if operation.phase.is_over() {
            self.store.archive(slot, version, &operation).await?;
            return Ok(None);
        }
        if operation.holder.is_some() && now - since < SILENCE {
            return Ok(None);
        }
        operation.taken_by(&self.holder);
        let Saved::Yes(version, at) = self.store.save(slot, version, &operation).await? else {
            return Ok(None);
        };
        tracing::info!(
            id = operation.id,
            by = operation.by,
            action = operation.order.shown_action(),
            "operation taken"
        );
        Ok(Some(HeldOperation {
            running: self,
            slot,
            version,
            operation,
            now: at,
            saved: now,
            pace: OperationPace::default(),
            _counted: self.metrics.operation_taken(),
        }))
    }
}

// === impl HeldOperation ===

impl HeldOperation<'_> {
    /// Advances the operation until it ends, another process takes it, or shutdown. Redis may be silent meanwhile.
    async fn advance(mut self, shutdown: &Shutdown) {
        let mut asks_before = true;
        loop {
            let ending = tokio::select! {
                biased;
                () = shutdown.requested() => return self.let_go().await,
                ending = self.steps(&mut asks_before) => ending,
            };
            let ending = match ending {
                Ok(ending) => ending,
                Err(error) if error.advice() == Advice::Retry => {
                    tracing::warn!(id = self.operation.id, %error, "operation waits for Redis");
                    asks_before = true;
                    sleep(PAUSE).await;
                    continue;
                }
                Err(error) => Ending::Over(Phase::Failed, Some(error.to_string())),
            };
            let Ending::Over(phase, why) = ending else { return };
            match self.finish(phase, why).await {
                Ok(()) => return,
                // The slot's next look archives it.
                Err(error) => tracing::warn!(id = self.operation.id, %error, "operation waits for Redis"),
            }
            sleep(PAUSE).await;
        }
    }

    async fn steps(&mut self, asks_before: &mut bool) -> Result<Ending, Error> {
        if self.operation.phase.is_over() {
            return Ok(Ending::Over(self.operation.phase, self.operation.why()));
        }
        let selection = self.operation.order.selection();
        let position = match self.operation.position() {
            Ok(position) => position,
            Err(why) => return Ok(Ending::Over(Phase::Failed, Some(why))),
        };
        let (cut, mut cursor) = (position.cut, position.cursor);
        if *asks_before {
            for shard in cut.shards().skip(cursor.shard()).take(1) {
                let topic = self.operation.order.topics.first().cloned();
                let topic = topic.unwrap_or_else(|| Topic::new("-").expect("a topic"));
                let step = Step { shard, topic: &topic, record: self.operation.record() };
                if !self.note_before(step).await? {
                    return Ok(Ending::Lost);
                }
            }
            *asks_before = false;
        }
        let running = self.running;
        let operations = running.admin.operations();
        let mut page = operations.select(&selection, &cut, &cursor, self.pace.step()).await?;
        loop {
            if self.operation.phase == Phase::Aborting {
                return Ok(Ending::Over(Phase::Aborted, None));
            }
            let began = Instant::now();
            let last = match self.act(&page).await? {
                Carried::Out(last) => last,
                Carried::Before => {
                    page = operations.select(&selection, &cut, &cursor, self.pace.step()).await?;
                    continue;
                }
                Carried::Lost => return Ok(Ending::Lost),
            };
            self.operation.looked(&page, page.next.as_ref());
            let Some(next) = page.next.clone() else {
                let is_held = self.noted(last).await?;
                return Ok(if is_held { Ending::Over(Phase::Done, None) } else { Ending::Lost });
            };
            // A later holder asks the shard of the saved position for the outcomes of the last call.
            let leaves = next.shard() != cursor.shard();
            let saves = last.is_some() || leaves || self.saved.elapsed() >= HEARTBEAT;
            cursor = next;
            let next_page = operations.select(&selection, &cut, &cursor, self.pace.step());
            let saved = async { if saves { self.noted(last).await } else { Ok(true) } };
            let (is_held, next_page) = tokio::join!(saved, next_page);
            if !is_held? {
                return Ok(Ending::Lost);
            }
            page = next_page?;
            self.pace.rest(began.elapsed()).await;
        }
    }

    /// Acts on the messages of a page, by topic.
    async fn act<'p>(&mut self, page: &'p Selected) -> Result<Carried<'p>, Error> {
        let mut topics = BTreeMap::<&Topic, Vec<(Target, Tag)>>::new();
        for listed in page.messages.iter().filter(|listed| self.operation.order.fits(listed)) {
            let Ok(envelope) = &listed.envelope else { continue };
            topics.entry(&listed.topic).or_default().push((listed.target(), Tag::of(envelope)));
        }
        let Some(shard) = page.messages.first().map(|listed| listed.shard) else {
            return Ok(Carried::Out(None));
        };
        let (action, mut last) = (self.operation.order.action(), None);
        for (topic, items) in topics {
            if last.is_some() && !self.noted(last).await? {
                return Ok(Carried::Lost);
            }
            let step = Step { shard, topic, record: self.operation.record() };
            let began = Instant::now();
            let Some(outcomes) = self.running.admin.operations().act(step, &action, &items).await? else {
                return Ok(if self.note_before(step).await? { Carried::Before } else { Carried::Lost });
            };
            self.pace.took(began.elapsed());
            let targets: Vec<Target> = items.into_iter().map(|(target, _)| target).collect();
            self.operation.acted(topic, &targets, &outcomes);
            outcomes.iter().for_each(|acted| self.running.metrics.operated(acted.word()));
            last = Some(step);
        }
        Ok(Carried::Out(last))
    }

    /// Saves the operation, then has Redis forget the outcomes of this call. False: another process has taken the operation.
    async fn noted(&mut self, call: Option<Step<'_>>) -> Result<bool, Error> {
        let is_held = self.save().await?;
        if let Some(step) = call.filter(|_| is_held) {
            self.running.admin.operations().forget_acted(step).await?;
        }
        Ok(is_held)
    }

    /// Notes the outcomes of a call that was made and not saved. False: another process has taken the operation.
    async fn note_before(&mut self, step: Step<'_>) -> Result<bool, Error> {
        let outcomes = self.running.admin.operations().acted(step).await?;
        if outcomes.is_empty() {
            return Ok(true);
        }
        self.operation.acted(step.topic, &[], &outcomes);
        self.noted(Some(step)).await
    }

    /// False: another process has taken the operation.
    async fn save(&mut self) -> Result<bool, Error> {
        loop {
            match self.running.store.save(self.slot, self.version, &self.operation).await? {
                Saved::Yes(version, now) => {
                    (self.version, self.now, self.saved) = (version, now, Instant::now());
                    return Ok(true);
                }
                Saved::Other(Some(other), version)
                    if other.id == self.operation.id
                        && other.holder.as_deref() == Some(&*self.running.holder) =>
                {
                    self.operation.adopt(&other);
                    self.version = version;
                }
                Saved::Other(..) => return Ok(false),
            }
        }
    }

    async fn finish(&mut self, phase: Phase, why: Option<String>) -> Result<(), Error> {
        if !self.save().await? {
            return Ok(());
        }
        self.operation.end(phase, self.now, why);
        if self.save().await? {
            tracing::info!(id = self.operation.id, phase = ?self.operation.phase, "operation ended");
            self.running.store.archive(self.slot, self.version, &self.operation).await?;
        }
        Ok(())
    }

    /// Another process continues at once.
    async fn let_go(mut self) {
        self.operation.holder = None;
        let saved =
            tokio::time::timeout(PAUSE, self.running.store.save(self.slot, self.version, &self.operation))
                .await;
        tracing::info!(id = self.operation.id, is_saved = matches!(saved, Ok(Ok(_))), "operation let go");
    }
}

#[cfg(test)]
mod tests;
