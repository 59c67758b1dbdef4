//! The admin endpoints of a deployment's processes: which there are, and what they answer.

use crate::deployment::CliConfig;
use delayq_cluster::{ClusterConfig, Observer, Role};
use delayq_service::ask;
use delayq_service::config::{HostPort, Listen};
use std::collections::BTreeMap;

/// A process with an admin endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What the process is: `timer-NAME`, or the address alone where nobody registered it.
    pub name: String,
    /// Where it answers.
    pub address: HostPort,
}

/// The endpoints that are registered in etcd, the one that the configuration has, and those that are given; and why the
/// registered ones are missing, if they are.
pub async fn known(config: &CliConfig, given: &[HostPort]) -> (Vec<Endpoint>, Option<String>) {
    let mut known = BTreeMap::new();
    let mut missing = None;
    if config.etcd.enabled {
        for role in [Role::Timer, Role::Forwarder] {
            match registered(config, role).await {
                Ok(endpoints) => known.extend(endpoints),
                Err(why) => missing = Some(why),
            }
        }
    }
    let configured = match &config.admin.listen {
        Listen::At(address) => Some(address),
        Listen::Off => None,
    };
    for address in configured.into_iter().chain(given) {
        known.entry(address.to_string()).or_insert_with(|| address.to_string());
    }
    let endpoint =
        |(address, name): (String, String)| Some(Endpoint { name, address: address.parse().ok()? });
    (known.into_iter().filter_map(endpoint).collect(), missing)
}

async fn registered(config: &CliConfig, role: Role) -> Result<Vec<(String, String)>, String> {
    let fleet = ClusterConfig::new(&config.etcd, &config.deployment, role, "delayq-cli");
    let observer = Observer::new(&fleet).map_err(|error| error.to_string())?;
    let members = observer.overview().await.map_err(|error| error.to_string())?.members;
    let with_endpoint = members.into_iter().filter(|member| !member.address.is_empty());
    Ok(with_endpoint.map(|member| (member.address, format!("{role}-{}", member.name))).collect())
}

impl Endpoint {
    /// What it answers for a path; an answer that is not 200 is one as well.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn get(&self, path: &'static str) -> Result<String, String> {
        let address = self.address.clone();
        let answer = tokio::task::spawn_blocking(move || ask(&address, path)).await;
        let answer = answer.map_err(|error| error.to_string())?;
        answer.map(|(_, body)| body).map_err(|error| format!("{} does not answer: {error}", self.address))
    }
}
