//! Who dialed a loopback connection, according to the system's tables.

use std::fs;

/// The two ports of a loopback connection. The dialer's port alone is not unique: the system uses it again for another
/// destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    /// The dialer's port.
    pub(super) from: u16,
    /// The dialed port.
    pub(super) to: u16,
}

/// Whether a process holds the dialer's end of a connection.
pub(super) fn dialed_by(process: u32, ports: Ports) -> bool {
    let Some(inode) = inode_of(ports) else { return false };
    let socket = format!("socket:[{inode}]");
    let held = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    held.filter_map(|held| fs::read_link(held.path()).ok())
        .any(|target| target.as_os_str() == socket.as_str())
}

/// The inode of the dialer's socket, while the connection exists.
fn inode_of(ports: Ports) -> Option<u64> {
    const ESTABLISHED: &str = "01";
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let [from, to] = [ports.from, ports.to].map(|port| format!("0100007F:{port:04X}"));
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let found = fields.get(1..4) == Some(&[from.as_str(), to.as_str(), ESTABLISHED]);
        found.then(|| fields.get(9)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_belongs_to_the_process_that_dialed_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialed = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ports =
            Ports { from: dialed.local_addr().unwrap().port(), to: dialed.peer_addr().unwrap().port() };
        assert!(dialed_by(std::process::id(), ports));
        assert!(!dialed_by(1, ports));
        assert!(!dialed_by(std::process::id(), Ports { to: ports.from, ..ports }));
        drop((dialed, listener));
        assert!(!dialed_by(std::process::id(), ports));
    }
}
