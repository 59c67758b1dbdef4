//! The life of a process: configuration, logs, build, announce, run, drain.
//!
//! ```text
//! main ─► catch signals ─► config ─► logs ─► admin endpoint ─► build ─► announce ─► run ─► drain ─► exit code
//!                            │                not ready ·········│······· ready ·····│··· not ready
//!                            └─ 78                     69, 78 ───┘     task ended ───┘    deadline: 75
//! ```
//!
//! Signals are caught before anything else, so that a process that is stopped while starting exits with 0.
//!
//! A service is a struct that `build` creates and `run` splits into tasks:
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

use crate::admin::{Admin, AdminState, Limits, router};
use crate::arguments::Asked;
use crate::codes::{DRAIN_DEADLINE, SYSTEM};
use crate::config::{AdminConfig, Environment, Locations, LogConfig, Section, ShutdownConfig, Source, load};
use crate::exit::Exit;
use crate::fault::Fault;
use crate::healthcheck::healthcheck;
use crate::metrics::Metrics;
use crate::program::Program;
use crate::readiness::{Condition, Readiness};
use crate::shutdown::Shutdown;
use crate::signals::{Hangups, Signals};
use crate::systemd;
use crate::tasks::{Drained, Supervisor, Tasks};
use crate::telemetry::{self, Logging};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;

/// A long-running program.
///
/// # Contract
/// `build` does all that can fail and starts no task. `run` cannot fail: it starts tasks that run until shutdown and then
/// finish or give back what they hold.
pub trait Service: Sized {
    /// Its configuration.
    type Config: ServiceConfig + 'static;

    /// What it is called.
    const PROGRAM: Program;

    /// Creates it from a validated configuration.
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

/// What a process provides for building its service.
#[derive(Clone, Debug)]
pub struct Process {
    /// What it is called.
    pub program: Program,
    /// Where to register metrics.
    pub metrics: Metrics,
    /// Where to add conditions of readiness. The process has one of its own, `process`.
    pub readiness: Readiness,
    /// When to stop.
    pub shutdown: Shutdown,
    /// Where the keys of its configuration are written.
    pub locations: Locations,
    /// Where its admin endpoint listens, with the port that it was given; `None` if it is off.
    pub admin: Option<SocketAddr>,
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
            locations: Locations::default(),
            admin: None,
        }
    }
}

/// The whole `main` of a service. Faults of the configuration are printed on standard error, later ones logged.
#[must_use]
pub fn main<S: Service>(source: &Source) -> ExitCode {
    install_tls();
    // A panic outside the tasks has the same exit code as one inside.
    let exit = catch_unwind(AssertUnwindSafe(|| run::<S>(source))).unwrap_or(Ok(Exit::Bug));
    let exit = exit.unwrap_or_else(|fault| {
        eprintln!("{}: {fault}", S::PROGRAM.name);
        fault.exit()
    });
    exit.into()
}

/// The whole `main` of a service whose arguments name its configuration, or ask for help, version or health.
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

/// Makes rustls use ring, and OpenSSL, which the client of Kafka brings, live as long as the process; the first line of every
/// `main` and of every test with TLS. Idempotent.
pub fn install_tls() {
    // The error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // By itself it is torn down when `main` returns, under threads of the client that still end.
    #[cfg(feature = "kafka")]
    openssl_sys::init();
}

/// Runs a service inside an existing runtime, from catching signals to the end of the drain.
///
/// For a program that does more than [`main`], such as one that starts the servers it needs: it must have installed TLS and
/// started logging. Faults are logged and become the exit code. `build` returns what starts the tasks; a signal during
/// `build` drops it at its await.
pub async fn live<B, R>(program: Program, life: &Life, build: B) -> Exit
where
    B: AsyncFnOnce(&Process) -> Result<R, Fault>,
    R: FnOnce(&Tasks),
{
    let lived = async { lived(Signals::catch()?, &Process::new(program), life, build).await };
    lived.await.unwrap_or_else(|fault| logged(&fault))
}

/// Whether the process with this configuration is ready.
fn health<S: Service>(source: &Source) -> Result<(), Fault> {
    let config = load::<S::Config>(source, &Environment::of_process())?.config;
    healthcheck(&config.admin().listen)
}

