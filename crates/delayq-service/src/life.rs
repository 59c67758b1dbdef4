//! The life of a process, recited: configuration, logs, build, announce, run, drain.
//!
//! ```text
//! main ─► catch signals ─► config ─► logs ─► admin endpoint ─► build ─► announce ─► run ─► drain ─► exit code
//!                            │                not ready ·········│······· ready ·····│··· not ready
//!                            └─ 78                     69, 78 ───┘     task ended ───┘    deadline: 75
//! ```
//!
//! Signals are caught before anything else, so that whoever stops a process that is just starting sees it end with 0.
//!
//! A service is a struct that `build` makes and `run` takes apart into tasks:
//!
//! ```no_run
//! use delayq_service::config::RedisConfig;
//! use delayq_service::{Fault, Process, Program, Service, Tasks};
//!
//! delayq_service::sections! {
//!     /// The sections that this service uses.
//!     struct Config { redis: RedisConfig }
//! }
//!
//! struct Timer;
//!
//! impl Service for Timer {
//!     type Config = Config;
//!     const PROGRAM: Program = Program { name: "delayq-timer", version: env!("CARGO_PKG_VERSION") };
//!
//!     async fn build(_config: Config, _process: &Process) -> Result<Self, Fault> { Ok(Self) }
//!
//!     fn run(self, tasks: &Tasks) {
//!         let shutdown = tasks.shutdown().clone();
//!         tasks.spawn("pump", async move {
//!             shutdown.requested().await;
//!             Ok(())
//!         });
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     delayq_service::main_of_arguments::<Timer>()
//! }
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::admin::{Admin, AdminState, router};
use crate::arguments::Asked;
use crate::codes::{DRAIN_DEADLINE, SYSTEM};
use crate::config::{AdminConfig, Environment, LogConfig, Places, Section, ShutdownConfig, Source, load};
use crate::exit::Exit;
use crate::fault::Fault;
use crate::healthcheck::healthcheck;
use crate::metrics::Metrics;
use crate::program::Program;
use crate::readiness::{Condition, Readiness};
use crate::shutdown::Shutdown;
use crate::signals::Signals;
use crate::systemd;
use crate::tasks::{Drained, Supervisor, Tasks};
use crate::telemetry;

/// A long-running program.
///
/// # Contract
/// `build` does all that can fail and starts no task. `run` cannot fail: it starts tasks that run until shutdown is
/// asked for and then finish or give back what they hold.
pub trait Service: Sized {
    /// Its configuration.
    type Config: ServiceConfig;

    /// What it is called.
    const PROGRAM: Program;

    /// Makes it, from a configuration without faults.
    ///
    /// # Errors
    /// The fault that the process ends with.
    fn build(config: Self::Config, process: &Process) -> impl Future<Output = Result<Self, Fault>>;

    /// Starts its tasks.
    fn run(self, tasks: &Tasks);
}

/// The sections of a configuration that the life of the process needs.
pub trait ServiceConfig: Section {
    /// `[log]`.
    fn log(&self) -> &LogConfig;
    /// `[admin]`.
    fn admin(&self) -> &AdminConfig;
    /// `[shutdown]`.
    fn shutdown(&self) -> &ShutdownConfig;
}

/// What a process passes to the one who builds its service.
#[derive(Clone, Debug)]
pub struct Process {
    /// What it is called.
    pub program: Program,
    /// Where to register what is counted.
    pub metrics: Metrics,
    /// Where to add conditions of being ready. The process has one of its own, `process`.
    pub readiness: Readiness,
    /// When to stop.
    pub shutdown: Shutdown,
    /// Where the keys of its configuration are written.
    pub places: Places,
}

/// The settings of a life.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// The admin endpoint.
    pub admin: AdminConfig,
    /// The drain.
    pub shutdown: ShutdownConfig,
}

// === impl Process ===

impl Process {
    /// A process in which nothing is registered.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            metrics: Metrics::new(),
            readiness: Readiness::new(),
            shutdown: Shutdown::new(),
            places: Places::default(),
        }
    }
}

/// The whole `main` of a service. Faults of the configuration are printed on standard error, later ones logged.
#[must_use]
pub fn main<S: Service>(source: &Source) -> ExitCode {
    install_tls();
    // A panic outside the tasks is a bug as well, and has the same exit code as one inside.
    let exit = catch_unwind(AssertUnwindSafe(|| recite::<S>(source))).unwrap_or(Ok(Exit::Bug));
    let exit = exit.unwrap_or_else(|fault| {
        eprintln!("{}: {fault}", S::PROGRAM.name);
        fault.exit()
    });
    exit.into()
}

/// The whole `main` of a service whose arguments name its configuration, or ask for its help or version.
#[must_use]
pub fn main_of_arguments<S: Service>() -> ExitCode {
    match Asked::of(S::PROGRAM, std::env::args_os().skip(1)) {
        Asked::Run(source) => main::<S>(&source),
        Asked::Healthcheck(source) => match health::<S>(&source) {
            Ok(()) => Exit::Done.into(),
            Err(fault) => {
                eprintln!("{}: {fault}", S::PROGRAM.name);
                fault.exit().into()
            }
        },
        Asked::Print(text) => {
            print!("{text}");
            Exit::Done.into()
        }
        Asked::Unknown(why) => {
            eprint!("{why}");
            Exit::Usage.into()
        }
    }
}

