//! `delayq replay`: an event log, faster than it happened, checked against what is delivered.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use delayq_service::{Exit, Fault, Shutdown, Tasks, live};

use crate::commands::up::{PROGRAM, Place, life};
use crate::deployment::Global;
use crate::failure::{file, usage};
use crate::output::{Output, complain, say};
use crate::replay::{Clock, Day, Journal, Played, Run, Script};
use crate::up::{DataFolder, Roles, Servers};
use crate::when::Span;

/// Play an event log back, faster than it happened, and check what is delivered
///
/// The log has one event a line: {"at":TIME,"put":{"topic":…,"id":…,"group":…,"due":TIME,"payload":…}}, or "reschedule"
/// with a new due time, or "cancel". Killed at any moment and started again with the same --data, it goes on.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Replay {
    /// The event log, NDJSON
    log: PathBuf,
    /// Start everything that is needed, in the folder --data
    #[arg(long)]
    up: bool,
    #[command(flatten)]
    place: Place,
    /// How long it takes from the first event to the last due time. Default 60s
    #[arg(long, value_name = "DURATION", conflicts_with = "speed")]
    within: Option<Span>,
    /// How many times faster than it happened
    #[arg(long, value_name = "FACTOR")]
    speed: Option<f64>,
    /// With --up: begin anew, although a replay was interrupted in the folder
    #[arg(long, requires = "up")]
    fresh: bool,
    /// Without --up: the file that the forwarder appends deliveries of the log's topics to
    #[arg(long, value_name = "FILE", conflicts_with = "up", required_unless_present = "up")]
    delivered: Option<PathBuf>,
}

// === impl Replay ===

impl Replay {
    /// Plays and judges.
    ///
    /// # Errors
    /// The log has faults, something that is needed cannot be used, or the deliveries are not what the log says.
    pub async fn run(self, global: &Global) -> Result<Exit, Fault> {
        let text = std::fs::read_to_string(&self.log).map_err(|error| file(&self.log, "read", error))?;
        let script = Script::parse(&text).map_err(|faults| {
            let more = faults.len().saturating_sub(5);
            let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
            usage(format!(
                "{} is no event log:\n  {}{more}",
                self.log.display(),
                faults[..faults.len().min(5)].join("\n  ")
            ))
        })?;
        let speed = self.speed(&script)?;
        let output = Output::of_process(global.json);
        if self.up {
            self.with_up(global, script, speed, output).await
        } else {
            self.against(global, script, speed, output).await
        }
    }

    fn speed(&self, script: &Script) -> Result<f64, Fault> {
        match (self.speed, self.within) {
            (Some(speed), _) if speed.is_finite() && speed > 0.0 => Ok(speed),
            (Some(speed), _) => Err(usage(format!("--speed {speed}: more than 0 is needed"))),
            (None, Some(within)) if within.is_zero() => Err(usage("--within 0s: more than 0 is needed")),
            (None, within) => {
                let within = within.map_or(Duration::from_secs(60), |within| *within);
                Ok(Day::speed_within(script.first_ms, script.last_ms, within))
            }
        }
    }

    /// Against a deployment that runs.
    async fn against(
        self,
        global: &Global,
        mut script: Script,
        speed: f64,
        output: Output,
    ) -> Result<Exit, Fault> {
        let client = global.context()?.client;
        let delivered = self.delivered.ok_or_else(|| usage("--delivered FILE is needed, or --up"))?;
        script.pace(speed);
        let run = Run { script, output, delivered, client, folder: None };
        let journal = run.begin(speed).await?;
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.request();
            }
        });
        let player = run.player(journal, Clock::of(&run.client).await?);
        let played = run.play(player, &shutdown).await?;
        let delayq = match &global.config {
            Some(config) => format!("delayq --config {}", config.display()),
            None => format!("delayq --redis {} --shards {}", run.client.address(), run.client.shards()),
        };
        run.conclude(played, &delayq)
    }

    /// With everything that is needed, in this process.
    async fn with_up(
        self,
        global: &Global,
        mut script: Script,
        speed: f64,
        output: Output,
    ) -> Result<Exit, Fault> {
        let folder = Arc::new(DataFolder::open(&self.place.data)?);
        log_into(&folder)?;
        let journal = if self.fresh { None } else { Journal::resume(&folder, &script)? };
        script.pace(journal.as_ref().map_or(speed, |journal| journal.day.speed));
        if !output.json {
            say(&format!("starting everything in {} …", folder.path().display()))?;
        }
        let servers = Servers::start(&folder, &self.place.options(global)?).await?;
        let text = folder.read("delayq.toml")?.unwrap_or_default();
        let (delivered, client) = (folder.delivered(), servers.client.clone());
        let run = Arc::new(Run { script, output, delivered, client, folder: Some(folder.clone()) });
        let played: Arc<Mutex<Option<Result<Played, Fault>>>> = Arc::default();
        let exit = live(PROGRAM, &life(&text)?, async |process| {
            let roles = Roles::build(&text, &servers, process).await?;
            let resumed = journal.is_some();
            let journal = match journal {
                Some(journal) => journal,
                None => run.begin(speed).await?,
            };
            let clock = Clock::of(&run.client).await?;
            let journal = if resumed { run.resume(journal, clock).await? } else { journal };
            let (servers, run, played) = (&servers, run.clone(), played.clone());
            Ok(move |tasks: &Tasks| {
                roles.run(tasks);
                servers.watch(tasks);
                let shutdown = tasks.shutdown().clone();
                tasks.spawn("replay", async move {
                    let outcome = run.play(run.player(journal, clock), &shutdown).await;
                    *played.lock().expect("nobody panics while holding it") = Some(outcome);
                    shutdown.request();
                    Ok(())
                });
            })
        })
        .await;
        servers.end(&folder).await?;
        let outcome = played.lock().expect("nobody panics while holding it").take();
        match outcome {
            Some(outcome) => {
                run.conclude(outcome?, &format!("delayq --config {}", folder.configuration().display()))
            }
            None => {
                complain(&format!(
                    "delayq: the replay did not come to its end; see {}",
                    folder.join("logs/delayq.log").display()
                ));
                Ok(if exit == Exit::Done { Exit::DrainDeadline } else { exit })
            }
        }
    }
}

/// Log lines would tear the view: they go to a file in the folder.
#[allow(clippy::disallowed_methods, reason = "RUST_LOG overrides what is logged, as it does in every binary")]
fn log_into(folder: &DataFolder) -> Result<(), Fault> {
    let path = folder.join("logs/delayq.log");
    let out = std::fs::File::options().create(true).append(true).open(&path);
    let out = out.map_err(|error| file(&path, "write", error))?;
    let filter =
        std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "info".to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(filter).map_err(usage)?;
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Mutex::new(out)).init();
    Ok(())
}
