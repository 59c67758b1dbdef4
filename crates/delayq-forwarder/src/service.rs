//! The forwarder as a process of its own.

use crate::{
    codes::REDIS_UNUSABLE,
    config::Config,
    forwarder::{Deps, Forwarder, build},
};
use delayq_core::{Client, LinkSettings, Namespace, Settings, ShardCount};
use delayq_service::{
    Fault, Process, Program, Service, Tasks,
    config::{DeploymentConfig, RedisConfig},
};
use secrecy::ExposeSecret;

/// `delayq-forwarder`.
pub struct ForwarderService(Forwarder);

// === impl ForwarderService ===

impl Service for ForwarderService {
    type Config = Config;

    const PROGRAM: Program = Program { name: "delayq-forwarder", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, process: &Process) -> Result<Self, Fault> {
        let client = connect(&config.deployment, &config.redis)?;
        let deps = Deps {
            client,
            redis: config.redis.clone(),
            metrics: process.metrics.clone(),
            readiness: process.readiness.clone(),
        };
        build(config.settings(), deps).await.map(Self)
    }

    fn run(self, tasks: &Tasks) {
        for (name, kind) in self.0.sinks() {
            tracing::info!(sink = name, kind, "delivering");
        }
        tasks.spawn("forwarder", self.0.run(tasks.shutdown().clone()));
    }
}

/// The client of the configured deployment.
fn connect(deployment: &DeploymentConfig, redis: &RedisConfig) -> Result<Client, Fault> {
    let unusable = |message: String| Fault::new(&REDIS_UNUSABLE, message);
    let password = redis.password.as_ref().map(|secret| secret.reveal().map_err(unusable)).transpose()?;
    let read = |path| std::fs::read(path).map_err(|error| unusable(format!("redis.ca: {error}")));
    let link = LinkSettings {
        username: redis.username.clone(),
        password: password.map(|secret| secret.expose_secret().to_owned()),
        ca_pem: redis.ca.as_ref().map(read).transpose()?,
        connect_timeout: *redis.connect_timeout,
        deadline: *redis.call_deadline,
        ..LinkSettings::new(redis.url.expose())
    };
    Ok(Client::new(Settings {
        link,
        namespace: Namespace::new(&deployment.namespace).map_err(|error| unusable(error.to_string()))?,
        shards: ShardCount::new(deployment.shards).map_err(|error| unusable(error.to_string()))?,
        ..Settings::new(redis.url.expose())
    }))
}
