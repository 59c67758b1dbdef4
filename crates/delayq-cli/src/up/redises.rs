//! The private Redises of a folder: where each keeps its data, and where it listens.

use super::folder::DataFolder;
use super::ports::{NodePorts, Ports};
use super::shape::Shape;
use std::path::PathBuf;

/// The most bytes of a unix socket's path that every system takes.
const SOCKET_PATH_BYTES: usize = 100;

/// One of them.
#[derive(Debug)]
pub(super) struct Redis {
    /// What several independent ones are told apart by, and the nodes of a cluster; empty: there is one.
    pub(super) name: String,
    /// Its folder.
    pub(super) data: PathBuf,
    pub(super) listens: Listens,
}

/// Where a Redis listens.
#[derive(Debug)]
pub(super) enum Listens {
    /// On a socket in the folder, where its path is short enough.
    Socket(String),
    /// On a port, and it asks for a password.
    Port(u16),
    /// On a port, and it asks for a password; on another one as a node of a cluster.
    Node(NodePorts),
}

// === impl Redis ===

impl Redis {
    /// All of a folder; a single one listens on its socket, or if so asked on its port.
    pub(super) fn all(folder: &DataFolder, ports: &Ports, on_port: bool) -> Vec<Self> {
        let redis = |name: String, listens| Self { data: folder.join("redis").join(&name), name, listens };
        let nodes = ports.cluster.iter();
        match ports.shape() {
            Shape::One if on_port => vec![redis(String::new(), Listens::Port(ports.redis))],
            Shape::One => vec![redis(String::new(), Listens::of(folder, "redis.sock", ports.redis))],
            Shape::Cluster(_) => (1..)
                .zip(nodes)
                .map(|(n, node): (u8, _)| redis(n.to_string(), Listens::Node(*node)))
                .collect(),
            Shape::Nodes(_) => {
                let node = |(name, &port): (char, &u16)| {
                    redis(name.to_string(), Listens::of(folder, &format!("redis-{name}.sock"), port))
                };
                ('a'..).zip(&ports.nodes).map(node).collect()
            }
        }
    }

    /// Whether other users of the machine are kept from it by the folder; else by a password.
    pub(super) fn is_on_socket(&self) -> bool {
        matches!(self.listens, Listens::Socket(_))
    }

    /// How a client reaches it alone.
    pub(super) fn url(&self) -> String {
        match &self.listens {
            Listens::Socket(path) => format!("unix://{path}"),
            Listens::Port(port) | Listens::Node(NodePorts { client: port, .. }) => {
                format!("redis://127.0.0.1:{port}")
            }
        }
    }
}

// === impl Listens ===

impl Listens {
    /// On this socket, or on the port.
    fn of(folder: &DataFolder, socket: &str, port: u16) -> Self {
        let path = folder.join(socket).display().to_string();
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%@".contains(&byte));
        if path.len() <= SOCKET_PATH_BYTES && plain { Self::Socket(path) } else { Self::Port(port) }
    }
}
