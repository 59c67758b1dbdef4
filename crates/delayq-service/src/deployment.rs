//! From `[deployment]` and `[redis]` to the client that every role works with.

use crate::codes::CONFIG_FAULTY;
use crate::config::{DeploymentConfig, RedisConfig, Secret};
use crate::fault::Fault;
use delayq_core::{Client, LinkSettings, Settings};

/// The client of the configured deployment; it connects when it is first used.
///
/// # Errors
/// The password or the certificate cannot be read any more.
pub fn client(deployment: &DeploymentConfig, redis: &RedisConfig) -> Result<Client, Fault> {
    let faulty = |message: String| Fault::new(&CONFIG_FAULTY, message);
    let password = redis.password.as_ref().map(Secret::password).transpose();
    let password = password.map_err(|why| faulty(format!("redis.password: {why}")))?;
    let read = |path: &std::path::PathBuf| {
        std::fs::read(path)
            .map_err(|error| faulty(format!("redis.ca: cannot read {}", path.display())).because(error))
    };
    let settings = Settings::new(redis.url.expose());
    Ok(Client::new(Settings {
        namespace: deployment.namespace.clone(),
        shards: deployment.shards,
        link: LinkSettings {
            username: redis.username.clone(),
            password,
            ca_pem: redis.ca.as_ref().map(read).transpose()?,
            connect_timeout: *redis.connect_timeout,
            deadline: *redis.call_deadline,
            keepalive: *redis.keepalive,
            ..settings.link
        },
        ..settings
    }))
}
