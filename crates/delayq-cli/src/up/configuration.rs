//! The configuration that `delayq up` writes into its folder: for its own roles, and for every command.

use delayq_service::config::{Environment, Source, load};

use super::folder::DataFolder;
use super::ports::Ports;
use crate::deployment::CliConfig;

/// The most bytes of a unix socket's path that every system takes.
const SOCKET_PATH_BYTES: usize = 100;

/// What the configuration is made of.
pub(super) struct Parts<'p> {
    pub(super) folder: &'p DataFolder,
    pub(super) ports: Ports,
    pub(super) etcd: bool,
    pub(super) namespace: &'p str,
    pub(super) shards: u16,
}

// === impl Parts ===

impl Parts<'_> {
    /// The URL of the Redis: its socket, unless the folder's path is too long for one.
    pub(super) fn redis_url(&self) -> String {
        match socket(self.folder) {
            Some(path) => format!("unix://{path}"),
            None => format!("redis://127.0.0.1:{}", self.ports.redis),
        }
    }

    /// The file.
    pub(super) fn text(&self) -> String {
        let quoted =
            |text: &str| serde_json::to_string(text).expect("a string has a JSON form, which TOML reads");
        let path = |name: &str| quoted(&self.folder.join(name).display().to_string());
        format!(
            r#"# Written by `delayq up`; it is written anew at each start.

[deployment]
namespace = {namespace}
shards = {shards}

[redis]
url = {url}

[etcd]
enabled = {etcd}
endpoints = ["http://127.0.0.1:{etcd_port}"]
lease_ttl = "2s"

[admin]
listen = "127.0.0.1:{admin}"

[spool]
dir = {spool}

# One name for every life, so that a start after a kill takes its own shards back at once.
[timer]
name = "up"
look = "1s"
lock = "2s"

# After a kill, what was under way goes out again after this time.
[forwarder]
lease = "5s"
look_every = "500ms"

# Every message goes to both: to a file of this folder, and to a stream of the private Redis with the same name.
[sinks.both.file]
dir = {folder}

[sinks.both.redis-stream]

[[routes]]
topic = "**"
sink = "both"
to = "delivered.ndjson"
"#,
            namespace = quoted(self.namespace),
            shards = self.shards,
            url = quoted(&self.redis_url()),
            etcd = self.etcd,
            etcd_port = self.ports.etcd,
            admin = self.ports.admin,
            spool = path("spool"),
            folder = quoted(&self.folder.path().display().to_string()),
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
pub(super) fn earlier(folder: &DataFolder) -> Option<CliConfig> {
    let text = folder.read("delayq.toml").ok().flatten()?;
    load(&Source::text("delayq.toml", text), &Environment::empty()).ok().map(|loaded| loaded.config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_the_next_start_reads() {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(dir.path()).unwrap();
        assert!(earlier(&folder).is_none());
        let ports = Ports { redis: 1, etcd: 2, etcd_peer: 3, admin: 4 };
        let parts = Parts { folder: &folder, ports, etcd: false, namespace: "try", shards: 7 };
        folder.replace("delayq.toml", &parts.text()).unwrap();
        let config = earlier(&folder).unwrap();
        assert_eq!((config.deployment.namespace.as_str(), config.deployment.shards), ("try", 7));
        assert_eq!(config.redis.url.to_string(), parts.redis_url());
        assert!(!config.etcd.enabled);
    }
}
