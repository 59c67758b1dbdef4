//! The compensator's process: configuration, logs, build, announce, run, drain.

use delayq::admin::Role;
use delayq_compensator::codes::NO_SPOOL;
use delayq_compensator::{
    Compensator, CompensatorConfig, Deps, IntakeConfig, IntakeDeps, Intakes, OutboxConfig, OutboxDeps,
    OutboxReader, build, build_intakes, build_outbox, watch_confirmations,
};
use delayq_service::config::{DeploymentConfig, RedisConfig, SpoolConfig};
use delayq_service::{Fault, Fitness, Process, Program, Service, Tasks};
use std::collections::BTreeMap;

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

/// The writes that it carries out come from one or more places.
struct CompensatorService {
    spool: Option<Compensator>,
    intakes: Intakes,
    outbox: Option<OutboxReader>,
    fitness: Fitness,
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
                Some(build(compensator, deps).await?)
            }
        };
        let outbox = match outbox.url {
            None => None,
            Some(_) => {
                let (metrics, readiness) = (process.metrics.clone(), process.readiness.clone());
                Some(build_outbox(outbox, OutboxDeps { client, metrics, readiness }).await?)
            }
        };
        Ok(Self { spool, intakes, outbox, fitness })
    }

    fn run(self, tasks: &Tasks) {
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("fitness of Redis", self.fitness.watch(shutdown.clone()));
        if let Some(spool) = self.spool {
            tasks.spawn("compensator", spool.run(shutdown.clone()));
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
