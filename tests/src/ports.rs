//! Free TCP ports of the loopback address.
//!
//! A port is reserved for this process from the check on, even while its server is not up yet or restarting: a socket
//! named `delayq-tests-port-N` in Linux's abstract namespace shows the reservation to every other test process, and
//! ends with this process.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Below the ports of outgoing connections (from 32768), so that no client takes a port between the check and the
/// server's bind.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

static NEXT: AtomicU32 = AtomicU32::new(0);
static TAKEN: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());

/// A port without a listener or a reservation.
#[must_use]
pub fn free_port() -> u16 {
    // Each process starts elsewhere in the range, so that two processes rarely try the same port.
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(step) % COUNT;
        let port = u16::try_from(port).expect("the range ends below 65,536");
        let Some(taken) = take(port) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push(taken);
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// Reserves a port for this process, unless already reserved.
fn take(port: u16) -> Option<UnixDatagram> {
    let sign = SocketAddr::from_abstract_name(format!("delayq-tests-port-{port}")).ok()?;
    UnixDatagram::bind_addr(&sign).ok()
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
    fn a_port_that_another_process_was_given_is_not_given() {
        let other: Vec<(u16, UnixDatagram)> = (FIRST..FIRST + COUNT / 2)
            .map(|port| u16::try_from(port).unwrap())
            .filter_map(|port| Some((port, take(port)?)))
            .collect();
        let ports: HashSet<u16> = (0..50).map(|_| free_port()).collect();
        assert!(other.iter().all(|(port, _)| !ports.contains(port)));
    }

    #[test]
    fn a_port_in_use_is_not_given() {
        let taken: Vec<TcpListener> =
            (0..20).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).unwrap()).collect();
        let ports: HashSet<u16> = taken.iter().map(|l| l.local_addr().unwrap().port()).collect();
        assert!(!ports.contains(&free_port()));
    }
}
