//! The dialing process of a loopback connection, from the system's tables.

use std::fs;
use std::sync::OnceLock;

/// Number of reads of the connection table per lookup. A read is no snapshot: while other connections come and go, an
/// entry may be missing.
const READS: usize = 5;

/// The dialer's end of a loopback connection, by both ports: the dialer's port alone is not unique, because the system
/// reuses it for other destinations.
#[derive(Debug)]
pub(super) struct Dialer {
    from: u16,
    to: u16,
    inode: OnceLock<u64>,
}

// === impl Dialer ===

impl Dialer {
    pub(super) const fn new(from: u16, to: u16) -> Self {
        Self { from, to, inode: OnceLock::new() }
    }

    /// True if the process holds this end.
    pub(super) fn is(&self, process: u32) -> bool {
        let Some(inode) = self.inode() else { return false };
        let socket = format!("socket:[{inode}]");
        let held = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        held.filter_map(|held| fs::read_link(held.path()).ok())
            .any(|target| target.as_os_str() == socket.as_str())
    }

    /// The inode of the socket, which stays the same; `None` after the end of the connection.
    fn inode(&self) -> Option<u64> {
        if self.inode.get().is_none()
            && let Some(found) = (0..READS).find_map(|_| self.read_inode())
        {
            self.inode.get_or_init(|| found);
        }
        self.inode.get().copied()
    }

    fn read_inode(&self) -> Option<u64> {
        const ESTABLISHED: &str = "01";
        let table = fs::read_to_string("/proc/net/tcp").ok()?;
        let [from, to] = [self.from, self.to].map(|port| format!("0100007F:{port:04X}"));
        table.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let found = fields.get(1..4) == Some(&[from.as_str(), to.as_str(), ESTABLISHED]);
            found.then(|| fields.get(9)?.parse().ok()).flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_belongs_to_the_process_that_dialed_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialed = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (from, to) = (dialed.local_addr().unwrap().port(), dialed.peer_addr().unwrap().port());
        let dialer = Dialer::new(from, to);
        assert!(dialer.is(std::process::id()));
        assert!(!dialer.is(1));
        assert!(!Dialer::new(from, from).is(std::process::id()));
        drop((dialed, listener));
        assert!(!dialer.is(std::process::id()));
        assert!(!Dialer::new(from, to).is(std::process::id()));
    }
}
