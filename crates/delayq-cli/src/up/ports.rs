//! The ports of the private servers.

use super::folder::DataFolder;
use crate::failure::usage;
use delayq_service::{Fault, codes};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, TcpListener};

/// The ports, kept over restarts where they are still free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ports {
    /// Of Redis, where it cannot listen on a socket.
    pub(super) redis: u16,
    /// Of the masters of a Redis Cluster; empty: one Redis.
    #[serde(default)]
    pub(super) cluster: Vec<NodePorts>,
    pub(super) etcd: u16,
    pub(super) admin: u16,
}

/// The ports of one node of a Redis Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodePorts {
    pub(super) client: u16,
    /// Where the other nodes reach it.
    pub(super) bus: u16,
}

// === impl Ports ===

impl Ports {
    /// The earlier ones where they are free, written into the folder for the next start; with those of so many masters of a
    /// Redis Cluster, `None` being as many as the folder was made with.
    ///
    /// # Errors
    /// The folder was made with another number of masters, the system has no free port, or the folder cannot be written.
    pub(super) fn choose(folder: &DataFolder, masters: Option<u8>) -> Result<Self, Fault> {
        let earlier = folder.read("ports.json")?.and_then(|text| serde_json::from_str::<Self>(&text).ok());
        let made = earlier.as_ref().map(|ports| ports.cluster.len());
        let masters = masters.map(usize::from);
        if let (Some(made), Some(masters)) = (made, masters.filter(|&masters| made != Some(masters))) {
            let of = if made == 0 { "one Redis".to_owned() } else { format!("a cluster of {made} masters") };
            return Err(usage(format!(
                "{} keeps its messages in {of}: leave --redis-cluster {masters} out, or name another folder by --data",
                folder.path().display()
            )));
        }
        // Held until all are chosen, so that none is chosen twice.
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
        let earlier = earlier.as_ref();
        let mut node = |i: usize| {
            let earlier = earlier.and_then(|ports| ports.cluster.get(i));
            let (client, bus) = (earlier.map(|node| node.client), earlier.map(|node| node.bus));
            Ok(NodePorts { client: port(client)?, bus: port(bus)? })
        };
        let nodes = masters.or(made).unwrap_or_default();
        let cluster = (0..nodes).map(&mut node).collect::<Result<_, Fault>>()?;
        let ports = Self {
            redis: port(earlier.map(|ports| ports.redis))?,
            cluster,
            etcd: port(earlier.map(|ports| ports.etcd))?,
            admin: port(earlier.map(|ports| ports.admin))?,
        };
        let text = serde_json::to_string(&ports).expect("ports are plain numbers");
        folder.replace("ports.json", &text)?;
        Ok(ports)
    }
}
