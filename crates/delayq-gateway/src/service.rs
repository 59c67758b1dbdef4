//! The gateway as a service: sections and life.

use crate::config::GatewayConfig;
use crate::gateway::{Deps, Gateway, build};
use crate::lmstfy::LmstfyConfig;
use crate::spool::open_spool;
use delayq::admin::Role;
use delayq_look::{Deployment, EtcdConfig};
use delayq_service::config::{DeploymentConfig, RedisConfig, SpoolConfig};
use delayq_service::{Fault, Fitness, Process, Program, Service, Tasks};

delayq_service::sections! {
    /// The sections that a gateway uses.
    pub struct Config {
        deployment: DeploymentConfig,
        redis: RedisConfig,
        etcd: EtcdConfig,
        spool: SpoolConfig,
        gateway: GatewayConfig,
        lmstfy: LmstfyConfig,
    } and |config, at| config.deployment.contradictions(&config.redis, at)
}

/// Serves HTTP. Without Redis it starts; until Redis is there, writes go to the spool, and the other requests get 503.
pub struct GatewayService {
    gateway: Gateway,
    fitness: Fitness,
}

// === impl GatewayService ===

impl Service for GatewayService {
    type Config = Config;

    const PROGRAM: Program = Program { name: "delayq-gateway", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, process: &Process) -> Result<Self, Fault> {
        let client_of = |deployment: &DeploymentConfig| {
            delayq_service::deployment::client_of(Role::Gateway, deployment, &config.redis)
        };
        let client = client_of(&config.deployment)?;
        let pools = config.lmstfy.clients(client_of)?;
        let mut fitness = Fitness::if_there(&client, &process.readiness).await?;
        if config.spool.folder().is_some() {
            fitness = fitness.bridged();
        }
        let deployment = Deployment::new(client, &config.deployment, &config.etcd);
        let spool = open_spool(&config.spool)?;
        let deps = Deps { deployment, spool, pools, metrics: process.metrics.clone() };
        Ok(Self { gateway: build(config.gateway, config.lmstfy, deps).await?, fitness })
    }

    fn run(self, tasks: &Tasks) {
        tasks.spawn("fitness of Redis", self.fitness.watch(tasks.shutdown().clone()));
        self.gateway.run(tasks);
    }
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
