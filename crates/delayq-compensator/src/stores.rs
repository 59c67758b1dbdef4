//! From the configuration to the client of Redis.

use crate::codes::REDIS;
use delayq_core::{Client, Namespace, Settings, ShardCount};
use delayq_service::Fault;
use delayq_service::config::{DeploymentConfig, RedisConfig, Secret};
use secrecy::ExposeSecret;

/// The client of the deployment.
///
/// # Errors
/// A secret or certificate cannot be read any more.
pub fn client(deployment: &DeploymentConfig, redis: &RedisConfig) -> Result<Client, Fault> {
    let mut settings = Settings::new(redis.url.expose());
    settings.namespace = Namespace::new(deployment.namespace.as_str())
        .map_err(|error| Fault::new(&REDIS, "the namespace is none").because(error))?;
    settings.shards = ShardCount::new(deployment.shards)
        .map_err(|error| Fault::new(&REDIS, "the number of shards is none").because(error))?;
    settings.link.username.clone_from(&redis.username);
    let password = redis.password.as_ref().map(Secret::reveal).transpose();
    let password = password.map_err(|why| Fault::new(&REDIS, why))?;
    settings.link.password = password.map(|password| password.expose_secret().to_owned());
    let pem = redis.ca.as_deref().map(std::fs::read).transpose();
    settings.link.ca_pem =
        pem.map_err(|error| Fault::new(&REDIS, "cannot read `[redis] ca`").because(error))?;
    settings.link.connect_timeout = *redis.connect_timeout;
    settings.link.deadline = *redis.call_deadline;
    Ok(Client::new(settings))
}
