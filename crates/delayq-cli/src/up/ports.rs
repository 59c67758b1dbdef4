//! The ports of the private servers.

use super::folder::DataFolder;
use super::shape::Shape;
use crate::failure::usage;
use delayq_service::{Fault, codes};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, TcpListener};

/// Kept over restarts if still free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ports {
    /// Port of Redis, if Redis cannot listen on a socket.
    pub(super) redis: u16,
    /// Ports of a Redis Cluster's masters; empty without a cluster.
    #[serde(default)]
    pub(super) cluster: Vec<NodePorts>,
    /// Ports of several independent Redises, if sockets are not possible; empty without several Redises.
    #[serde(default)]
    pub(super) nodes: Vec<u16>,
    pub(super) etcd: u16,
    pub(super) admin: u16,
    #[serde(default)]
    pub(super) gateway: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodePorts {
    pub(super) client: u16,
    /// Port for the other nodes.
    pub(super) bus: u16,
}

// === impl Ports ===

impl Ports {
    /// `None` for a new folder.
    pub(super) fn earlier(folder: &DataFolder) -> Result<Option<Self>, Fault> {
        Ok(folder.read("ports.json")?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(super) fn shape(&self) -> Shape {
        let number = |all: usize| u8::try_from(all).expect("at most nine Redises per folder");
        match (self.cluster.len(), self.nodes.len()) {
            (0, 0) => Shape::One,
            (0, nodes) => Shape::Nodes(number(nodes)),
            (masters, _) => Shape::Cluster(number(masters)),
        }
    }

    /// Chooses the earlier ports if free, and writes the ports into the folder for the next start; `redis` is the
    /// requested port of Redis.
    ///
    /// # Errors
    /// The system has no free port, `redis` is taken, or the folder cannot be written.
    pub(super) fn choose(
        folder: &DataFolder,
        earlier: Option<&Self>,
        shape: Shape,
        redis: Option<u16>,
    ) -> Result<Self, Fault> {
        let asked = redis.map(listening).transpose()?;
        // Held until all ports are chosen, so that no port is chosen twice.
        let mut held = Vec::new();
        let mut port = |earlier: Option<u16>| {
            let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
            let listener = listen(earlier.unwrap_or(0)).or_else(|_| listen(0));
            let taken = listener.and_then(|listener| {
                let port = listener.local_addr()?.port();
                held.push(listener);
                Ok(port)
            });
            taken.map_err(|error| Fault::new(&codes::SYSTEM, "cannot get a free port").because(error))
        };
        let (masters, nodes) = match shape {
            Shape::One => (0, 0),
            Shape::Cluster(masters) => (masters, 0),
            Shape::Nodes(nodes) => (0, nodes),
        };
        let mut cluster = Vec::new();
        for i in 0..masters.into() {
            let earlier = earlier.and_then(|ports| ports.cluster.get(i));
            let (client, bus) = (earlier.map(|node| node.client), earlier.map(|node| node.bus));
            cluster.push(NodePorts { client: port(client)?, bus: port(bus)? });
        }
        let earlier_node = |i| earlier.and_then(|ports| ports.nodes.get(i).copied());
        let nodes = (0..nodes.into()).map(|i| port(earlier_node(i))).collect::<Result<_, Fault>>()?;
        let ports = Self {
            redis: redis.map_or_else(|| port(earlier.map(|ports| ports.redis)), Ok)?,
            cluster,
            nodes,
            etcd: port(earlier.map(|ports| ports.etcd))?,
            admin: port(earlier.map(|ports| ports.admin))?,
            gateway: port(earlier.map(|ports| ports.gateway))?,
        };
        let text = serde_json::to_string(&ports).expect("ports are plain numbers");
        drop(asked);
        folder.replace("ports.json", &text)?;
        Ok(ports)
    }
}

fn listening(port: u16) -> Result<TcpListener, Fault> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        usage(format!("--port {port} of 127.0.0.1 cannot be used: {error}; choose another port"))
    })
}
