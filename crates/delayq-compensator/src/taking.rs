//! The one loop over recorded writes, a task for each source: take, carry out, settle; rest while that cannot be done.
//!
//! ```text
//!  next records, in order ─► put · cancel · reschedule ─► settle: done, rejected, or resting until it is tried again
//!           ▲                          │
//!           └────── back off ◄─────────┴─ Redis or the source cannot be used: everything stays in order
//! ```
//! The process may die between any two of these. Redis repeats the first answer to a repeated record, and changes nothing.
//! Redis does not recognise changes of groups and records without ids, which are therefore settled one by one.

use crate::outcome::Outcome;
use crate::parts::apart;
use crate::report::Report;
use crate::resting::Resting;
use crate::rests::{Rests, back_off};
use crate::source::{HandedOut, RecordContent, Source, Want};
use crate::source_metrics::{SourceMetrics, SourcesMetrics};
use crate::writes::Carrier;
use async_trait::async_trait;
use delayq::protocol::RecordId;
use delayq::spool::{GroupChange, GroupRecord};
use delayq::{Client, Fate, Target};
use delayq_service::{Condition, Fault, Readiness, Shutdown};
use futures_util::FutureExt as _;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Interval between updates of the metrics while nothing happens.
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// Longest time in which nothing of a batch is settled, until the process is not ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// A source under way.
pub(crate) struct Taking<S: Source> {
    pub(crate) source: S,
    carrier: Carrier,
    metrics: SourceMetrics,
    condition: Condition,
    limits: LoopTimes,
    /// Settled records with the times of settling, the oldest first.
    settled: VecDeque<(Instant, (Target, RecordId))>,
    /// Redis could not be used the last time: a probe comes before the next call.
    is_doubtful: bool,
}

/// The times of a source's loop.
pub(crate) struct LoopTimes {
    /// The longest rest between two tries.
    pub(crate) longest_rest: Duration,
    /// Maximum time of the calls to Redis for a batch.
    pub(crate) deadline: Duration,
    /// Time for which Redis keeps the answers to settled records: the source notes settled records a little later.
    pub(crate) noted_within: Duration,
}

/// The dependencies of an outbox's reader, or of intakes.
pub struct SourceDeps {
    /// The deployment.
    pub client: Client,
    /// The registry of metrics.
    pub metrics: SourcesMetrics,
    /// The readiness, with the condition `outbox`, or `intake.NAME` for each intake.
    pub readiness: Readiness,
}

/// The loop of a source that is ready to run.
pub struct SourceLoop(pub(crate) Box<dyn Takes>);

/// A loop over any source.
#[async_trait]
pub(crate) trait Takes: Send {
    /// Takes until shutdown; finishes the batch under way.
    async fn run(self: Box<Self>, shutdown: Shutdown);

    /// The name of the source.
    fn name(&self) -> &str;
}

/// The plan of the next step, by the last ones.
struct StepPlan {
    rests: Rests,
    /// Steps in a row that were held up.
    failures: u32,
    held_until: Option<Instant>,
    /// The reason that was logged last.
    said: Option<String>,
}

// === impl Taking ===

#[async_trait]
impl<S: Source> Takes for Taking<S> {
    async fn run(mut self: Box<Self>, shutdown: Shutdown) {
        let rests = Rests::new(self.limits.longest_rest, Instant::now());
        let mut pace = StepPlan { rests, failures: 0, held_until: None, said: None };
        while !shutdown.is_requested() {
            let (want, until) = pace.next(Instant::now());
            let Some(batch) = shutdown.or(self.source.next(want, until)).await else { break };
            let step = match batch {
                Ok(batch) => self.carry_out(batch).await,
                Err(why) => Err(why),
            };
            let held = |why| Report { held: Some(why), ..Report::default() };
            self.heed(want, step.unwrap_or_else(held), &mut pace);
        }
        self.source.close().await;
        // The closed source has noted all outcomes.
        self.forget(Some(Instant::now())).await;
    }

    fn name(&self) -> &str {
        self.metrics.name()
    }
}

