//! From the configuration to the membership that etcd keeps.

use crate::codes::{ETCD, REDIS};
use crate::config::TimerConfig;
use crate::timer::Membership;
use delayq_cluster::{ClusterConfig, Credentials, Identity, Role, TlsConfig};
use delayq_core::ShardCount;
use delayq_service::Fault;
use delayq_service::codes::Code;
use delayq_service::config::{DeploymentConfig, EtcdConfig, Secret};
use secrecy::SecretString;
use std::path::Path;

/// Who divides the shards: etcd, or nobody where it is switched off. `address`: where the admin endpoint answers.
///
/// # Errors
/// A secret or certificate cannot be read any more.
pub fn membership(
    timer: &TimerConfig,
    deployment: &DeploymentConfig,
    etcd: &EtcdConfig,
    address: String,
) -> Result<Membership, Fault> {
    let name = timer.effective_name();
    if !etcd.enabled {
        return Ok(Membership::single(&name));
    }
    let mut cluster = ClusterConfig::new(etcd.endpoints.clone(), Role::Timer, name, shards(deployment)?);
    cluster.etcd.request_deadline = *etcd.call_deadline;
    cluster.etcd.tls = tls(&etcd.tls)?;
    cluster.etcd.credentials = credentials(etcd)?;
    etcd.prefix.trim_matches('/').clone_into(&mut cluster.prefix);
    cluster.namespace.clone_from(&deployment.namespace);
    cluster.member.zone.clone_from(&timer.zone);
    cluster.member.weight = timer.weight;
    cluster.member.address = address;
    cluster.lease_ttl = *etcd.lease_ttl;
    cluster.strict = timer.strict;
    Ok(Membership::Etcd(Box::new(cluster)))
}

fn shards(deployment: &DeploymentConfig) -> Result<ShardCount, Fault> {
    ShardCount::new(deployment.shards).map_err(|error| Fault::new(&REDIS, "the shards").because(error))
}

fn credentials(etcd: &EtcdConfig) -> Result<Option<Credentials>, Fault> {
    let password = reveal(&ETCD, etcd.password.as_ref())?;
    Ok(etcd.username.clone().zip(password).map(|(user, password)| Credentials { user, password }))
}

fn tls(files: &delayq_service::config::TlsConfig) -> Result<Option<TlsConfig>, Fault> {
    if *files == delayq_service::config::TlsConfig::default() {
        return Ok(None);
    }
    let authority_pem = files.ca.as_deref().map(|path| read(&ETCD, path)).transpose()?;
    let identity = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => Some(Identity {
            certificate_pem: read(&ETCD, cert)?,
            key_pem: SecretString::from(String::from_utf8_lossy(&read(&ETCD, key)?).into_owned()),
        }),
        _ => None,
    };
    Ok(Some(TlsConfig { authority_pem, server_name: None, identity }))
}

fn reveal(code: &'static Code, secret: Option<&Secret>) -> Result<Option<SecretString>, Fault> {
    secret.map(Secret::reveal).transpose().map_err(|why| Fault::new(code, why))
}

fn read(code: &'static Code, path: &Path) -> Result<Vec<u8>, Fault> {
    std::fs::read(path)
        .map_err(|error| Fault::new(code, format!("cannot read {}", path.display())).because(error))
}
