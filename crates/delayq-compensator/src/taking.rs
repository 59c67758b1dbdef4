//! The one loop over recorded writes, a task for each source: take, carry out, settle; rest while that cannot be done.
//!
//! ```text
//!  next records, in order ─► put · cancel · reschedule ─► settle: done, rejected, or resting until it is tried again
//!           ▲                          │
//!           └────── back off ◄─────────┴─ Redis or the source cannot be used: everything stays in order
//! ```
//! The process may die between any two of these. Redis answers the repeat of a record's write as it answered the first, and
//! changes nothing. What Redis cannot recognise is settled before what follows it is sent.

use crate::outcome::Settle;
use crate::resting::{Resting, message_of};
use crate::rests::{Rests, back_off};
use crate::source::{Recorded, Source, Want, What};
use crate::source_metrics::SourceMetrics;
use crate::writes::{Carrier, Write};
use async_trait::async_trait;
use delayq::protocol::RecordId;
use delayq::{Fate, Target};
use delayq_service::{Condition, Fault, Shutdown};
use futures_util::FutureExt as _;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How often the metrics are brought up to date while nothing happens.
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// How long nothing may be settled of what was handed out, until the process is not ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// A source under way.
pub(crate) struct Taking<S: Source> {
    /// The name of the source.
    pub(crate) name: String,
    pub(crate) source: S,
    pub(crate) carrier: Carrier,
    pub(crate) metrics: SourceMetrics,
    pub(crate) condition: Condition,
    /// The longest rest between two tries.
    pub(crate) longest_rest: Duration,
    /// How long calls to Redis for one batch may take.
    pub(crate) deadline: Duration,
    /// Redis could not be used the last time: it is probed before anything is sent.
    pub(crate) is_doubtful: bool,
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Records that were handed out.
    pub taken: u64,
    /// Records that were sent to Redis.
    pub sent: u64,
    /// Records that were carried out.
    pub done: u64,
    /// Records that can never be carried out.
    pub rejected: u64,
    /// Records that rest.
    pub resting: u64,
    /// Why the first of these rests.
    pub why: Option<String>,
    /// Why Redis could not be used; `None`: it could.
    pub held: Option<String>,
}

/// The loop of a source that is ready to run.
pub struct SourceLoop(pub(crate) Box<dyn Takes>);

/// A loop, whatever its source.
#[async_trait]
pub(crate) trait Takes: Send {
    /// Takes until shutdown; what is under way is finished.
    async fn run(self: Box<Self>, shutdown: Shutdown);

    /// The name of the source.
    fn name(&self) -> &str;
}

// === impl Taking ===

