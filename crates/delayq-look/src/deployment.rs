//! The deployment under a look: the connection to Redis, and the address of etcd.

use delayq::{Admin, Client, Namespace};
use delayq_cluster::{ClusterConfig, ClusterError, EtcdConfig, Observer};
use delayq_service::Fault;
use delayq_service::codes::CONFIG_FAULTY;
use delayq_service::codes::redis::UNREACHABLE;
use delayq_service::config::DeploymentConfig;
use std::time::Duration;

const SCAN_DEADLINE: Duration = Duration::from_secs(2);

/// A deployment. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Deployment {
    client: Client,
    config: DeploymentConfig,
    etcd: EtcdConfig,
    /// Limited to some shards; `None`: all.
    part: Option<Admin>,
}

// === impl Deployment ===

impl Deployment {
    /// The deployment of these sections. The client connects on first use.
    pub fn new(client: Client, config: &DeploymentConfig, etcd: &EtcdConfig) -> Self {
        Self { client, config: config.clone(), etcd: etcd.clone(), part: None }
    }

    /// The connection to Redis.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.config.namespace
    }

    /// True if timers form a fleet on etcd.
    pub fn has_etcd(&self) -> bool {
        self.etcd.enabled
    }

    /// The operator's side, limited to the same shards as the deployment.
    pub fn admin(&self) -> Admin {
        self.part.clone().unwrap_or_else(|| Admin::new(self.client.clone()))
    }

    /// The same deployment, limited to the shards of this admin.
    #[must_use]
    pub fn limited_to(&self, part: Admin) -> Self {
        Self { part: Some(part), ..self.clone() }
    }

    pub(crate) fn observer(&self) -> Result<Observer, Fault> {
        observer(&self.config, &self.etcd)
    }

    /// If this Redis lacks the deployment and holds others, a sentence that names the others. Walks over the keys of Redis for up
    /// to 2 s.
    pub async fn others(&self) -> Option<String> {
        let admin = self.admin();
        let found = tokio::time::timeout(SCAN_DEADLINE, admin.namespaces()).await.ok()?.ok()?;
        let wanted = self.namespace();
        if found.is_empty() || found.contains(wanted) {
            return None;
        }
        let names: Vec<&str> = found.iter().map(Namespace::as_str).collect();
        Some(format!(
            "no namespace {wanted} in this Redis, only {}: choose with --namespace",
            names.join(", ")
        ))
    }
}

/// An observer of the timers' fleet; it does not join, and connects with the first question.
///
/// # Errors
/// A certificate or password cannot be read.
pub fn observer(config: &DeploymentConfig, etcd: &EtcdConfig) -> Result<Observer, Fault> {
    let fleet = ClusterConfig::new(etcd, config, "delayq-look");
    Observer::new(&fleet).map_err(|error| Fault::new(&CONFIG_FAULTY, error.to_string()))
}

/// The fault of an etcd that cannot be used.
pub fn of_cluster(error: &ClusterError) -> Fault {
    Fault::new(&UNREACHABLE, error.to_string())
}
