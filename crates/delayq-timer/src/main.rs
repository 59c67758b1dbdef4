//! The timer's process: configuration, logs, build, announce, run, drain.

use delayq_service::config::{
    AdminConfig, DeploymentConfig, EtcdConfig, Faults, LogConfig, RedisConfig, Section, ShutdownConfig,
    Source,
};
use delayq_service::{Fault, Process, Program, Service, ServiceConfig, Tasks};
use delayq_timer::{Deps, Timer, TimerConfig, build, stores};
use serde::{Deserialize, Serialize};

/// The sections that a timer uses.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    deployment: DeploymentConfig,
    redis: RedisConfig,
    etcd: EtcdConfig,
    timer: TimerConfig,
    admin: AdminConfig,
    log: LogConfig,
    shutdown: ShutdownConfig,
}

struct TimerService(Timer);

// === impl Config ===

impl Section for Config {
    fn validate(&self, at: &mut Faults) {
        at.section("deployment", &self.deployment);
        at.section("redis", &self.redis);
        at.section("etcd", &self.etcd);
        at.section("timer", &self.timer);
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

// === impl TimerService ===

impl Service for TimerService {
    type Config = Config;

    const PROGRAM: Program = Program { name: "delayq-timer", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, process: &Process) -> Result<Self, Fault> {
        let Config { deployment, redis, etcd, timer, admin, .. } = config;
        let client = delayq_service::deployment::client(&deployment, &redis)?;
        let membership = stores::membership(&timer, &deployment, &etcd, admin.listen.to_string())?;
        let (metrics, readiness) = (process.metrics.clone(), process.readiness.clone());
        build(timer, Deps { client, metrics, readiness, membership }).await.map(Self)
    }

    fn run(self, tasks: &Tasks) {
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("timer", self.0.run(shutdown));
    }
}

fn main() -> std::process::ExitCode {
    let path = std::env::args_os().nth(1).map(Into::into);
    delayq_service::main::<TimerService>(&Source::from_option(path))
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
