//! `[lmstfy]`: lmstfy's API, for its clients.

use delayq::{Client, Namespace, ShardCount};
use delayq_service::Fault;
use delayq_service::config::{DeploymentConfig, Faults, HostPort, Secret, Section};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// `[lmstfy]`: lmstfy's API and its admin API, each on a port of its own, without TLS. The limits of `[gateway]` hold for
/// each port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LmstfyConfig {
    /// Serve them. Default false.
    pub enabled: bool,
    /// Address of the API; port 0: a free port, named in the log. Default `127.0.0.1:7777`.
    pub listen: HostPort,
    /// Address of the admin API. Default `127.0.0.1:7778`. An address that other hosts reach needs `accounts` or `insecure`.
    pub admin_listen: HostPort,
    /// False: requests need no token, as with lmstfy's `-sv`. Default true. An address that other hosts reach then needs
    /// `insecure`.
    pub check_tokens: bool,
    /// Serve other hosts without tokens, or without accounts. Default false.
    pub insecure: bool,
    /// Users of the admin API with their passwords, read at start. Default: none, and no request needs one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub accounts: BTreeMap<String, Secret>,
    /// Further pools by name, each a deployment on the same Redis with timers of its own. The pool `default` is this deployment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, PoolConfig>,
}

/// `[lmstfy.pools.NAME]`: the deployment of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    /// Its namespace.
    pub namespace: Namespace,
    /// Number of shards, as in the pool's own `[deployment]`. Default 1.
    #[serde(default)]
    pub shards: ShardCount,
}

pub(crate) const DEFAULT_POOL: &str = "default";

fn is_local(listen: &HostPort) -> bool {
    let host = listen.host();
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

// === impl LmstfyConfig ===

impl LmstfyConfig {
    /// The clients of the further pools, if the API is served.
    ///
    /// # Errors
    /// A client cannot be made.
    pub fn clients(
        &self,
        client: impl Fn(&DeploymentConfig) -> Result<Client, Fault>,
    ) -> Result<Vec<(String, Client)>, Fault> {
        let of = |(name, pool): (&String, &PoolConfig)| {
            let PoolConfig { namespace, shards } = pool.clone();
            Ok((name.clone(), client(&DeploymentConfig { namespace, shards })?))
        };
        self.pools.iter().filter(|_| self.enabled).map(of).collect()
    }

    pub(super) fn is_local(&self) -> bool {
        is_local(&self.listen)
    }

    pub(super) fn admin_is_local(&self) -> bool {
        is_local(&self.admin_listen)
    }
}

impl Default for LmstfyConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            listen: HostPort::new("127.0.0.1", 7777),
            admin_listen: HostPort::new("127.0.0.1", 7778),
            check_tokens: true,
            insecure: false,
            accounts: BTreeMap::new(),
            pools: BTreeMap::new(),
        }
    }
}

impl Section for LmstfyConfig {
    fn validate(&self, at: &mut Faults) {
        if !self.is_local() && !self.check_tokens && !self.insecure {
            let why =
                "other hosts reach this address: set `check_tokens`, or `insecure = true` to serve anyone";
            at.contradiction(&["listen", "check_tokens"], why);
        }
        if !self.admin_is_local() && self.accounts.is_empty() && !self.insecure {
            let why = "other hosts reach this address: set `accounts`, or `insecure = true` to serve anyone";
            at.contradiction(&["admin_listen", "accounts"], why);
        }
        for (user, password) in &self.accounts {
            at.secret(&format!("accounts.{user}"), Some(password));
        }
        if !self.enabled && !self.pools.is_empty() {
            at.contradiction(
                &["pools", "enabled"],
                "nobody serves the pools: set `enabled = true`, or remove them",
            );
        }
        for name in self.pools.keys() {
            if name == DEFAULT_POOL {
                at.refuse(&format!("pools.{name}"), "the pool `default` is the deployment of the gateway");
            } else if name.is_empty() || name.contains([':', ' ', '/']) {
                at.refuse(&format!("pools.{name}"), "expected a name without `:`, `/` and spaces");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_service::config::{Environment, Source, load};

    delayq_service::configuration! {
        struct Alone { lmstfy: LmstfyConfig }
    }

    fn faults(text: &str) -> String {
        let source = Source::text("delayq.toml", format!("[lmstfy]\n{text}"));
        let loaded = load::<Alone>(&source, &Environment::empty());
        loaded.err().map(|faults| faults.to_string()).unwrap_or_default()
    }

    #[test]
    fn ports_that_other_hosts_reach_need_tokens_and_accounts_or_an_explicit_word() {
        assert_eq!(faults("listen = '0.0.0.0:7777'\n"), "");
        assert!(faults("listen = '0.0.0.0:7777'\ncheck_tokens = false\n").contains("check_tokens"));
        let admin = "admin_listen = '0.0.0.0:7778'\n";
        assert!(faults(admin).contains("accounts"));
        assert_eq!(faults(&format!("{admin}accounts = {{ boss = 'secret' }}\n")), "");
        assert_eq!(faults(&format!("{admin}insecure = true\n")), "");
    }

    #[test]
    fn pools_of_an_api_that_is_off_are_refused_by_name() {
        let refused = faults("[lmstfy.pools.p2]\nnamespace = 'p2'\n");
        assert!(refused.contains("pools") && refused.contains("enabled = true"), "{refused}");
    }

    #[test]
    fn a_pool_has_a_name_that_a_token_can_carry() {
        let pool = "[lmstfy.pools.p2]\nnamespace = 'p2'\n";
        assert_eq!(faults(&format!("enabled = true\n{pool}")), "");
        for name in ["default", "'a:b'"] {
            assert!(
                faults(&format!("enabled = true\n[lmstfy.pools.{name}]\nnamespace = 'p2'\n"))
                    .contains("pools"),
                "{name}"
            );
        }
    }
}