impl<S: Source> Taking<S> {
    /// Takes from a source that reports by these metrics and this condition.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(
        source: S,
        client: Client,
        (metrics, condition): (SourceMetrics, Condition),
        limits: LoopTimes,
    ) -> Self {
        let carrier = Carrier::new(client);
        Self { source, carrier, metrics, condition, limits, settled: VecDeque::new(), is_doubtful: false }
    }

    /// One step, without a shutdown.
    ///
    /// # Errors
    /// Why the source cannot be used.
    pub(crate) async fn step(&mut self, want: Want, until: Instant) -> Result<Report, String> {
        let batch = self.source.next(want, until).await?;
        self.carry_out(batch).await
    }

    /// Reports a step, and plans the next one.
    fn heed(&self, want: Want, report: Report, pace: &mut StepPlan) {
        let (seen, now, source) = (self.source.seen(), Instant::now(), self.metrics.name());
        self.metrics.show(&seen);
        if pace.rests.note(seen.resting, now) {
            let (records, why) = (seen.resting, report.why);
            tracing::warn!(source, records, why, "some records are resting: they will be retried");
        }
        if want == Want::Rested && report.done > 0 {
            // The cause seems to be over: the other records are tried at once.
            pace.rests.hurry(now);
        }
        if let Some(why) = report.held {
            pace.failures += 1;
            pace.held_until = Some(now + back_off(pace.failures, self.limits.longest_rest));
            self.metrics.hold();
            self.condition.unready(why.clone());
            if pace.said.as_ref() != Some(&why) {
                tracing::warn!(source, why, "cannot apply records now: they stay in order");
            }
            pace.said = Some(why);
        } else if want == Want::New || report.taken > 0 {
            (pace.failures, pace.held_until, pace.said) = (0, None, None);
            match seen.wrong {
                None => self.condition.ready(),
                Some(wrong) => self.condition.unready(wrong),
            }
        }
    }

    /// Carries out a batch, part by part, and settles each.
    ///
    /// # Errors
    /// The source cannot note the outcomes.
    async fn carry_out(&mut self, batch: Vec<HandedOut<S::Key>>) -> Result<Report, String> {
        let mut report = Report { taken: batch.len() as u64, ..Report::default() };
        let (mut resting, mut ended) = (Resting::default(), Ok(()));
        let mut parts = apart(batch).into_iter();
        while ended.is_ok()
            && report.held.is_none()
            && let Some(part) = parts.next()
        {
            let condition = self.condition.clone();
            // In a box: the calls to Redis nest too deep for the compiler to prove `Send`.
            let done = self.part(part, &mut resting, &mut report).boxed();
            ended = watched(&condition, done).await;
        }
        let left: Vec<_> = parts.flatten().map(|recorded| (recorded.key, Outcome::Untried)).collect();
        if !left.is_empty() {
            ended = ended.and(self.source.settle(left).await);
        }
        self.is_doubtful |= report.held.is_some();
        self.forget(Instant::now().checked_sub(self.limits.noted_within)).await;
        ended.map(|()| report)
    }

    async fn part(
        &mut self,
        part: Vec<HandedOut<S::Key>>,
        resting: &mut Resting,
        report: &mut Report,
    ) -> Result<(), String> {
        let (keys, asked): (Vec<_>, Vec<_>) =
            part.into_iter().map(|recorded| (recorded.key, recorded.what)).unzip();
        let mut settled = match self.is_usable().await {
            Err(why) => vec![Outcome::Hold(Fate::NotApplied, why); asked.len()],
            Ok(()) => match &asked[..] {
                [RecordContent::Change(record)] => vec![self.change(&keys[0], record, resting).await?],
                asked => self.call(asked, resting).await,
            },
        };
        if report.done + report.resting == 0 {
            self.judge(&mut settled).await;
        }
        let over = asked.iter().zip(&settled).filter_map(|(what, outcome)| what.carried(outcome));
        let (over, of_part) = (over.collect::<Vec<_>>(), Report::of(&settled));
        report.add(&of_part);
        self.source.settle(keys.into_iter().zip(settled).collect()).await?;
        self.metrics.count(&of_part);
        let now = Instant::now();
        self.settled.extend(over.into_iter().map(|of| (now, of)));
        Ok(())
    }

    /// Lets Redis forget the answers to records settled up to this time.
    async fn forget(&mut self, then: Option<Instant>) {
        let some = self.settled.partition_point(|(at, _)| Some(*at) <= then);
        let over: Vec<_> = self.settled.drain(..some).map(|(_, of)| of).collect();
        self.carrier.settled(&over).await;
    }

    /// Probes a Redis that was unusable the last time.
    async fn is_usable(&mut self) -> Result<(), String> {
        if self.is_doubtful {
            self.carrier.probe().await.map_err(|error| error.to_string())?;
        }
        self.is_doubtful = false;
        Ok(())
    }

    /// Carries out a change of a group.
    ///
    /// # Errors
    /// The try could not be noted.
    async fn change(
        &mut self,
        key: &S::Key,
        record: &GroupRecord,
        resting: &mut Resting,
    ) -> Result<Outcome, String> {
        if resting.holds_group(&record.group) {
            return Ok(Outcome::behind());
        }
        // A cancel of a group may be repeated until a later write is sent.
        if record.fate == Fate::NotApplied && matches!(record.change, GroupChange::Shift { .. }) {
            self.source.begin(key).await?;
        }
        Ok(self.carrier.change(resting, record).await)
    }

    async fn call(&mut self, asked: &[RecordContent], resting: &mut Resting) -> Vec<Outcome> {
        let called = timeout(self.limits.deadline, call(&mut self.carrier, asked, resting)).await;
        called.unwrap_or_else(|_| {
            let why = format!("a batch was not applied within {:?}", self.limits.deadline);
            vec![Outcome::Hold(Fate::Unknown, why); asked.len()]
        })
    }

    /// If some writes rest and none is carried out, the whole Redis may be unusable: then all writes are held.
    async fn judge(&mut self, settled: &mut [Outcome]) {
        let is_other = |outcome: &Outcome| matches!(outcome, Outcome::Hold(..) | Outcome::Done);
        let rests = settled.iter().any(|outcome| matches!(outcome, Outcome::Rest(..)));
        if !rests || settled.iter().any(is_other) {
            return;
        }
        let Err(error) = self.carrier.probe().await else { return };
        for outcome in settled {
            if let Outcome::Rest(fate, _) = outcome {
                *outcome = Outcome::Hold(*fate, error.to_string());
            }
        }
    }
}

