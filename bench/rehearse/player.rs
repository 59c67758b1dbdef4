//! The player: carries out the log's steps at their times in the compressed day.
//!
//! Steps due at the same time go together and count once answered: after a kill the last few steps may be repeated,
//! which changes nothing.

use crate::journal::{Journal, Odd};
use crate::script::{Act, Script, Step};
use delayq::{
    Admin, CancelOutcome, Client, Due, Error, Message, Producer, PutOutcome, Reschedule, RescheduleOutcome,
    Target, Topic, UnixMillis,
};
use delayq_cli::deployment::redis_now;
use delayq_cli::failure::of_core;
use delayq_service::{Fault, Shutdown};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

const MAX_STEPS: usize = 500;
/// Maximum absence of Redis before the rehearsal gives up.
const PATIENCE: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_millis(200);

pub(crate) struct Player<'p> {
    pub(crate) script: &'p Script,
    pub(crate) journal: Journal,
    producer: Producer,
    clock: Clock,
    folder: Option<&'p Path>,
}

/// Redis's clock, extrapolated by this host's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    redis: UnixMillis,
    here: Instant,
}

// === impl Clock ===

impl Clock {
    pub(crate) async fn of(client: &Client) -> Result<Self, Fault> {
        let redis = redis_now(&Admin::new(client.clone())).await?;
        Ok(Self { redis, here: Instant::now() })
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.redis + self.here.elapsed()
    }

    fn when(&self, at: UnixMillis) -> Instant {
        self.here + at.since(self.redis)
    }
}

// === impl Player ===

impl<'p> Player<'p> {
    pub(crate) fn new(
        script: &'p Script,
        journal: Journal,
        producer: Producer,
        clock: Clock,
        folder: Option<&'p Path>,
    ) -> Self {
        Self { script, journal, producer, clock, folder }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) async fn catch_up(&mut self) -> Result<(), Fault> {
        while self.ripe() > 0 {
            self.batch().await?;
        }
        Ok(())
    }

    /// Plays to the end, or until shutdown. Calls `progress` with the number of finished steps.
    pub(crate) async fn play(
        &mut self,
        shutdown: &Shutdown,
        mut progress: impl FnMut(usize),
    ) -> Result<(), Fault> {
        while let Some(next) = self.script.steps.get(self.journal.done) {
            let at = self.clock.when(self.journal.day.real(next.play_ms));
            if shutdown.or(sleep_until(at)).await.is_none() {
                break;
            }
            self.batch().await?;
            progress(self.journal.done);
        }
        Ok(())
    }

    fn ripe(&self) -> usize {
        let now = self.clock.now();
        let left = &self.script.steps[self.journal.done..];
        left.iter().take(MAX_STEPS).take_while(|step| self.journal.day.real(step.play_ms) <= now).count()
    }

    /// Plays the next steps; at least one. A script changes no message before its put or after its cancel, so steps of
    /// a kind go together: puts, then reschedules, then cancels.
    async fn batch(&mut self) -> Result<(), Fault> {
        let left = &self.script.steps[self.journal.done..];
        let some = &left[..self.ripe().max(1).min(left.len())];
        let mut kinds: BTreeMap<(u8, &Topic), Vec<&Step>> = BTreeMap::new();
        for step in some {
            kinds.entry((step.act.order(), &step.topic)).or_default().push(step);
        }
        let mut odd = Vec::new();
        for ((_, topic), alike) in kinds {
            let answers = self.patiently(topic, &alike).await?;
            let now = self.clock.now();
            odd.extend(alike.iter().zip(answers).filter_map(|(step, answer)| {
                let late = step.until_ms.is_some_and(|due_ms| self.journal.day.real(due_ms) <= now);
                Some(Odd { line: step.line, answer: answer?, late })
            }));
        }
        self.journal.odd.extend(odd);
        self.journal.done += some.len();
        match self.folder {
            Some(folder) => self.journal.save(folder),
            None => Ok(()),
        }
    }

    /// For each step, the answer if it contradicts the log. Tolerates an absence of Redis: every step is safe to
    /// repeat.
    async fn patiently(&self, topic: &Topic, some: &[&Step]) -> Result<Vec<Option<String>>, Fault> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.send(topic, some).await {
                Ok(answers) => return Ok(answers),
                Err(error) if error.is_outage() && Instant::now() < deadline => sleep(REST).await,
                Err(error) => return Err(of_core(error)),
            }
        }
    }

    async fn send(&self, topic: &Topic, some: &[&Step]) -> Result<Vec<Option<String>>, Error> {
        match &some[0].act {
            Act::Put { .. } => {
                let messages: Vec<Message> = some.iter().map(|step| self.message(step)).collect();
                let answers = self.producer.put_many(messages).await.into_iter();
                answers
                    .map(|answer| answer.map(|put| odd_put(&put.outcome)).map_err(|error| error.error))
                    .collect()
            }
            Act::Reschedule { .. } => {
                let changes: Vec<(Target, Reschedule)> = some.iter().map(|step| self.change(step)).collect();
                let answers = self.producer.reschedule_many(topic, &changes).await.into_iter();
                answers.map(|answer| answer.map(|outcome| odd_move(&outcome))).collect()
            }
            Act::Cancel => {
                let targets: Vec<Target> = some.iter().map(|step| step.target.clone()).collect();
                let answers = self.producer.cancel_many(topic, &targets).await.into_iter();
                answers.map(|answer| answer.map(|outcome| odd_cancel(&outcome))).collect()
            }
        }
    }

    fn message(&self, step: &Step) -> Message {
        match &step.act {
            Act::Put { due_ms, payload } => step.message(self.journal.day.real(*due_ms), payload),
            _ => unreachable!("only steps of one kind are sent together"),
        }
    }

    fn change(&self, step: &Step) -> (Target, Reschedule) {
        match step.act {
            Act::Reschedule { due_ms } => {
                (step.target.clone(), Reschedule::To(Due::At(self.journal.day.real(due_ms))))
            }
            _ => unreachable!("only steps of one kind are sent together"),
        }
    }
}

fn odd_put(outcome: &PutOutcome) -> Option<String> {
    match outcome {
        PutOutcome::Stored(_) | PutOutcome::Ready(_) | PutOutcome::Exists(..) => None,
        other => Some(format!("put was answered {other:?}")),
    }
}

fn odd_move(outcome: &RescheduleOutcome) -> Option<String> {
    match outcome {
        RescheduleOutcome::Moved { .. } => None,
        other => Some(format!("reschedule was answered {other:?}")),
    }
}

fn odd_cancel(outcome: &CancelOutcome) -> Option<String> {
    match outcome {
        CancelOutcome::Cancelled => None,
        other => Some(format!("cancel was answered {other:?}")),
    }
}
