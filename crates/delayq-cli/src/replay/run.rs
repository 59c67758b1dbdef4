//! One run of a replay: begun or gone on with, played while it is watched, judged at its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use delayq_core::{Admin, Client, Numbers, Producer, ProducerOptions};
use delayq_service::{Exit, Fault, Shutdown};
use tokio::time::{Instant, sleep};

use super::day::Day;
use super::deliveries::Deliveries;
use super::journal::Journal;
use super::player::{Clock, Player};
use super::script::{Act, Script};
use super::verdict::{Verdict, judge};
use super::view::{Shown, View};
use crate::deployment::redis_now;
use crate::failure::{UNBALANCED, of_core};
use crate::output::{Output, complain, say};
use crate::up::DataFolder;

/// How long after the last due time, or the start of a life, deliveries may still come in.
const GRACE: Duration = Duration::from_secs(30);
/// From the start to the first event.
const LEAD: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often books that do not balance are read again: shards are read one after the other.
const AUDITS: u32 = 10;

/// Where the file with the deliveries is, and how the log is judged in the end.
pub struct Run {
    /// What is played.
    pub script: Script,
    /// How to print.
    pub output: Output,
    /// The file that the forwarder appends deliveries to.
    pub delivered: PathBuf,
    /// The deployment that it is played against.
    pub client: Client,
    /// Where the journal is kept; without one, a replay that is interrupted begins anew.
    pub folder: Option<Arc<DataFolder>>,
}

/// What a run came to.
pub struct Played {
    journal: Journal,
    unbalanced: Vec<String>,
    interrupted: bool,
}

// === impl Run ===

impl Run {
    /// The journal of a replay that begins now.
    ///
    /// # Errors
    /// Redis cannot be used, or the journal cannot be written.
    pub async fn begin(&self, speed: f64) -> Result<Journal, Fault> {
        let start_ms = (redis_now(&self.client).await? + LEAD).get();
        let day = Day { first_ms: self.script.first_ms, last_ms: self.script.last_ms, start_ms, speed };
        let journal = Journal::new(&self.script, day, Deliveries::end_of(&self.delivered));
        if let Some(folder) = &self.folder {
            journal.save(folder)?;
        }
        Ok(journal)
    }

    /// Goes on after a kill: what the log did meanwhile is done before anything can be delivered.
    ///
    /// # Errors
    /// Redis cannot be used, or the journal cannot be written.
    pub async fn resume(&self, journal: Journal, clock: Clock) -> Result<Journal, Fault> {
        let steps = journal.done;
        if let Some(folder) = &self.folder {
            journal.save(folder)?;
        }
        let mut player = self.player(journal, clock);
        player.catch_up().await?;
        if !self.output.json {
            let caught_up = player.journal.done - steps;
            say(&format!(
                "going on with an interrupted replay: {steps} events were done, {caught_up} are made up for"
            ))?;
        }
        Ok(player.journal)
    }

    /// The player of its script.
    pub fn player(&self, journal: Journal, clock: Clock) -> Player<'_> {
        let producer = Producer::start(self.client.clone(), ProducerOptions::default());
        Player::new(&self.script, journal, producer, clock, self.folder.as_deref())
    }

    /// Plays to the last delivery, while showing how it stands.
    ///
    /// # Errors
    /// Redis or a file cannot be used.
    pub async fn play(&self, mut player: Player<'_>, shutdown: &Shutdown) -> Result<Played, Fault> {
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

    /// Shows how it stands until everything is delivered that is to be, or the time for that is over.
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
            sleep(LOOK_EVERY).await;
        }
    }

    async fn numbers(&self) -> Result<Numbers, Fault> {
        let admin = Admin::new(self.client.clone());
        let mut total = Numbers::default();
        for topic in self.script.topics() {
            total.add(&admin.count(&topic).await.map_err(of_core)?);
        }
        Ok(total)
    }

    /// The topics whose books do not balance.
    async fn audit(&self) -> Result<Vec<String>, Fault> {
        let admin = Admin::new(self.client.clone());
        let mut unbalanced = Vec::new();
        for topic in self.script.topics() {
            let mut balances = false;
            for _ in 0..AUDITS {
                balances = admin.count(&topic).await.map_err(of_core)?.balances();
                if balances {
                    break;
                }
                sleep(LOOK_EVERY).await;
            }
            if !balances {
                unbalanced.push(topic.to_string());
            }
        }
        Ok(unbalanced)
    }

    /// Judges once nothing can be delivered any more. `delayq` is how a command for the same deployment begins.
    ///
    /// # Errors
    /// What was delivered is not what the log says.
    pub fn conclude(&self, played: Played, delayq: &str) -> Result<Exit, Fault> {
        let Played { mut journal, unbalanced, interrupted } = played;
        if interrupted {
            complain(&format!(
                "delayq: interrupted after {} of {} events; the same command goes on",
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
        if !verdict.exact {
            return Err(Fault::new(
                &UNBALANCED,
                format!("what was delivered into {} is not what the log says", self.delivered.display()),
            ));
        }
        if !self.output.json {
            say(&self.next(delayq))?;
        }
        Ok(Exit::Done)
    }

    fn next(&self, delayq: &str) -> String {
        let topic = self.script.steps[0].topic.as_str();
        let up = match &self.folder {
            Some(folder) => format!("delayq up --data {} &", folder.path().display()),
            None => format!("{delayq} topics"),
        };
        format!(
            "exactly what the log says was delivered, to {}\n\ntry next:\n  {up}\n  \
             {delayq} put {topic} '{{\"hello\":\"world\"}}' --in 5s\n  {delayq} audit",
            self.delivered.display()
        )
    }
}