/// Carries out the writes of a part. In a part that ran to the end, an untried write rests behind another write of the
/// message.
async fn call(carrier: &mut Carrier, asked: &[RecordContent], resting: &mut Resting) -> Vec<Outcome> {
    let (mut writes, mut places) = (Vec::new(), Vec::new());
    let mut settled: Vec<Outcome> = Vec::with_capacity(asked.len());
    for (place, what) in asked.iter().enumerate() {
        settled.push(match what {
            RecordContent::Write(write) => {
                writes.push(write);
                places.push(place);
                Outcome::Untried
            }
            RecordContent::Behind | RecordContent::Change(_) => Outcome::behind(),
            RecordContent::Unfit(why) => Outcome::Reject(why.clone()),
        });
    }
    let answers = carrier.carry_out(resting, &writes).await;
    let is_held = answers.iter().any(|answer| matches!(answer, Outcome::Hold(..)));
    for (place, answer) in places.into_iter().zip(answers) {
        settled[place] = if answer == Outcome::Untried && !is_held { Outcome::behind() } else { answer };
    }
    settled
}

/// Waits for a part, and reports an overlong part; the next report clears that.
async fn watched<T>(condition: &Condition, mut part: impl Future<Output = T> + Unpin) -> T {
    if let Ok(ended) = timeout(PATIENCE, &mut part).await {
        return ended;
    }
    tracing::error!("not ready: no record has been settled for 2 s");
    condition.unready("no record has been settled for 2 s");
    part.await
}

// === impl StepPlan ===

impl StepPlan {
    /// Plans a step: the records to ask for, and the end of the wait for them.
    fn next(&mut self, now: Instant) -> (Want, Instant) {
        let (want, until) = match self.held_until.filter(|until| *until > now) {
            Some(until) => (Want::Nothing, until),
            None if self.rests.is_due(now) => (Want::Rested, now),
            None => (Want::New, self.rests.again_at()),
        };
        (want, until.min(now + SHOW_EVERY))
    }
}

// === impl SourceLoop ===

impl SourceLoop {
    /// Takes until shutdown; finishes the batch under way.
    ///
    /// # Errors
    /// None: an unusable Redis or source is tried again.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fault> {
        self.0.run(shutdown).await;
        Ok(())
    }

    /// The name of the source.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

// === impl RecordContent ===

impl RecordContent {
    /// The answer for Redis to forget once the source has noted the outcome.
    fn carried(&self, outcome: &Outcome) -> Option<(Target, RecordId)> {
        match self {
            Self::Write(write) if outcome.is_over() => write.carried(),
            _ => None,
        }
    }
}
