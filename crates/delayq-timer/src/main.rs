//! The timer's process: configuration, logs, build, announce, run, drain.

use delayq::admin::Role;
use delayq_cluster::{EtcdConfig, advertised};
use delayq_service::config::{DeploymentConfig, RedisConfig};
use delayq_service::{Fault, Fitness, Process, Program, Service, Tasks};
use delayq_timer::{Deps, SweepConfig, Timer, TimerConfig, build, stores};

delayq_service::sections! {
    /// The configuration sections of a timer.
    struct Config {
        deployment: DeploymentConfig,
        redis: RedisConfig,
        etcd: EtcdConfig,
        timer: TimerConfig,
        sweep: SweepConfig,
    } and |config, at| config.deployment.contradictions(&config.redis, at)
}

struct TimerService {
    timer: Timer,
    fitness: Fitness,
}

// === impl TimerService ===

impl Service for TimerService {
    type Config = Config;

    const PROGRAM: Program = Program { name: "delayq-timer", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, process: &Process) -> Result<Self, Fault> {
        let Config { deployment, redis, etcd, timer, sweep, admin, .. } = config;
        let client = delayq_service::deployment::client_of(Role::Timer, &deployment, &redis)?;
        let address = advertised(&admin, process.admin, &etcd).await;
        let membership = stores::membership(&timer, &deployment, &etcd, address);
        let (metrics, readiness) = (process.metrics.clone(), process.readiness.clone());
        let deps = Deps { client: client.clone(), metrics, readiness, membership, sweep };
        let timer = build(timer, deps).await?;
        Ok(Self { timer, fitness: Fitness::found(&client, &process.readiness) })
    }

    fn run(self, tasks: &Tasks) {
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("fitness of Redis", self.fitness.watch(shutdown.clone()));
        tasks.spawn("timer", self.timer.run(shutdown));
    }
}

fn main() -> std::process::ExitCode {
    delayq_service::main_of_arguments::<TimerService>()
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
