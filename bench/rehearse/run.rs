//! One run of a rehearsal: started or resumed, played and watched, then judged.

use crate::day::Day;
use crate::deliveries::Deliveries;
use crate::journal::Journal;
use crate::player::{Clock, Player};
use crate::script::{Act, Script};
use crate::verdict::{Conclusion, Verdict, judge};
use crate::view::{Shown, View};
use delayq::admin::Numbers;
use delayq::{Admin, Client, Producer, ProducerOptions};
use delayq_cli::deployment::redis_now;
use delayq_cli::failure::of_core;
use delayq_cli::output::{Output, complain, say};
use delayq_service::codes::Code;
use delayq_service::{Exit, Fault, Shutdown};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time for deliveries after the last due time, or after the start of a process.
const GRACE: Duration = Duration::from_secs(30);
/// Time from the start to the first event.
const LEAD: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Retries of unbalanced books: the shards are read in sequence.
const AUDITS: u32 = 10;

/// The deliveries contradict the log.
const UNEXPECTED: Code = Code {
    id: "DQ-B002",
    title: "the deliveries contradict the log",
    cause: "A message of the log is missing, came at another time or twice, or one that it does not know came; or the books \
            of a topic do not balance. That is a bug, or somebody else used these topics meanwhile.",
    tries: [
        "Find the differences: the table above, and the examples of --json.",
        "Start over in an empty folder: --data DIR, or --fresh.",
        "Report it with this output and the logs in DIR/logs/.",
    ],
    exit: Exit::Bug,
};

/// Only steps that this machine played too late contradict the log.
const INCONCLUSIVE: Code = Code {
    id: "DQ-B003",
    title: "this machine was too busy to judge",
    cause: "Changes were played after their messages were due, so these messages may have been delivered or not. Everything \
            else is what the log says.",
    tries: [
        "Repeat on a less busy machine.",
        "Replay more slowly: --within 5m.",
        "Find the messages: the examples of --json.",
    ],
    exit: Exit::Unavailable,
};

pub(crate) struct Run {
    pub(crate) script: Script,
    pub(crate) output: Output,
    pub(crate) delivered: PathBuf,
    pub(crate) client: Client,
    /// `None`: an interrupted rehearsal starts over.
    pub(crate) folder: Option<PathBuf>,
}

pub(crate) struct Played {
    journal: Journal,
    unbalanced: Vec<String>,
    interrupted: bool,
}

// === impl Run ===

impl Run {
    pub(crate) async fn begin(&self, speed: f64) -> Result<Journal, Fault> {
        let start_ms = (redis_now(&Admin::new(self.client.clone())).await? + LEAD).get();
        let day = Day { first_ms: self.script.first_ms, last_ms: self.script.last_ms, start_ms, speed };
        let journal = Journal::new(&self.script, day, Deliveries::end_of(&self.delivered));
        if let Some(folder) = &self.folder {
            journal.save(folder)?;
        }
        Ok(journal)
    }

    /// Pauses the log's topics, so that nothing is delivered before [`Run::resume`] has caught up with cancels.
    pub(crate) async fn pause(&self) -> Result<(), Fault> {
        let admin = Admin::new(self.client.clone());
        for topic in self.script.topics() {
            admin.topic(&topic).pause().await.map_err(of_core)?;
        }
        Ok(())
    }

    /// Resumes after a kill: plays the steps missed meanwhile, then resumes the topics.
    pub(crate) async fn resume(&self, journal: Journal, clock: Clock) -> Result<Journal, Fault> {
        let steps = journal.done;
        if let Some(folder) = &self.folder {
            journal.save(folder)?;
        }
        let mut player = self.player(journal, clock);
        player.catch_up().await?;
        let admin = Admin::new(self.client.clone());
        for topic in self.script.topics() {
            admin.topic(&topic).resume().await.map_err(of_core)?;
        }
        if !self.output.json {
            let caught_up = player.journal.done - steps;
            say(&format!(
                "resuming an interrupted rehearsal: {steps} events were played, {caught_up} are made up for"
            ))?;
        }
        Ok(player.journal)
    }