fn run<S: Service>(source: &Source) -> Result<Exit, Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name(S::PROGRAM.name)
        .build()
        .map_err(|error| Fault::new(&SYSTEM, "cannot start the runtime").because(error))?;
    let signals = runtime.block_on(async { Signals::catch() })?;
    let hangups = runtime.block_on(async { Hangups::catch() });

    let loaded = load::<S::Config>(source, &Environment::of_process())?;
    let config = loaded.config;
    let logging = Arc::new(telemetry::init(config.log())?);
    runtime.spawn(tend_logs::<S::Config>(Arc::clone(&logging), hangups, source.clone()));
    tracing::info!(
        config = loaded.source,
        overridden = loaded.overridden.join(" "),
        "{} starting",
        S::PROGRAM
    );

    let life = Life { admin: config.admin().clone(), shutdown: config.shutdown().clone() };
    let process = Process { locations: loaded.locations, ..Process::new(S::PROGRAM) };
    let exit = runtime.block_on(lived(signals, &process, &life, async |process| {
        let service = S::build(config, process).await?;
        Ok(|tasks: &Tasks| service.run(tasks))
    }));
    let exit = exit.unwrap_or_else(|fault| logged(&fault));
    logging.report_repeats();
    // Tasks that outlived the drain were named; waiting for them here would exceed the deadline after all.
    runtime.shutdown_background();
    Ok(exit)
}

/// Tells what was left out of the logs, and reads `[log] filter` again at each SIGHUP.
async fn tend_logs<C: ServiceConfig>(logging: Arc<Logging>, mut hangups: Hangups, source: Source) {
    loop {
        tokio::select! {
            () = hangups.next() => {}
            () = logging.report_now_and_then() => {}
        }
        match load::<C>(&source, &Environment::of_process()) {
            Ok(loaded) => logging.follow(loaded.config.log()),
            Err(faults) => {
                tracing::warn!(%faults, "the log filter stays as it is: the configuration has faults");
            }
        }
    }
}

async fn lived<B, R>(signals: Signals, process: &Process, life: &Life, build: B) -> Result<Exit, Fault>
where
    B: AsyncFnOnce(&Process) -> Result<R, Fault>,
    R: FnOnce(&Tasks),
{
    let (tasks, mut supervisor) = Tasks::new(process.shutdown.clone());
    let background = Background::start(signals, process, &tasks, life).await?;
    let process = &Process { admin: background.admin, ..process.clone() };

    let Some(built) = process.shutdown.or(build(process)).await else {
        tracing::info!("stopped before everything was built");
        return Ok(Exit::Done);
    };
    let run = built?;

    run(&tasks);
    background.announce();

    let ended = supervisor.watch().await;
    if let Err(fault) = &ended {
        log(fault);
    }

    background.condition.unready("draining");
    systemd::stopping();
    let exit = drain(supervisor, life).await;
    Ok(ended.map_or_else(|fault| fault.exit(), |()| exit))
}

/// What runs in the background and outlives the tasks: signals, admin endpoint, watchdog.
struct Background {
    condition: Condition,
    admin: Option<SocketAddr>,
    helpers: tokio::task::JoinSet<()>,
}

// === impl Background ===

impl Background {
    async fn start(signals: Signals, process: &Process, tasks: &Tasks, life: &Life) -> Result<Self, Fault> {
        let condition = process.readiness.condition("process");
        let admin = Admin::bind(&life.admin, Limits::default(), &process.metrics).await?;
        let address = admin.address();
        if let Some(address) = address {
            tracing::info!(%address, "admin endpoint listening");
        }
        let Process { program, metrics, readiness, shutdown, .. } = process.clone();
        metrics.build_info(program);
        let mut helpers = tokio::task::JoinSet::new();
        helpers.spawn(signals.obey(shutdown, tasks.clone()));
        helpers.spawn(systemd::keep_alive(readiness.clone()));
        helpers.spawn(admin.serve(router(AdminState { program, metrics, readiness })));
        Ok(Self { condition, admin: address, helpers })
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

/// Logs a fault that ends the process, and returns its exit code.
fn logged(fault: &Fault) -> Exit {
    log(fault);
    fault.exit()
}

/// A fault is logged once, here, where it ends the process.
fn log(fault: &Fault) {
    let code = fault.code();
    tracing::error!(code = code.id, cause = code.cause, first_try = code.tries[0], "{fault}");
}
