//! Rehearses a day: replays an event log faster than real time against a running delayq, and checks the deliveries.
//!
//! ```text
//! log ─► script (steps and expectations) ─► player ─► Redis ─► timer ─► forwarder ─► file
//!            │                day (log time ─► Redis's clock) ▲                         │
//!            └─────────────────────► verdict ◄── deliveries ──┴─────────────────────────┘
//! ```
//! The program starts and drives `delayq up` from outside, as a user would. The journal in the data folder records
//! progress: a killed rehearsal resumes.

mod day;
mod deliveries;
mod journal;
mod player;
mod run;
mod script;
mod up;
mod verdict;
mod view;

use crate::day::Day;
use crate::journal::Journal;
use crate::player::Clock;
use crate::run::{Played, Run};
use crate::script::Script;
use crate::up::Up;
use clap::Parser;
use delayq_bench::program::{arguments, end};
use delayq_cli::deployment::Global;
use delayq_cli::failure::{file, usage};
use delayq_cli::output::{Output, say};
use delayq_service::config::HumanDuration;
use delayq_service::{Exit, Fault, Shutdown};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Replay an event log faster than real time, and check the deliveries
///
/// The log has one event per line: {"at":TIME,"put":{"topic":…,"id":…,"group":…,"due":TIME,"payload":…}}, or
/// "reschedule" with a new due time, or "cancel". Resumes after a crash when given the same --data.
#[derive(Debug, Parser)]
#[command(name = "delayq-rehearse", version, max_term_width = 100, verbatim_doc_comment)]
struct Rehearse {
    /// The event log, NDJSON
    log: PathBuf,
    /// Start `delayq up` in the folder --data, and stop it at the end
    #[arg(long)]
    up: bool,
    /// With --up: the folder for all data
    #[arg(long, value_name = "DIR", default_value = ".delayq")]
    data: PathBuf,
    /// With --up: run without etcd
    #[arg(long)]
    no_etcd: bool,
    /// Time from the first event to the last due time. Default 60s
    #[arg(long, value_name = "DURATION", conflicts_with = "speed")]
    within: Option<HumanDuration>,
    /// Speed relative to the log
    #[arg(long, value_name = "FACTOR")]
    speed: Option<f64>,
    /// With --up: start over instead of resuming
    #[arg(long, requires = "up")]
    fresh: bool,
    /// Without --up: the file that the forwarder appends deliveries of the log's topics to
    #[arg(long, value_name = "FILE", conflicts_with = "up", required_unless_present = "up")]
    delivered: Option<PathBuf>,
    #[command(flatten)]
    global: Global,
}

/// `delayq up` ends with the thread that started it, so everything runs on the main thread.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    delayq_service::install_tls();
    match arguments::<Rehearse>() {
        Ok(rehearse) => end("delayq-rehearse", rehearse.run().await),
        Err(code) => code,
    }
}

// === impl Rehearse ===

impl Rehearse {
    async fn run(self) -> Result<Exit, Fault> {
        let text = std::fs::read_to_string(&self.log).map_err(|error| file(&self.log, "read", error))?;
        let script = Script::parse(&text).map_err(|faults| {
            let more = faults.len().saturating_sub(5);
            let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
            let first = faults[..faults.len().min(5)].join("\n  ");
            usage(format!("{} is not an event log:\n  {first}{more}", self.log.display()))
        })?;
        let speed = self.speed(&script)?;
        match &self.delivered {
            Some(delivered) => self.against(delivered.clone(), script, speed).await,
            None => self.with_up(script, speed).await,
        }
    }

    fn speed(&self, script: &Script) -> Result<f64, Fault> {
        match (self.speed, self.within) {
            (Some(speed), _) if speed.is_finite() && speed > 0.0 => Ok(speed),
            (Some(speed), _) => Err(usage(format!("--speed {speed}: must be more than 0"))),
            (None, Some(within)) if within.is_zero() => Err(usage("--within 0s: must be more than 0")),
            (None, within) => {
                let within = within.map_or(Duration::from_secs(60), |within| *within);
                Ok(Day::speed_within(script.first_ms, script.last_ms, within))
            }
        }
    }

    async fn against(&self, delivered: PathBuf, mut script: Script, speed: f64) -> Result<Exit, Fault> {
        let context = self.global.context()?;
        script.pace(speed);
        let run =
            Run { script, output: context.output, delivered, client: context.client().clone(), folder: None };
        let journal = run.begin(speed).await?;
        let player = run.player(journal, Clock::of(&run.client).await?);
        let played = run.play(player, &interrupted()).await?;
        let delayq = match self.global.file() {
            Some(config) => format!("delayq --config {}", config.display()),
            None => format!("delayq --redis {} --shards {}", run.client.address(), run.client.shards()),
        };
        run.conclude(played, &delayq)
    }

    async fn with_up(&self, mut script: Script, speed: f64) -> Result<Exit, Fault> {
        let output = Output::of_process(self.global.json());
        let journal = if self.fresh { None } else { Journal::resume(&self.data, &script)? };
        script.pace(journal.as_ref().map_or(speed, |journal| journal.day.speed));
        if !output.json {
            say(&format!("starting everything in {} …", self.data.display()))?;
        }
        let topics: Vec<String> = script.topics().iter().map(ToString::to_string).collect();
        let delivered = self.data.join("forwarded/delivered.ndjson");
        if journal.is_some() {
            // First without a forwarder: messages that the log cancelled meanwhile may be due, and must not be
            // delivered.
            let up = self.start_up(&[]).await?;
            let folder = Some(self.data.clone());
            let run = Run { script, output, delivered: delivered.clone(), client: up.client()?, folder };
            run.pause().await?;
            script = run.script;
            up.stop().await?;
        }
        let mut up = self.start_up(&topics).await?;
        let run = Run { script, output, delivered, client: up.client()?, folder: Some(self.data.clone()) };
        let journal = match journal {
            Some(interrupted) => run.resume(interrupted, Clock::of(&run.client).await?).await?,
            None => run.begin(speed).await?,
        };
        let player = run.player(journal, Clock::of(&run.client).await?);
        let shutdown = interrupted();
        let played: Result<Played, Fault> = tokio::select! {
            played = run.play(player, &shutdown) => played,
            ended = up.ended() => Err(ended),
        };
        let stopped = up.stop().await;
        let exit =
            run.conclude(played?, &format!("delayq --config {}", self.data.join("delayq.toml").display()))?;
        stopped.map(|()| exit)
    }

    async fn start_up(&self, topics: &[String]) -> Result<Up, Fault> {
        Up::start(&self.data, topics, |command| {
            if self.no_etcd {
                command.arg("--no-etcd");
            }
            if let Some(namespace) = &self.global.namespace {
                command.args(["--namespace", namespace.as_str()]);
            }
            if let Some(shards) = self.global.shards {
                command.args(["--shards", &shards.to_string()]);
            }
        })
        .await
    }
}

fn interrupted() -> Shutdown {
    let shutdown = Shutdown::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.request();
        }
    });
    shutdown
}
