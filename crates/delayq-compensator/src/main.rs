//! The compensator's process: configuration, logs, build, announce, run, drain.

use delayq_compensator::{Compensator, CompensatorConfig, Deps, build, codes::NO_SPOOL};
use delayq_service::config::{
    AdminConfig, DeploymentConfig, Faults, LogConfig, RedisConfig, Section, ShutdownConfig, Source,
    SpoolConfig,
};
use delayq_service::{Fault, Process, Program, Service, ServiceConfig, Tasks};
use serde::{Deserialize, Serialize};

/// The sections that a compensator uses.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    deployment: DeploymentConfig,
    redis: RedisConfig,
    spool: SpoolConfig,
    compensator: CompensatorConfig,
    admin: AdminConfig,
    log: LogConfig,
    shutdown: ShutdownConfig,
}

struct CompensatorService(Compensator);

// === impl Config ===

impl Section for Config {
    fn validate(&self, at: &mut Faults) {
        at.section("deployment", &self.deployment);
        at.section("redis", &self.redis);
        at.section("spool", &self.spool);
        at.section("compensator", &self.compensator);
        at.section("admin", &self.admin);
        at.section("log", &self.log);
        at.section("shutdown", &self.shutdown);
    }
}

impl ServiceConfig for Config {
    fn log(&self) -> &LogConfig {
        &self.log
    }

    fn admin(&self) -> &AdminConfig {
        &self.admin
    }

    fn shutdown(&self) -> &ShutdownConfig {
        &self.shutdown
    }
}

// === impl CompensatorService ===

impl Service for CompensatorService {
    type Config = Config;

    const PROGRAM: Program = Program { name: "delayq-compensator", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, process: &Process) -> Result<Self, Fault> {
        let Config { deployment, redis, spool, compensator, .. } = config;
        let folder = spool.folder().ok_or_else(|| Fault::new(&NO_SPOOL, "`[spool] dir` is empty"))?;
        let client = delayq_service::deployment::client(&deployment, &redis)?;
        let deps = Deps {
            client,
            spool: folder.to_owned(),
            holder: format!("{}, process {}", Self::PROGRAM, std::process::id()),
            metrics: process.metrics.clone(),
            readiness: process.readiness.clone(),
        };
        build(compensator, deps).await.map(Self)
    }

    fn run(self, tasks: &Tasks) {
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("compensator", self.0.run(shutdown));
    }
}

fn main() -> std::process::ExitCode {
    let path = std::env::args_os().nth(1).map(Into::into);
    delayq_service::main::<CompensatorService>(&Source::from_option(path))
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
