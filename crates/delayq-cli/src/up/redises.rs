//! The private Redises of a folder: data and listening addresses.

use super::folder::DataFolder;
use super::ports::{NodePorts, Ports};
use super::shape::Shape;
use std::path::PathBuf;

/// Maximum bytes of a unix socket's path that every system accepts.
const SOCKET_PATH_BYTES: usize = 100;

#[derive(Debug)]
pub(super) struct Redis {
    /// Tells apart several independent Redises, or the nodes of a cluster; empty for a single Redis.
    pub(super) name: String,
    pub(super) data: PathBuf,
    pub(super) listens: Listens,
}

#[derive(Debug)]
pub(super) enum Listens {
    /// A socket in the folder, if the path is short enough.
    Socket(String),
    /// A port, with a password.
    Port(u16),
    /// A port, with a password; and another port as a node of a cluster.
    Node(NodePorts),
}

// === impl Redis ===

impl Redis {
    /// A single Redis listens on a socket, or on a port if requested.
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

    /// Returns whether the folder keeps other users out of this Redis; otherwise a password does.
    pub(super) fn is_on_socket(&self) -> bool {
        matches!(self.listens, Listens::Socket(_))
    }

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
    /// Chooses this socket if the path is suitable, otherwise the port.
    fn of(folder: &DataFolder, socket: &str, port: u16) -> Self {
        let path = folder.join(socket).display().to_string();
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%@".contains(&byte));
        if path.len() <= SOCKET_PATH_BYTES && plain { Self::Socket(path) } else { Self::Port(port) }
    }
}
