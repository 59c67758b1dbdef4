//! The ports of the private servers.

use super::folder::DataFolder;
use delayq_service::{Fault, codes};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, TcpListener};

/// The ports, kept over restarts where they are still free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ports {
    /// Of Redis, where it cannot listen on a socket.
    pub(super) redis: u16,
    pub(super) etcd: u16,
    pub(super) admin: u16,
}

// === impl Ports ===

impl Ports {
    /// The earlier ones where they are free, written into the folder for the next start.
    ///
    /// # Errors
    /// The system has no free port, or the folder cannot be written.
    pub(super) fn choose(folder: &DataFolder) -> Result<Self, Fault> {
        let earlier = folder.read("ports.json")?.and_then(|text| serde_json::from_str::<Self>(&text).ok());
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
        let ports = Self {
            redis: port(earlier.map(|ports| ports.redis))?,
            etcd: port(earlier.map(|ports| ports.etcd))?,
            admin: port(earlier.map(|ports| ports.admin))?,
        };
        let text = serde_json::to_string(&ports).expect("ports are plain numbers");
        folder.replace("ports.json", &text)?;
        Ok(ports)
    }
}
