//! Creates each role's client from `[deployment]` and `[redis]`.

use crate::codes::CONFIG_FAULTY;
use crate::config::{
    DeploymentConfig, Login, PemFiles, RedisConfig, RedisNodeConfig, Secret, SentinelConfig, read_pem,
};
use crate::fault::Fault;
use delayq::admin::Role;
use delayq::protocol::{Identity, NodeMap};
use delayq::{Client, LinkSettings, Password, Settings};

/// The client of the configured deployment; connects on first use.
///
/// # Errors
/// The password or the certificate can no longer be read.
pub fn client(deployment: &DeploymentConfig, redis: &RedisConfig) -> Result<Client, Fault> {
    settings(deployment, redis).map(Client::new)
}

/// As [`client`], for a program with a single role: needs only the permissions of that role.
///
/// # Errors
/// As [`client`].
pub fn client_of(role: Role, deployment: &DeploymentConfig, redis: &RedisConfig) -> Result<Client, Fault> {
    settings(deployment, redis).map(|settings| Client::new(settings.role(role)))
}

fn settings(deployment: &DeploymentConfig, redis: &RedisConfig) -> Result<Settings, Fault> {
    let faulty = |why| Fault::new(&CONFIG_FAULTY, why);
    let settings = match nodes(redis).map_err(faulty)? {
        None => Settings::new(link(redis).map_err(|why| faulty(format!("redis.{why}")))?),
        Some(nodes) => match deployment.beyond_nodes(redis) {
            Some(why) => return Err(faulty(format!("deployment.shards: {why}"))),
            None => Settings::of_nodes(nodes),
        },
    };
    Ok(settings.namespace(deployment.namespace.clone()).shards(deployment.shards))
}

/// `None` for a single Redis.
fn nodes(redis: &RedisConfig) -> Result<Option<NodeMap>, String> {
    let node = |(i, node): (usize, &RedisNodeConfig)| {
        let link = link(&redis.of_node(node)).map_err(|why| format!("redis.nodes[{i}].{why}"))?;
        Ok(node.settings(link))
    };
    let nodes = redis.nodes.iter().enumerate().map(node).collect::<Result<Vec<_>, String>>()?;
    match nodes.is_empty() {
        true => Ok(None),
        false => NodeMap::new(nodes).map(Some).map_err(|error| format!("redis.nodes: {error}")),
    }
}

/// Connection settings of the configured Redis.
///
/// # Errors
/// The password or the certificate can no longer be read, or several Redises are configured: a message that begins with
/// the key.
pub fn link(redis: &RedisConfig) -> Result<LinkSettings, String> {
    if !redis.nodes.is_empty() {
        return Err("nodes: expected a single Redis, found several".to_owned());
    }
    let mut link = LinkSettings::new(redis.place().expose())
        .connect_timeout(*redis.connect_timeout)
        .deadline(*redis.call_deadline)
        .keepalive(*redis.keepalive);
    link.confirm_timeout = redis.confirm_timeout.map(|timeout| *timeout);
    link.username.clone_from(&redis.login.username);
    link.password = password(&redis.login)?;
    (link.ca_pem, link.identity) = certificates(&redis.files)?;
    if let Some(SentinelConfig { login, files, tls, .. }) = &redis.sentinel {
        let faulty = |why| format!("sentinel.{why}");
        link.sentinel.username.clone_from(&login.username);
        link.sentinel.password = password(login).map_err(faulty)?;
        link.sentinel.tls = *tls;
        (link.sentinel.ca_pem, link.sentinel.identity) = certificates(files).map_err(faulty)?;
    }
    Ok(link)
}

fn password(login: &Login) -> Result<Option<Password>, String> {
    login.password.as_ref().map(Secret::password).transpose().map_err(|why| format!("password: {why}"))
}

fn certificates(files: &PemFiles) -> Result<(Option<Vec<u8>>, Option<Identity>), String> {
    let ca = files.ca.as_deref().map(read_pem).transpose().map_err(|why| format!("ca: {why}"))?;
    let identity = files.identity()?.map(|[cert, key]| Identity::from_pem(cert, key));
    Ok((ca, identity))
}
