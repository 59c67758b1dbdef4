//! `delayq acl`: the least permissions of each role.

use crate::deployment::{CliConfig, Context};
use clap::{Args, Subcommand};
use delayq::admin::{Durability, Role, sentinel_rule};
use delayq_cluster::ClusterConfig;
use delayq_service::Fault;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Print the least permissions of each role, for Redis and etcd
#[derive(Debug, Args)]
pub struct Acl {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the rules of Redis users, and the commands that make etcd users
    ///
    /// The lines for Redis have the form of an ACL file; without the leading word user, they are the arguments of ACL
    /// SETUSER. PASSWORD stands for the password. If the configuration names sentinels, a line for them follows. Each
    /// program refuses to start if its user lacks a command, and names the command.
    Print(Print),
}

#[derive(Debug, Args)]
struct Print {
    /// Only this role: producer, consumer, worker, timer, forwarder, compensator, gateway or admin; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<Role>,
    /// Also allow the commands for topics with this durability: disk or replica:N; may be repeated
    #[arg(long = "durability", value_name = "DURABILITY")]
    durabilities: Vec<Durability>,
    /// The user's name. Default delayq-ROLE
    #[arg(long, value_name = "NAME", requires = "roles")]
    user: Option<String>,
}

// === impl Acl ===

impl Acl {
    /// Prints the permissions without contacting Redis.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        let Action::Print(Print { roles, durabilities, user }) = self.action;
        let roles = if roles.is_empty() { Role::ALL.to_vec() } else { roles };
        let of = |role| Rights::of(role, &durabilities, user.clone(), &context.config);
        let rights: Vec<Rights> = roles.into_iter().map(of).collect();
        let values: Vec<Value> = rights.iter().map(Rights::json).collect();
        context.output.print(&values, || {
            let texts: Vec<String> = rights.iter().map(Rights::text).collect();
            texts.join("\n\n")
        })
    }
}

struct Rights {
    role: Role,
    user: String,
    redis: String,
    /// Rule for a user of the sentinels, if the configuration names sentinels.
    sentinel: Option<String>,
    etcd: Vec<String>,
}

// === impl Rights ===

impl Rights {
    fn of(role: Role, durabilities: &[Durability], user: Option<String>, config: &CliConfig) -> Self {
        let user = user.unwrap_or_else(|| format!("delayq-{role}"));
        let waits: BTreeSet<&str> =
            durabilities.iter().filter_map(|&durability| role.waits_by(durability)).collect();
        let mut redis = role.rule(&user, &config.deployment.namespace);
        waits.into_iter().for_each(|command| redis.push_str(&format!(" +{command}")));
        let by_sentinel = config.redis.place().has_sentinels()
            || config.redis.nodes.iter().any(|node| node.url.has_sentinels());
        let sentinel = by_sentinel.then(|| sentinel_rule(&user));
        let etcd = if config.etcd.enabled { etcd(role, &user, config) } else { Vec::new() };
        Self { role, user, redis, sentinel, etcd }
    }

    fn json(&self) -> Value {
        let Self { role, user, redis, sentinel, etcd } = self;
        let mut value = json!({ "role": role.name(), "user": user, "redis": redis, "etcd": etcd });
        if let Some(sentinel) = sentinel {
            value["sentinel"] = json!(sentinel);
        }
        value
    }

    fn text(&self) -> String {
        let lines = std::iter::once(format!("# {}", self.role));
        let sentinel = self.sentinel.iter().map(|rule| format!("# of the sentinels\n{rule}"));
        lines
            .chain([self.redis.clone()])
            .chain(sentinel)
            .chain(self.etcd.iter().cloned())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// None for a role that does not use etcd.
fn etcd(role: Role, user: &str, config: &CliConfig) -> Vec<String> {
    let permission = match role {
        Role::Timer | Role::Admin => "readwrite",
        Role::Gateway => "read",
        _ => return Vec::new(),
    };
    let base = ClusterConfig::new(&config.etcd, &config.deployment, "delayq-cli").base();
    let grant = format!("etcdctl role grant-permission {user} {permission} --prefix=true {base}/");
    let made = [format!("etcdctl role add {user}"), format!("etcdctl user add {user}:PASSWORD")];
    made.into_iter().chain([grant]).chain([format!("etcdctl user grant-role {user} {user}")]).collect()
}
