//! The configuration that `delayq up` writes into the data folder, for the roles in this process and for every command.

use super::credentials::{Certificates, TOKENS, password_file};
use super::folder::DataFolder;
use super::forward::{Forward, quoted};
use super::given::{Given, WRITTEN_BY_UP};
use super::ports::Ports;
use super::redises::Redis;
use super::shape::Shape;
use delayq::protocol::ShardRanges;
use delayq::{Namespace, ShardCount};
use delayq_service::Fault;
use delayq_service::config::{DeploymentConfig, Environment, Source, load};

pub(super) struct ConfigurationParts<'p> {
    pub(super) folder: &'p DataFolder,
    pub(super) ports: &'p Ports,
    pub(super) etcd: bool,
    pub(super) namespace: &'p Namespace,
    pub(super) shards: ShardCount,
    pub(super) redises: &'p [Redis],
    /// In addition to the routes of `given`.
    pub(super) forwards: &'p [Forward],
    pub(super) given: Option<&'p Given>,
}

delayq_service::configuration! {
    /// The sections that a folder keeps for good.
    struct Made {
        deployment: DeploymentConfig,
    }
}

// === impl ConfigurationParts ===

impl ConfigurationParts<'_> {
    fn redis(&self) -> String {
        let password = match self.redises.iter().all(Redis::is_on_socket) {
            true => String::new(),
            false => {
                format!(
                    "password = {{ file = {} }}\n",
                    quoted(&password_file(self.folder).display().to_string())
                )
            }
        };
        let place = match self.ports.shape() {
            Shape::One => self.redises.iter().map(|redis| url(&redis.url())).collect(),
            Shape::Cluster(_) => {
                let nodes = self.ports.cluster.iter().map(|node| format!("127.0.0.1:{}", node.client));
                url(&format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(",")))
            }
            Shape::Nodes(_) => (0..).zip(self.redises).map(|(i, redis)| self.node(i, redis)).collect(),
        };
        password + &place
    }

    /// A node of several independent Redises, which share the shards evenly.
    fn node(&self, i: usize, redis: &Redis) -> String {
        let (shards, nodes) = (usize::from(self.shards.get()), self.redises.len());
        let own = self.shards.shards().take((i + 1) * shards / nodes).skip(i * shards / nodes);
        let (name, own) = (quoted(&redis.name), quoted(&own.collect::<ShardRanges>().to_string()));
        format!("\n[[redis.nodes]]\nname = {name}\nshards = {own}\n{}", url(&redis.url()))
    }

    fn etcd(&self) -> String {
        if !self.etcd {
            return "enabled = false".to_owned();
        }
        let Certificates { authority, certificate, key } = Certificates::of(self.folder);
        let [authority, certificate, key] =
            [authority, certificate, key].map(|path| quoted(&path.display().to_string()));
        format!(
            r#"endpoints = ["https://127.0.0.1:{}"]
lease_ttl = "2s"
ca = {authority}
cert = {certificate}
key = {key}"#,
            self.ports.etcd
        )
    }

    pub(super) fn text(&self) -> String {
        let own = self.own();
        let text = self.given.map_or(own.clone(), |given| given.lay_over(&own));
        format!("{WRITTEN_BY_UP} at each start: give your own settings by --config.\n\n{text}")
    }

    fn own(&self) -> String {
        let path = |name: &str| quoted(&self.folder.join(name).display().to_string());
        format!(
            r#"[deployment]
namespace = {namespace}
shards = {shards}

[redis]
{redis}

[etcd]
{etcd}

[admin]
listen = "127.0.0.1:{admin}"

[spool]
dir = {spool}

[gateway]
listen = "127.0.0.1:{gateway}"
tokens = {tokens}
processes = ["127.0.0.1:{admin}"]

# One name for every life, so that a start after a kill takes its own shards back at once.
[timer]
name = "up"
poll_interval = "1s"
lock = "2s"

# After a kill, what was under way goes out again after this time.
[forwarder]
lease = "5s"
poll_interval = "500ms"
{routing}"#,
            namespace = quoted(self.namespace.as_str()),
            shards = self.shards,
            redis = self.redis(),
            etcd = self.etcd(),
            admin = self.ports.admin,
            gateway = self.ports.gateway,
            tokens = path(TOKENS),
            spool = path("spool"),
            routing = Forward::sections(self.forwards, &self.folder.forwarded()),
        )
    }
}