    pub(crate) fn player(&self, journal: Journal, clock: Clock) -> Player<'_> {
        let producer = Producer::start(self.client.clone(), ProducerOptions::default());
        Player::new(&self.script, journal, producer, clock, self.folder.as_deref())
    }

    /// With a live view.
    pub(crate) async fn play(&self, mut player: Player<'_>, shutdown: &Shutdown) -> Result<Played, Fault> {
        let (clock, shown) = (player.clock(), player.journal.clone());
        let done = AtomicUsize::new(shown.done);
        let order = Ordering::Relaxed;
        let watched = self.watch(shown, clock, || done.load(order));
        let playing = player.play(shutdown, |steps| done.store(steps, order));
        let (played, interrupted) = tokio::select! {
            both = async { tokio::try_join!(playing, watched) } => (both.map(|_| ()), false),
            () = shutdown.requested() => (Ok(()), true),
        };
        played?;
        let unbalanced = if interrupted { Vec::new() } else { self.audit().await? };
        Ok(Played { journal: player.journal, unbalanced, interrupted })
    }

    /// Ends when every expected delivery has arrived, or the time is up.
    async fn watch(&self, mut journal: Journal, clock: Clock, done: impl Fn() -> usize) -> Result<(), Fault> {
        let mut deliveries = Deliveries::new(&self.delivered, journal.delivered_from);
        let mut view = View::new(self.output);
        let left = journal.day.real(journal.day.last_ms).since(clock.now());
        let deadline = Instant::now() + left + GRACE;
        loop {
            journal.done = done();
            deliveries.read_on()?;
            let numbers = self.numbers().await?;
            let steps = &self.script.steps[..journal.done];
            let cancelled = steps.iter().filter(|step| matches!(step.act, Act::Cancel)).count();
            let now = clock.now();
            view.show(&Shown {
                now,
                journal: &journal,
                numbers: &numbers,
                deliveries: &deliveries,
                cancelled,
            })?;
            let through = journal.done == self.script.steps.len()
                && deliveries.messages() >= self.script.deliveries()
                && now > journal.day.real(journal.day.last_ms);
            if through || Instant::now() > deadline {
                view.end();
                return Ok(());
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn numbers(&self) -> Result<Numbers, Fault> {
        let admin = Admin::new(self.client.clone());
        let mut total = Numbers::default();
        for topic in self.script.topics() {
            total.add(&admin.topic(&topic).count().await.map_err(of_core)?);
        }
        Ok(total)
    }

    async fn audit(&self) -> Result<Vec<String>, Fault> {
        let admin = Admin::new(self.client.clone());
        let mut unbalanced = Vec::new();
        for topic in self.script.topics() {
            let mut balances = false;
            for _ in 0..AUDITS {
                balances = admin.topic(&topic).count().await.map_err(of_core)?.balances();
                if balances {
                    break;
                }
                sleep(POLL_INTERVAL).await;
            }
            if !balances {
                unbalanced.push(topic.to_string());
            }
        }
        Ok(unbalanced)
    }

    /// After the last delivery. `delayq` is the beginning of a command for the same deployment.
    pub(crate) fn conclude(&self, played: Played, delayq: &str) -> Result<Exit, Fault> {
        let Played { mut journal, unbalanced, interrupted } = played;
        if interrupted {
            complain(&format!(
                "delayq-rehearse: interrupted after {} of {} events; the same command resumes",
                journal.done,
                self.script.steps.len()
            ));
            return Ok(Exit::DrainDeadline);
        }
        let mut deliveries = Deliveries::new(&self.delivered, journal.delivered_from);
        deliveries.read_on()?;
        let verdict: Verdict = judge(&self.script, &journal, &deliveries, unbalanced);
        if let Some(folder) = &self.folder {
            journal.finished = true;
            journal.save(folder)?;
        }
        self.output.print(&verdict, || format!("\n{}\n", verdict.table(self.output)))?;
        match verdict.result {
            Conclusion::Exact => {}
            Conclusion::Inconclusive => {
                let text = format!("{} messages were changed too late to judge", verdict.too_late);
                return Err(Fault::new(&INCONCLUSIVE, text));
            }
            Conclusion::Wrong => {
                let file = self.delivered.display();
                return Err(Fault::new(&UNEXPECTED, format!("the deliveries in {file} contradict the log")));
            }
        }
        if !self.output.json {
            say(&self.next(delayq))?;
        }
        Ok(Exit::Done)
    }

    fn next(&self, delayq: &str) -> String {
        let topic = self.script.steps[0].topic.as_str();
        let up = match &self.folder {
            Some(folder) => format!("delayq up --data {} &", folder.display()),
            None => format!("{delayq} topics"),
        };
        format!(
            "exactly what the log says was delivered, to {}\n\ntry next:\n  {up}\n  \
             {delayq} put {topic} '{{\"hello\":\"world\"}}' --in 5s\n  {delayq} work {topic} --count 1\n  {delayq} audit",
            self.delivered.display()
        )
    }
}
