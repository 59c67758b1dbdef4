//! From `[deployment]` and `[redis]` to the client that every role works with.

use crate::codes::CONFIG_FAULTY;
use crate::config::{DeploymentConfig, RedisConfig, Secret};
use crate::fault::Fault;
use delayq::admin::Role;
use delayq::{Client, LinkSettings, Settings};
use std::path::PathBuf;

/// The client of the configured deployment; it connects on first use.
///
/// # Errors
/// The password or the certificate can no longer be read.
pub fn client(deployment: &DeploymentConfig, redis: &RedisConfig) -> Result<Client, Fault> {
    settings(deployment, redis).map(Client::new)
}

/// As [`client`], of a program that has one role: it needs the permissions of that role alone.
///
/// # Errors
/// As [`client`].
pub fn client_of(role: Role, deployment: &DeploymentConfig, redis: &RedisConfig) -> Result<Client, Fault> {
    settings(deployment, redis).map(|settings| Client::new(settings.role(role)))
}

fn settings(deployment: &DeploymentConfig, redis: &RedisConfig) -> Result<Settings, Fault> {
    let link = link(redis).map_err(|why| Fault::new(&CONFIG_FAULTY, format!("redis.{why}")))?;
    Ok(Settings::new(link).namespace(deployment.namespace.clone()).shards(deployment.shards))
}

/// How to connect to a configured Redis.
///
/// # Errors
/// The password or the certificate can no longer be read: a message that begins with the key.
pub fn link(redis: &RedisConfig) -> Result<LinkSettings, String> {
    let password = redis.password.as_ref().map(Secret::password).transpose();
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| format!("ca: cannot read {}: {error}", path.display()))
    };
    let mut link = LinkSettings::new(redis.url.expose())
        .connect_timeout(*redis.connect_timeout)
        .deadline(*redis.call_deadline)
        .keepalive(*redis.keepalive);
    link.username.clone_from(&redis.username);
    link.password = password.map_err(|why| format!("password: {why}"))?;
    link.ca_pem = redis.ca.as_ref().map(read).transpose()?;
    Ok(link)
}