#[async_trait]
impl<S: Source> Takes for Taking<S> {
    async fn run(mut self: Box<Self>, shutdown: Shutdown) {
        let mut rests = Rests::new(self.longest_rest, Instant::now());
        let (mut failures, mut held_until, mut said) = (0, None::<Instant>, None::<String>);
        while !shutdown.is_requested() {
            let now = Instant::now();
            let (want, until) = match held_until.filter(|until| *until > now) {
                Some(until) => (Want::Nothing, until),
                None if rests.is_due(now) => (Want::Rested, now),
                None => (Want::New, rests.again_at()),
            };
            let Some(batch) = shutdown.or(self.source.next(want, until.min(now + SHOW_EVERY))).await else {
                break;
            };
            let step = match batch {
                Ok(batch) => self.carry_out(batch).await,
                Err(why) => Err(why),
            };
            let (report, held) = match step {
                Ok(mut report) => (report.clone(), report.held.take()),
                Err(why) => (Report::default(), Some(why)),
            };
            let (seen, now) = (self.source.seen(), Instant::now());
            self.metrics.show(&seen);
            if rests.note(seen.resting, now) {
                let (source, why) = (&self.name, report.why.as_deref());
                tracing::warn!(
                    source,
                    records = seen.resting,
                    why,
                    "records rest alone, and are tried again"
                );
            }
            if want == Want::Rested && report.done > 0 {
                // What kept them seems to be over: the others do not wait for their next try.
                rests.hurry(now);
            }
            if let Some(why) = held {
                failures += 1;
                held_until = Some(now + back_off(failures, self.longest_rest));
                self.metrics.hold();
                self.condition.unready(why.clone());
                if said.as_ref() != Some(&why) {
                    let source = &self.name;
                    tracing::warn!(source, why, "records cannot be carried out now, and stay in order");
                    said = Some(why);
                }
            } else if want == Want::New || report.taken > 0 {
                (failures, held_until, said) = (0, None, None);
                self.condition.ready();
            }
        }
        self.source.close().await;
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl<S: Source> Taking<S> {
    /// Carries out a batch, part by part, and settles each.
    ///
    /// # Errors
    /// Why the source cannot note what became of it.
    async fn carry_out(&mut self, batch: Vec<Recorded<S::Key>>) -> Result<Report, String> {
        let mut report = Report { taken: batch.len() as u64, ..Report::default() };
        let (mut resting, mut ended) = (Resting::default(), Ok(()));
        let mut parts = apart(batch).into_iter();
        while ended.is_ok()
            && report.held.is_none()
            && let Some(part) = parts.next()
        {
            let condition = self.condition.clone();
            // In a box: the calls to Redis nest too deep for the compiler to see whether all of it may be sent.
            let done = self.part(part, &mut resting, &mut report).boxed();
            ended = watched(&condition, done).await;
        }
        let left: Vec<_> = parts.flatten().map(|recorded| (recorded.key, Settle::Untried)).collect();
        if !left.is_empty() {
            ended = ended.and(self.source.settle(left).await);
        }
        self.is_doubtful = report.held.is_some();
        ended.map(|()| report)
    }

    async fn part(
        &mut self,
        part: Vec<Recorded<S::Key>>,
        resting: &mut Resting,
        report: &mut Report,
    ) -> Result<(), String> {
        let (keys, asked): (Vec<_>, Vec<_>) =
            part.into_iter().map(|recorded| (recorded.key, recorded.what)).unzip();
        let settled = self.try_part(&asked, resting).await;
        let over = asked.iter().zip(&settled).filter_map(|(what, settle)| what.carried(settle));
        let (over, of_part) = (over.collect::<Vec<_>>(), Report::of(&settled));
        report.add(&of_part);
        self.source.settle(keys.into_iter().zip(settled).collect()).await?;
        self.metrics.count(&of_part);
        self.carrier.settled(&over).await;
        Ok(())
    }

    /// Calls Redis for a part, unless that is still unavailable.
    async fn try_part(&mut self, asked: &[What], resting: &mut Resting) -> Vec<Settle> {
        if self.is_doubtful
            && let Err(error) = self.carrier.probe().await
        {
            return vec![Settle::Hold(Fate::NotApplied, error.to_string()); asked.len()];
        }
        self.is_doubtful = false;
        let called = timeout(self.deadline, call(&mut self.carrier, asked, resting)).await;
        let mut settled = called.unwrap_or_else(|_| {
            let why = format!("a batch was not carried out within {:?}", self.deadline);
            vec![Settle::Hold(Fate::Unknown, why); asked.len()]
        });
        let is_held = settled.iter().any(|settle| matches!(settle, Settle::Hold(..)));
        let rests = settled.iter().any(|settle| matches!(settle, Settle::Rest(..)));
        // Where nothing at all is carried out, it may be the whole Redis.
        if rests
            && !is_held
            && !settled.contains(&Settle::Done)
            && let Err(error) = self.carrier.probe().await
        {
            for settle in &mut settled {
                if let Settle::Rest(fate, _) = settle {
                    *settle = Settle::Hold(*fate, error.to_string());
                }
            }
        }
        settled
    }
}

/// What becomes of the records of a part. Where nothing ended it, what was not tried rests behind a record of its message.
async fn call(carrier: &mut Carrier, asked: &[What], resting: &mut Resting) -> Vec<Settle> {
    let (mut writes, mut places) = (Vec::new(), Vec::new());
    let mut settled: Vec<Settle> = Vec::with_capacity(asked.len());
    for (place, what) in asked.iter().enumerate() {
        settled.push(match what {
            What::Write(write) => {
                writes.push(write);
                places.push(place);
                Settle::Untried
            }
            What::Behind => Settle::behind(),
            What::Unfit(why) => Settle::Reject(why.clone()),
        });
    }
    let answers = carrier.carry_out(resting, &writes).await;
    let is_held = answers.iter().any(|answer| matches!(answer, Settle::Hold(..)));
    for (place, answer) in places.into_iter().zip(answers) {
        settled[place] = if answer == Settle::Untried && !is_held { Settle::behind() } else { answer };
    }
    settled
}

/// A batch in parts. What Redis cannot recognise is settled before a later write of its message is sent, so that a repeat
/// cannot undo that one: a cancel that came before a put would cancel it.
fn apart<K>(batch: Vec<Recorded<K>>) -> Vec<Vec<Recorded<K>>> {
    let (mut parts, mut open) = (vec![Vec::new()], HashSet::new());
    for recorded in batch {
        if let What::Write(Write { record, id: None, .. }) = &recorded.what
            && !open.insert(message_of(record))
        {
            parts.push(Vec::new());
            open = HashSet::from([message_of(record)]);
        }
        parts.last_mut().expect("there is a first part").push(recorded);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Waits for a part, and reports one that takes too long; the next report clears that.
async fn watched<T>(condition: &Condition, mut part: impl Future<Output = T> + Unpin) -> T {
    if let Ok(ended) = timeout(PATIENCE, &mut part).await {
        return ended;
    }
    tracing::error!("no record has been settled for 2 s: not ready");
    condition.unready("no record has been settled for 2 s");
    part.await
}

// === impl Report ===

impl Report {
    fn of(settled: &[Settle]) -> Self {
        let mut report = Self::default();
        for settle in settled {
            report.sent += u64::from(*settle != Settle::Untried);
            match settle {
                Settle::Done => report.done += 1,
                Settle::Reject(_) => report.rejected += 1,
                Settle::Rest(_, why) => {
                    report.resting += 1;
                    report.why.get_or_insert_with(|| why.clone());
                }
                Settle::Hold(_, why) => drop(report.held.get_or_insert_with(|| why.clone())),
                Settle::Untried => {}
            }
        }
        report
    }

    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.done += other.done;
        self.rejected += other.rejected;
        self.resting += other.resting;
        self.why = self.why.take().or_else(|| other.why.clone());
        self.held = self.held.take().or_else(|| other.held.clone());
    }
}

// === impl SourceLoop ===

impl SourceLoop {
    /// Takes until shutdown; what is under way is finished.
    ///
    /// # Errors
    /// None: what cannot be used is tried again.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fault> {
        self.0.run(shutdown).await;
        Ok(())
    }

    /// The name of the source.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

// === impl What ===

impl What {
    /// What is to be forgotten in Redis once the source has noted what became of a record.
    fn carried(&self, settle: &Settle) -> Option<(Target, RecordId)> {
        match self {
            Self::Write(write) if settle.is_over() => write.carried(),
            _ => None,
        }
    }
}
