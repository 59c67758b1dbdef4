//! From `[deployment]` and `[etcd]` to the group of one role: those who divide the shards among themselves.

use crate::codes::CONFIG_FAULTY;
use crate::config::{DeploymentConfig, EtcdConfig, Secret, TlsConfig as Files};
use crate::fault::Fault;
use delayq_cluster::{ClusterConfig, Credentials, Identity, Role, TlsConfig};
use secrecy::SecretString;
use std::path::{Path, PathBuf};

/// How a member of this name finds its group in etcd. What else it says of itself, and how strict it is, keeps its default.
///
/// # Errors
/// A secret or certificate cannot be read any more.
pub fn group(
    role: Role,
    name: &str,
    deployment: &DeploymentConfig,
    etcd: &EtcdConfig,
) -> Result<ClusterConfig, Fault> {
    let mut group = ClusterConfig::new(etcd.endpoints.clone(), role, name, deployment.shards);
    group.etcd.request_deadline = *etcd.call_deadline;
    group.etcd.tls = tls(&etcd.tls)?;
    group.etcd.credentials = credentials(etcd)?;
    group.prefix = etcd.prefix.clone();
    group.namespace = deployment.namespace.clone();
    group.lease_ttl = *etcd.lease_ttl;
    Ok(group)
}

/// A name that no other process has: the host's and the process id.
#[must_use]
pub fn name_of_process() -> String {
    let system = rustix::system::uname();
    let plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let host: String = system.nodename().to_string_lossy().chars().filter(plain).take(48).collect();
    format!("{host}-{}", std::process::id())
}

fn credentials(etcd: &EtcdConfig) -> Result<Option<Credentials>, Fault> {
    let password = etcd.password.as_ref().map(Secret::password).transpose();
    let password = password.map_err(|why| faulty(format!("etcd.password: {why}")))?;
    Ok(etcd.username.clone().zip(password).map(|(user, password)| Credentials { user, password }))
}

fn tls(files: &Files) -> Result<Option<TlsConfig>, Fault> {
    if *files == Files::default() {
        return Ok(None);
    }
    let read_all = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
    let authority_pem = read_all(&files.ca)?;
    let identity = match (read_all(&files.cert)?, read_all(&files.key)?) {
        (Some(certificate_pem), Some(key)) => {
            let key_pem = SecretString::from(String::from_utf8_lossy(&key).into_owned());
            Some(Identity { certificate_pem, key_pem })
        }
        _ => None,
    };
    Ok(Some(TlsConfig { authority_pem, server_name: None, identity }))
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    std::fs::read(path)
        .map_err(|error| faulty(format!("etcd.tls: cannot read {}", path.display())).because(error))
}

fn faulty(message: String) -> Fault {
    Fault::new(&CONFIG_FAULTY, message)
}
