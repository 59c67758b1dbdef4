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
use crate::arguments::Invocation;
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
/// `build` does all that can fail and starts no task. `run` cannot fail: it starts tasks that run until shutdown and
/// then finish or give back their work.
pub trait Service: Sized {
    /// The configuration.
    type Config: ServiceConfig + 'static;

    /// Name and version.
    const PROGRAM: Program;

    /// Creates the service from a validated configuration.
    ///
    /// # Errors
    /// The fault that ends the process.
    fn build(config: Self::Config, process: &Process) -> impl Future<Output = Result<Self, Fault>>;

    /// Starts the tasks.
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

/// The environment for building a service.
#[derive(Clone, Debug)]
pub struct Process {
    /// Name and version.
    pub program: Program,
    /// The registry for metrics.
    pub metrics: Metrics,
    /// Readiness of the process, open to more conditions. The process's own condition is `process`.
    pub readiness: Readiness,
    /// Requested when the process should stop.
    pub shutdown: Shutdown,
    /// The location of each configuration key.
    pub locations: Locations,
    /// The admin endpoint's address with the actual port; `None` if the endpoint is off.
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
    /// A process without registrations.
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

/// The whole `main` of a service. Prints faults of the configuration on standard error, and logs later faults.
#[must_use]
pub fn main<S: Service>(source: &Source) -> ExitCode {
    install_tls();
    // A panic outside the tasks has the same exit code as a panic inside.
    let exit = catch_unwind(AssertUnwindSafe(|| run::<S>(source))).unwrap_or(Ok(Exit::Bug));
    let exit = exit.unwrap_or_else(|fault| {
        eprintln!("{}: {fault}", S::PROGRAM.name);
        fault.exit()
    });
    exit.into()
}

/// The whole `main` of a service with command line arguments: a configuration, or a request for help, version or
/// health.
#[must_use]
pub fn main_of_arguments<S: Service>() -> ExitCode {
    match Invocation::of(S::PROGRAM, std::env::args_os().skip(1)) {
        Invocation::Run(source) => main::<S>(&source),
        Invocation::Healthcheck(source) => match health::<S>(&source) {
            Ok(()) => Exit::Done.into(),
            Err(fault) => {
                eprintln!("{}: {fault}", S::PROGRAM.name);
                fault.exit().into()
            }
        },
        Invocation::Print(text) => {
            print!("{text}");
            Exit::Done.into()
        }
        Invocation::Unknown(why) => {
            eprint!("{why}");
            Exit::Usage.into()
        }
    }
}

/// Makes rustls use ring, and keeps OpenSSL (a dependency of the Kafka client) alive until the process ends. The first
/// line of every `main` and of every test with TLS. Idempotent.
pub fn install_tls() {
    // The error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // OpenSSL's default tears it down when `main` returns, while threads of the Kafka client are still ending.
    #[cfg(feature = "kafka")]
    openssl_sys::init();
}

/// Runs a service inside an existing runtime, from catching signals to the end of the drain.
///
/// Serves programs that do more than [`main`], such as starting their own servers. Such a program must have installed
/// TLS and started logging. Faults are logged and become the exit code. `build` returns the function that starts the
/// tasks; a signal during `build` drops the future at its await.
pub async fn live<B, R>(program: Program, life: &Life, build: B) -> Exit
where
    B: AsyncFnOnce(&Process) -> Result<R, Fault>,
    R: FnOnce(&Tasks),
{
    let lived = async { lived(Signals::catch()?, &Process::new(program), life, build).await };
    lived.await.unwrap_or_else(|fault| logged(&fault))
}

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
    // Tasks that outlived the drain were named; waiting here would exceed the deadline after all.
    runtime.shutdown_background();
    Ok(exit)
}

/// Reports suppressed log lines, and reads `[log] filter` again at each SIGHUP.
async fn tend_logs<C: ServiceConfig>(logging: Arc<Logging>, mut hangups: Hangups, source: Source) {
    loop {
        tokio::select! {
            () = hangups.next() => {}
            () = logging.report_now_and_then() => {}
        }
        match load::<C>(&source, &Environment::of_process()) {
            Ok(loaded) => logging.follow(loaded.config.log()),
            Err(faults) => {
                tracing::warn!(%faults, "the log filter is unchanged: the configuration has faults");
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

/// Background tasks that outlive the service's tasks: signals, admin endpoint, watchdog.
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

fn logged(fault: &Fault) -> Exit {
    log(fault);
    fault.exit()
}

/// Logs a fault where it ends the process; no other code logs faults.
fn log(fault: &Fault) {
    let code = fault.code();
    tracing::error!(code = code.id, cause = code.cause, first_try = code.tries[0], "{fault}");
}
