//! The compensator's process: configuration, logs, build, announce, run, drain.

use delayq::admin::Role;
use delayq_compensator::codes::NO_SPOOL;
use delayq_compensator::{
    CompensatorConfig, IntakeConfig, OutboxConfig, Sources, SourcesConfig, SourcesDeps, watch_confirmations,
};
use delayq_service::config::{DeploymentConfig, RedisConfig, SpoolConfig};
use delayq_service::{Fault, Fitness, Process, Program, Service, Tasks};
use std::collections::BTreeMap;
use std::path::Path;

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

/// Carries out the writes of all sources. An unusable source ends the process only if there is no other.
struct CompensatorService {
    sources: Sources,
    fitness: Fitness,
}

// === impl CompensatorService ===

impl Service for CompensatorService {
    type Config = Config;

    const PROGRAM: Program = Program { name: "delayq-compensator", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, process: &Process) -> Result<Self, Fault> {
        let Config { deployment, redis, spool, outbox, compensator, intake, .. } = config;
        let spool = spool.folder().map(Path::to_owned);
        let config = SourcesConfig { spool, compensator, outbox, intake };
        if config.count() == 0 {
            let why = "`[spool] dir` is empty, `[outbox] url` is unset, and there is no [intake.NAME]";
            return Err(Fault::new(&NO_SPOOL, why));
        }
        let client = delayq_service::deployment::client_of(Role::Compensator, &deployment, &redis)?;
        watch_confirmations(&client, &process.metrics);
        // Redis may be unavailable: resubmitting starts once Redis is back.
        let fitness = Fitness::if_there(&client, &process.readiness).await?;
        let deps = SourcesDeps {
            client,
            holder: format!("{}, process {}", Self::PROGRAM, std::process::id()),
            metrics: process.metrics.clone(),
            readiness: process.readiness.clone(),
        };
        let is_alone = config.count() == 1;
        let sources = Sources::build(config, deps, is_alone).await?;
        Ok(Self { sources, fitness })
    }

    fn run(self, tasks: &Tasks) {
        tasks.spawn("fitness of Redis", self.fitness.watch(tasks.shutdown().clone()));
        self.sources.run(tasks);
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
