//! Whose end of a connection a port of the loopback address is, as the system's own tables tell.

use std::fs;

/// Whether a process holds the client's end of a connection from that port.
pub(super) fn holds_port(process: u32, port: u16) -> bool {
    let Some(inode) = inode_of(port) else { return false };
    let socket = format!("socket:[{inode}]");
    let held = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    held.filter_map(|held| fs::read_link(held.path()).ok())
        .any(|target| target.as_os_str() == socket.as_str())
}

/// The inode of the socket that is bound to this port of 127.0.0.1 and connected.
fn inode_of(port: u16) -> Option<u64> {
    const ESTABLISHED: &str = "01";
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let local = format!("0100007F:{port:04X}");
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let found = fields.get(1) == Some(&local.as_str()) && fields.get(3) == Some(&ESTABLISHED);
        found.then(|| fields.get(9)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_port_belongs_to_the_process_that_dialed_from_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialed = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let port = dialed.local_addr().unwrap().port();
        assert!(holds_port(std::process::id(), port));
        assert!(!holds_port(1, port));
        drop((dialed, listener));
        assert!(!holds_port(std::process::id(), port));
    }
}
