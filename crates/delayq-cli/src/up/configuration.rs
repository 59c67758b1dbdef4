//! The configuration that `delayq up` writes into its folder: for its own roles, and for every command.

use super::credentials::{Certificates, password_file};
use super::folder::DataFolder;
use super::forward::{Forward, quoted};
use super::given::{Given, WRITTEN_BY_UP};
use super::ports::Ports;
use delayq::{Namespace, ShardCount};
use delayq_service::Fault;
use delayq_service::config::{DeploymentConfig, Environment, Source, load};

/// The most bytes of a unix socket's path that every system takes.
const SOCKET_PATH_BYTES: usize = 100;

/// What the configuration is made of.
pub(super) struct Parts<'p> {
    pub(super) folder: &'p DataFolder,
    pub(super) ports: &'p Ports,
    pub(super) etcd: bool,
    pub(super) namespace: &'p Namespace,
    pub(super) shards: ShardCount,
    /// Where Redis listens; `None`: on its port, or those of its cluster, with a password.
    pub(super) socket: Option<String>,
    /// What is forwarded, in addition to the routes of `given`.
    pub(super) forwards: &'p [Forward],
    /// What the user configured.
    pub(super) given: Option<&'p Given>,
}

delayq_service::configuration! {
    /// What a folder is made with, for good.
    struct Made {
        deployment: DeploymentConfig,
    }
}

// === impl Parts ===

impl Parts<'_> {
    fn redis(&self) -> String {
        let nodes: Vec<String> =
            self.ports.cluster.iter().map(|node| format!("127.0.0.1:{}", node.client)).collect();
        let url = match &self.socket {
            Some(path) => return format!("url = {}", quoted(&format!("unix://{path}"))),
            None if nodes.is_empty() => format!("redis://127.0.0.1:{}", self.ports.redis),
            None => format!("redis+cluster://{}", nodes.join(",")),
        };
        let password = password_file(self.folder).display().to_string();
        format!("url = {}\npassword = {{ file = {} }}", quoted(&url), quoted(&password))
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

[etcd.tls]
ca = {authority}
cert = {certificate}
key = {key}"#,
            self.ports.etcd
        )
    }

    /// The file.
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
            spool = path("spool"),
            routing = Forward::sections(self.forwards, self.folder.path()),
        )
    }
}

/// The path of Redis's socket, where it is short enough.
pub(super) fn socket(folder: &DataFolder) -> Option<String> {
    let path = folder.join("redis.sock").display().to_string();
    let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%@".contains(&byte));
    (path.len() <= SOCKET_PATH_BYTES && plain).then_some(path)
}

/// The deployment that the folder was made with, if it was.
///
/// # Errors
/// The file cannot be read, or somebody damaged it: another deployment would hide what is in the folder.
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

    #[test]
    fn what_is_written_is_what_the_next_start_reads() {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(dir.path()).unwrap();
        assert_eq!(earlier(&folder).unwrap(), None);
        crate::up::credentials::password(&folder).unwrap();
        Certificates::make(&folder).unwrap();
        let node = |client| NodePorts { client, bus: client + 100 };
        let one = Ports { redis: 1, cluster: Vec::new(), etcd: 2, admin: 4 };
        let three = Ports { cluster: vec![node(5), node(6), node(7)], ..one.clone() };
        let cluster = "redis+cluster://127.0.0.1:5,127.0.0.1:6,127.0.0.1:7";
        for (etcd, socket, ports, url) in [
            (false, Some("/s".to_owned()), &one, "unix:///s"),
            (true, None, &one, "redis://127.0.0.1:1"),
            (true, None, &three, cluster),
        ] {
            let (namespace, shards) = ("try".parse().unwrap(), ShardCount::new(7).unwrap());
            // A stream is in one Redis.
            let other = if ports.cluster.is_empty() { "b=stream:out" } else { "b=file:out" };
            let forwards = ["a=file".parse().unwrap(), other.parse().unwrap()];
            let (namespace, folder) = (&namespace, &folder);
            let parts =
                Parts { folder, ports, etcd, namespace, shards, socket, forwards: &forwards, given: None };
            folder.replace("delayq.toml", &parts.text()).unwrap();
            let made = earlier(folder).unwrap().unwrap();
            assert_eq!((made.namespace, made.shards), (namespace.clone(), shards));
            let text = Source::text("delayq.toml", parts.text());
            let config = load::<CliConfig>(&text, &Environment::empty()).unwrap().config;
            assert_eq!(
                (config.redis.url.to_string(), config.redis.password.is_none()),
                (url.to_owned(), !etcd)
            );
            assert_eq!((config.etcd.enabled, config.etcd.tls.key.is_some()), (etcd, etcd));
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