fn url(url: &str) -> String {
    format!("url = {}\n", quoted(url))
}

/// The deployment that the folder was made with, if any.
///
/// # Errors
/// The file cannot be read or is damaged: another deployment would hide the data in the folder.
pub(super) fn earlier(folder: &DataFolder) -> Result<Option<DeploymentConfig>, Fault> {
    let Some(text) = folder.read("delayq.toml")? else { return Ok(None) };
    let loaded = load::<Made>(&Source::text("delayq.toml", text), &Environment::empty())?;
    Ok(Some(loaded.config.deployment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::CliConfig;
    use crate::up::ports::NodePorts;
    use crate::whole::WholeConfig;
    use delayq_service::config::{RedisConfig, RedisNodeConfig};

    /// In the order of the shards.
    fn places(redis: &RedisConfig) -> String {
        if redis.nodes.is_empty() {
            return redis.url.to_string();
        }
        let node = |node: &RedisNodeConfig| format!("{} {} {}", node.name, node.shards, node.url);
        redis.nodes.iter().map(node).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_is_written_is_what_the_next_start_reads() {
        let dir = tempfile::tempdir().unwrap();
        // The second folder's path is too long for a socket.
        let [short, long] = ["data".to_owned(), "long".repeat(30)]
            .map(|name| DataFolder::open(&dir.path().join(name)).unwrap());
        assert_eq!(earlier(&short).unwrap(), None);
        let node = |client| NodePorts { client, bus: client + 100 };
        let one = Ports { redis: 1, cluster: Vec::new(), nodes: Vec::new(), etcd: 2, admin: 4, gateway: 3 };
        let three = Ports { cluster: vec![node(5), node(6), node(7)], ..one.clone() };
        let two = Ports { nodes: vec![8, 9], ..one.clone() };
        let cluster = "redis+cluster://127.0.0.1:5,127.0.0.1:6,127.0.0.1:7";
        let by_ports = "a 0-2 redis://127.0.0.1:8, b 3-6 redis://127.0.0.1:9";
        let at = short.path().display();
        let by_sockets = format!("a 0-2 unix://{at}/redis-a.sock, b 3-6 unix://{at}/redis-b.sock");
        for (etcd, folder, ports, wanted) in [
            (false, &short, &one, format!("unix://{at}/redis.sock").as_str()),
            (true, &long, &one, "redis://127.0.0.1:1"),
            (true, &short, &three, cluster),
            (true, &long, &two, by_ports),
            (false, &short, &two, &by_sockets),
        ] {
            crate::up::credentials::password(folder).unwrap();
            Certificates::make(folder).unwrap();
            let redises = Redis::all(folder, ports, false);
            let (namespace, shards) = ("try".parse().unwrap(), ShardCount::new(7).unwrap());
            // A stream is in a single Redis.
            let other = if ports.shape() == Shape::One { "b=stream:out" } else { "b=file:out" };
            let forwards = ["a=file".parse().unwrap(), other.parse().unwrap()];
            let (namespace, redises, forwards) = (&namespace, &redises, &forwards);
            let parts =
                ConfigurationParts { folder, ports, etcd, namespace, shards, redises, forwards, given: None };
            folder.replace("delayq.toml", &parts.text()).unwrap();
            let made = earlier(folder).unwrap().unwrap();
            assert_eq!((made.namespace, made.shards), (namespace.clone(), shards));
            let text = Source::text("delayq.toml", parts.text());
            let config = load::<CliConfig>(&text, &Environment::empty()).unwrap().config;
            let asks = !wanted.contains("unix://");
            assert_eq!(
                (places(&config.redis).as_str(), config.redis.login.password.is_some()),
                (wanted, asks)
            );
            assert_eq!((config.etcd.enabled, config.etcd.files.key.is_some()), (etcd, etcd));
            let routes = load::<WholeConfig>(&text, &Environment::empty()).unwrap().config.routes;
            assert_eq!(routes.iter().map(|route| route.topic.to_string()).collect::<Vec<_>>(), ["a", "b"]);
        }
    }

    #[test]
    fn a_damaged_configuration_is_not_taken_for_a_new_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(dir.path()).unwrap();
        folder.replace("delayq.toml", "[deployment]\nshards = 0\n").unwrap();
        assert!(earlier(&folder).unwrap_err().to_string().contains("deployment.shards"));
    }
}
