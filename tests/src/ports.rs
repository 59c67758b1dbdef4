//! Free TCP ports of the loopback address.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that Linux hands to outgoing connections (from 32768), so that no client takes one of these in
/// the moment between the look and the server's bind. A Redis Cluster bus port is 10,000 higher and must fit too.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port that nobody listens on, and that this process has not been given before (until all were).
///
/// # Panics
/// When every port of the range is taken.
#[must_use]
pub fn free_port() -> u16 {
    // Each process starts elsewhere in the range, so that two test processes seldom try the same port.
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(step) % COUNT;
        let port = u16::try_from(port).expect("the range ends below 65,536");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_port_is_given_once() {
        let ports: HashSet<u16> = (0..50).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 50);
    }

    #[test]
    fn a_port_in_use_is_not_given() {
        let taken: Vec<TcpListener> =
            (0..20).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).unwrap()).collect();
        let ports: HashSet<u16> = taken.iter().map(|l| l.local_addr().unwrap().port()).collect();
        assert!(!ports.contains(&free_port()));
    }
}
