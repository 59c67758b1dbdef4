//! The compensator's process: configuration, logs, build, announce, run, drain.

use delayq::admin::Role;
use delayq_compensator::codes::NO_SPOOL;
use delayq_compensator::{
    Compensator, CompensatorConfig, Deps, IntakeConfig, IntakeDeps, Intakes, OutboxConfig, OutboxDeps,
    OutboxReader, build, build_intakes, build_outbox, outbox_reader, watch_confirmations,
};
use delayq_service::config::{DeploymentConfig, RedisConfig, SpoolConfig};
use delayq_service::{Fault, Fitness, Process, Program, Readiness, Service, Shutdown, Tasks};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a spool that cannot be opened is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

delayq_service::sections! {
    /// The sections that a compensator uses.
    struct Config {
        deployment: DeploymentConfig,
        redis: RedisConfig,
        spool: SpoolConfig,
        outbox: OutboxConfig,
        compensator: CompensatorConfig,
        intake: BTreeMap<String, IntakeConfig>,
    } and |config, at| config.deployment.contradictions(&config.redis, at)
}

/// The writes that it carries out come from one or more places. One that cannot be used ends the process only if there is no
/// other: else it is tried again, and the process is not ready meanwhile.
struct CompensatorService {
    spool: Option<Spooled>,
    intakes: Intakes,
    outbox: Option<OutboxReader>,
    fitness: Fitness,
    readiness: Readiness,
}

/// The compensator of a spool.
enum Spooled {
    Opened(Box<Compensator>),
    /// It cannot be opened for now, for this reason.
    Closed(Box<(Fault, CompensatorConfig, Deps)>),
}

// === impl Spooled ===

impl Spooled {
    async fn open(config: CompensatorConfig, deps: Deps, is_alone: bool) -> Result<Self, Fault> {
        match build(config.clone(), deps.clone()).await {
            Ok(opened) => Ok(Self::Opened(Box::new(opened))),
            Err(fault) if is_alone => Err(fault),
            Err(fault) => Ok(Self::Closed(Box::new((fault, config, deps)))),
        }
    }

    async fn run(self, readiness: Readiness, shutdown: Shutdown) -> Result<(), Fault> {
        let (mut fault, config, deps) = match self {
            Self::Opened(opened) => return opened.run(shutdown).await,
            Self::Closed(closed) => *closed,
        };
        tracing::error!(%fault, "the spool cannot be opened; what else is recorded is carried out");
        let condition = readiness.condition("compensator");
        loop {
            condition.unready(format!("the spool cannot be opened: {fault}"));
            if shutdown.or(tokio::time::sleep(TRY_AGAIN)).await.is_none() {
                return Ok(());
            }
            match build(config.clone(), deps.clone()).await {
                Ok(opened) => return opened.run(shutdown).await,
                Err(again) => fault = again,
            }
        }
    }
}

// === impl CompensatorService ===

impl Service for CompensatorService {
    type Config = Config;

    const PROGRAM: Program = Program { name: "delayq-compensator", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, process: &Process) -> Result<Self, Fault> {
        let Config { deployment, redis, spool, outbox, compensator, intake, .. } = config;
        if spool.folder().is_none() && intake.is_empty() && outbox.url.is_none() {
            let why = "`[spool] dir` is empty, `[outbox] url` is unset, and there is no [intake.NAME]";
            return Err(Fault::new(&NO_SPOOL, why));
        }
        let client = delayq_service::deployment::client_of(Role::Compensator, &deployment, &redis)?;
        watch_confirmations(&client, &process.metrics);
        // Redis may be unavailable: resubmitting starts once it is back.
        let fitness = Fitness::if_there(&client, &process.readiness).await?;
        let deps = IntakeDeps {
            client: client.clone(),
            metrics: process.metrics.clone(),
            readiness: process.readiness.clone(),
        };
        let intakes = build_intakes(&intake, &deps)?;
        let sources =
            intake.len() + usize::from(spool.folder().is_some()) + usize::from(outbox.url.is_some());
        let is_alone = sources == 1;
        let spool = match spool.folder() {
            None => None,
            Some(folder) => {
                let deps = Deps {
                    client: client.clone(),
                    spool: folder.to_owned(),
                    holder: format!("{}, process {}", Self::PROGRAM, std::process::id()),
                    metrics: process.metrics.clone(),
                    readiness: process.readiness.clone(),
                };
                Some(Spooled::open(compensator, deps, is_alone).await?)
            }
        };
        let outbox = match outbox.url {
            None => None,
            Some(_) => {
                let (metrics, readiness) = (process.metrics.clone(), process.readiness.clone());
                let deps = OutboxDeps { client, metrics, readiness };
                Some(if is_alone { build_outbox(outbox, deps).await? } else { outbox_reader(outbox, deps)? })
            }
        };
        Ok(Self { spool, intakes, outbox, fitness, readiness: process.readiness.clone() })
    }

    fn run(self, tasks: &Tasks) {
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("fitness of Redis", self.fitness.watch(shutdown.clone()));
        if let Some(spool) = self.spool {
            tasks.spawn("compensator", spool.run(self.readiness.clone(), shutdown.clone()));
        }
        if let Some(outbox) = self.outbox {
            tasks.spawn("outbox", outbox.run(shutdown));
        }
        self.intakes.run(tasks);
    }
}

fn main() -> std::process::ExitCode {
    delayq_service::main_of_arguments::<CompensatorService>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_file_holds_every_key_with_its_default() {
        let sample = include_str!("../../../config/delayq.toml");
        delayq_service::config::check_sample::<Config>(sample).unwrap();
    }
}