/// Makes rustls use ring; the first line of every `main` and of every test that speaks TLS. Safe to call twice.
pub fn install_tls() {
    // The error says that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Runs a service inside a runtime that exists already, from catching signals to the end of the drain.
///
/// For a program with more around it than [`main`] has, such as one that starts the servers it needs: it must have
/// installed TLS and started logging. Faults are logged and become the exit code. `build` gives back what starts the
/// tasks; a signal while it builds drops it where it waits.
pub async fn live<B, R>(program: Program, life: &Life, build: B) -> Exit
where
    B: AsyncFnOnce(&Process) -> Result<R, Fault>,
    R: FnOnce(&Tasks),
{
    let lived = async { lived(Signals::catch()?, &Process::new(program), life, build).await };
    lived.await.unwrap_or_else(|fault| logged(&fault))
}

/// Whether the process that runs with this configuration is ready.
fn health<S: Service>(source: &Source) -> Result<(), Fault> {
    let config = load::<S::Config>(source, &Environment::of_process())?.config;
    healthcheck(&config.admin().listen)
}

fn recite<S: Service>(source: &Source) -> Result<Exit, Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name(S::PROGRAM.name)
        .build()
        .map_err(|error| Fault::new(&SYSTEM, "cannot start the runtime").because(error))?;
    let signals = runtime.block_on(async { Signals::catch() })?;

    let loaded = load::<S::Config>(source, &Environment::of_process())?;
    let config = loaded.config;
    telemetry::init(config.log())?;
    tracing::info!(
        config = loaded.source,
        overridden = loaded.overridden.join(" "),
        "{} starting",
        S::PROGRAM
    );

    let life = Life { admin: config.admin().clone(), shutdown: config.shutdown().clone() };
    let process = Process { places: loaded.places, ..Process::new(S::PROGRAM) };
    let exit = runtime.block_on(lived(signals, &process, &life, async |process| {
        let service = S::build(config, process).await?;
        Ok(|tasks: &Tasks| service.run(tasks))
    }));
    let exit = exit.unwrap_or_else(|fault| logged(&fault));
    // What outlived the drain was named; waiting for it here would pass the deadline after all.
    runtime.shutdown_background();
    Ok(exit)
}

async fn lived<B, R>(signals: Signals, process: &Process, life: &Life, build: B) -> Result<Exit, Fault>
where
    B: AsyncFnOnce(&Process) -> Result<R, Fault>,
    R: FnOnce(&Tasks),
{
    let (tasks, mut supervisor) = Tasks::new(process.shutdown.clone());
    let beside = Beside::start(signals, process, &tasks, life).await?;

    let Some(built) = process.shutdown.or(build(process)).await else {
        tracing::info!("asked to stop before everything was built");
        return Ok(Exit::Done);
    };
    let run = built?;

    run(&tasks);
    beside.announce();

    let ended = supervisor.watch().await;
    if let Err(fault) = &ended {
        log(fault);
    }

    beside.condition.unready("draining");
    systemd::stopping();
    let exit = drain(supervisor, life).await;
    Ok(ended.map_or_else(|fault| fault.exit(), |()| exit))
}

/// What runs beside the tasks and outlives them: signals, admin endpoint, watchdog.
struct Beside {
    condition: Condition,
    helpers: tokio::task::JoinSet<()>,
}

// === impl Beside ===

impl Beside {
    async fn start(signals: Signals, process: &Process, tasks: &Tasks, life: &Life) -> Result<Self, Fault> {
        let condition = process.readiness.condition("process");
        let admin = Admin::bind(&life.admin, &process.metrics).await?;
        if let Some(address) = admin.address() {
            tracing::info!(%address, "admin endpoint listening");
        }
        let Process { program, metrics, readiness, shutdown, .. } = process.clone();
        let mut helpers = tokio::task::JoinSet::new();
        helpers.spawn(signals.obey(shutdown, tasks.clone()));
        helpers.spawn(systemd::keep_alive(readiness.clone()));
        helpers.spawn(admin.serve(router(AdminState { program, metrics, readiness })));
        Ok(Self { condition, helpers })
    }

    fn announce(&self) {
        debug_assert_eq!(self.helpers.len(), 3, "signals, admin endpoint and watchdog run until the end");
        self.condition.ready();
        systemd::ready();
        tracing::info!("started");
    }
}

async fn drain(supervisor: Supervisor, life: &Life) -> Exit {
    let deadline = life.shutdown.drain_deadline;
    let Drained { left_running, faults } = supervisor.drain(*deadline).await;
    faults.iter().for_each(log);
    if !left_running.is_empty() {
        let names = left_running.join(", ");
        log(&Fault::new(&DRAIN_DEADLINE, format!("after {deadline} still running: {names}")));
        return Exit::DrainDeadline;
    }
    tracing::info!("drained");
    faults.first().map_or(Exit::Done, Fault::exit)
}

/// The exit code of a fault that ended a life.
fn logged(fault: &Fault) -> Exit {
    log(fault);
    fault.exit()
}

/// A fault is logged once, here, where it is decided that the process ends of it.
fn log(fault: &Fault) {
    let code = fault.code();
    tracing::error!(code = code.id, cause = code.cause, first_try = code.tries[0], "{fault}");
}
