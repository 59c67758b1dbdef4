//! A TCP proxy between a client and a server that breaks the network on command.
//!
//! Each direction has a [`Flow`], switched at run time. Held bytes continue when the flow passes again, as TCP delivers
//! them after a network outage. The proxy runs on its own thread, so a blocking test does not stop the proxy.

use crate::ports::free_port;
use carry::{Framing, Way, carry};
use dialer::Dialer;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

mod carry;
mod dialer;

/// A direction through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// The treatment of one direction's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// Bytes pass at once.
    #[default]
    Pass,
    /// Bytes arrive later by this; order and rate stay.
    Delay(Duration),
    /// Bytes are held until the flow passes again.
    Hold,
    /// Bytes are not even read until the flow passes again: the sender's buffers fill, as with a client that does not
    /// read.
    Unread,
}

/// The fate of a connection after a lost reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterLoss {
    /// Reset: the client learns of the loss at once.
    Reset,
    /// Open and silent: only the client's own deadline reveals the loss.
    Silence,
}

/// A proxy in front of one server. Dropping the proxy resets every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Clone, Default)]
struct State {
    /// Target of new connections; `None`: the proxy's original upstream.
    moved_to: Option<SocketAddr>,
    requests: Flow,
    replies: Flow,
    refusing: bool,
    ended: bool,
    /// Number of accepted connections; each has a number, from 0.
    taken: u64,
    /// Connections with a lower number are reset.
    reset_below: u64,
    /// Connections with a lower number are held for ever.
    stranded_below: u64,
    barred: Vec<u32>,
    /// Number of replies that may pass before the loss of a reply, and the fate of the connection.
    losing: Option<(u64, AfterLoss)>,
    /// The direction, and the number of bytes that may pass before the connection is reset.
    cutting: Option<(Direction, u64)>,
    losses: u64,
    /// The listener's actual state, following the refusing flag.
    listening: bool,
}

// === impl Proxy ===

impl Proxy {
    /// Starts a proxy in front of any server, for example `"127.0.0.1:2379"`.
    #[must_use]
    pub fn start(upstream: &str) -> Self {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        Self::start_with(listener, upstream, Framing::Bytes)
    }

    /// Starts a proxy in front of a Redis: knows the end of each reply, so can lose exactly one. Listens
    /// [beside](listen_beside) the Redis.
    #[must_use]
    pub fn start_for_redis(upstream: &str) -> Self {
        Self::start_with(listen_beside(upstream), upstream, Framing::Resp)
    }

    fn start_with(listener: std::net::TcpListener, upstream: &str, framing: Framing) -> Self {
        let upstream = socket_address(upstream);
        let address = listener.local_addr().expect("a bound listener has an address");
        let state = Arc::new(watch::Sender::new(State { listening: true, ..State::default() }));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime of one thread needs nothing that can be missing");
        let served = Arc::clone(&state);
        thread::spawn(move || runtime.block_on(serve(listener, upstream, framing, served)));
        Self { address, state }
    }

    /// The address for clients, `127.0.0.N:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Sets the flow of one direction on all connections.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.change(|s| match direction {
            Direction::Requests => s.requests = flow,
            Direction::Replies => s.replies = flow,
        });
    }

    /// Sets both directions. `set_both(Flow::Hold)` is a black hole; with [`Flow::Delay`] a round trip takes twice the
    /// delay.
    pub fn set_both(&self, flow: Flow) {
        self.change(|s| (s.requests, s.replies) = (flow, flow));
    }

    /// Lets everything pass again: clears flows, refusals and armed faults; stranded connections stay stranded.
    pub async fn mend(&self) {
        self.change(|s| {
            (s.requests, s.replies, s.losing, s.cutting) = (Flow::Pass, Flow::Pass, None, None);
            s.barred.clear();
        });
        self.set_refusing(false).await;
    }

    /// Holds the open connections for ever; new connections pass.
    pub fn strand_open(&self) {
        self.change(|s| s.stranded_below = s.taken);
    }

    /// Holds the connections of one process of this machine, including later ones, until [`Self::mend`].
    pub fn bar(&self, process: u32) {
        self.change(|s| s.barred.push(process));
    }

    /// Forwards new connections to another server, like an address that moves; open connections stay.
    pub fn lead_to(&self, upstream: &str) {
        let upstream = socket_address(upstream);
        self.change(|s| s.moved_to = Some(upstream));
    }

    /// Resets (RST) the open connections; new connections pass.
    pub fn reset_open(&self) {
        self.change(|s| s.reset_below = s.taken);
    }

    /// Resets open connections and refuses new ones like a port without a listener; returns once in effect.
    pub async fn refuse(&self) {
        self.reset_open();
        self.set_refusing(true).await;
    }

    /// Accepts new connections again; returns once in effect.
    pub async fn accept(&self) {
        self.set_refusing(false).await;
    }

    /// Loses one reply of the server: after `passing` more replies (0: the very next), over all connections, a reply
    /// does not arrive, nor does anything after it on its connection. The server has applied the request.
    ///
    /// Only for a proxy made by [`Self::start_for_redis`]; a proxy of another server loses nothing.
    pub fn lose_reply(&self, passing: u64, then: AfterLoss) {
        self.change(|s| s.losing = Some((passing, then)));
    }

    /// Resets a connection midway: as soon as this many more bytes have passed in that direction, over all connections.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.change(|s| s.cutting = Some((direction, bytes)));
    }

    /// Number of armed faults ([`Self::lose_reply`], [`Self::cut_after`]) that have struck so far.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.state.borrow().losses
    }

    /// Waits until armed faults have struck this often in total.
    ///
    /// May wait for ever; use a limit.
    pub async fn wait_losses(&self, count: u64) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|s| s.losses >= count).await;
    }

    /// Number of accepted connections so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.state.borrow().taken
    }

    async fn set_refusing(&self, refusing: bool) {
        let mut state = self.state.subscribe();
        self.change(|s| s.refusing = refusing);
        let _ = state.wait_for(|s| s.listening != refusing).await;
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(change);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.change(|s| s.ended = true);
    }
}

// === impl State ===

impl State {
    /// Of the connection with this number and dialer.
    fn flow(&self, direction: Direction, number: u64, dialer: &Dialer) -> Flow {
        let barred = || self.barred.iter().any(|&process| dialer.is(process));
        if number < self.stranded_below || barred() {
            return Flow::Hold;
        }
        match direction {
            Direction::Requests => self.requests,
            Direction::Replies => self.replies,
        }
    }

    fn ends(&self, number: u64) -> bool {
        self.ended || number < self.reset_below
    }
}

fn socket_address(text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|e| panic!("{text:?} is not an IP address with a port: {e}"))
}

fn listen(address: SocketAddr) -> std::net::TcpListener {
    let listener =
        std::net::TcpListener::bind(address).unwrap_or_else(|e| panic!("cannot listen on {address}: {e}"));
    listener.set_nonblocking(true).expect("a socket can be made non-blocking");
    listener
}

/// Listens on a server's port at another address of this machine: a cluster of one that the harness started announces
/// only its port, and clients then keep their known host.
pub(crate) fn listen_beside(server: &str) -> std::net::TcpListener {
    let port = socket_address(server).port();
    let beside = |n| std::net::TcpListener::bind((Ipv4Addr::new(127, 0, 0, n), port)).ok();
    let listener = (2..=u8::MAX).find_map(beside).unwrap_or_else(|| panic!("no address beside {server}"));
    listener.set_nonblocking(true).expect("a socket can be made non-blocking");
    listener
}

/// Accepts connections until the proxy is dropped; while refusing, does not listen on the port.
async fn serve(
    first: std::net::TcpListener,
    upstream: SocketAddr,
    framing: Framing,
    state: Arc<watch::Sender<State>>,
) {
    let address = first.local_addr().expect("a bound listener has an address");
    let mut changes = state.subscribe();
    let mut next = Some(first);
    loop {
        let listener = next.take().unwrap_or_else(|| listen(address));
        let listener = TcpListener::from_std(listener).expect("it was made non-blocking");
        state.send_modify(|s| s.listening = true);
        loop {
            tokio::select! {
                taken = listener.accept() => if let Ok((client, _)) = taken {
                    let (number, moved_to) = (state.borrow().taken, state.borrow().moved_to);
                    let upstream = moved_to.unwrap_or(upstream);
                    state.send_modify(|s| s.taken += 1);
                    tokio::spawn(connect(client, upstream, framing, number, Arc::clone(&state)));
                },
                _ = changes.wait_for(|s| s.refusing || s.ended) => break,
            }
        }
        drop(listener);
        state.send_modify(|s| s.listening = false);
        if state.borrow().ended {
            // Lets the connections see the change; they end with the runtime, which ends with this function.
            tokio::task::yield_now().await;
            return;
        }
        let _ = changes.wait_for(|s| !s.refusing || s.ended).await;
        if state.borrow().ended {
            return;
        }
    }
}

/// Until the end or a fault.
async fn connect(
    mut client: TcpStream,
    upstream: SocketAddr,
    framing: Framing,
    number: u64,
    state: Arc<watch::Sender<State>>,
) {
    let port = |address: std::io::Result<SocketAddr>| address.map_or(0, |address| address.port());
    let dialer = Dialer::new(port(client.peer_addr()), port(client.local_addr()));
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let broken = {
        let (client_reads, client_writes) = client.split();
        let (server_reads, server_writes) = server.split();
        let replies = Way { direction: Direction::Replies, framing, number, dialer: &dialer, state: &state };
        let requests = Way { direction: Direction::Requests, framing: Framing::Bytes, ..replies };
        let mut changes = state.subscribe();
        tokio::select! {
            carried = async { tokio::try_join!(
                carry(requests, client_reads, server_writes),
                carry(replies, server_reads, client_writes),
            ) } => carried.is_err(),
            _ = changes.wait_for(|s| s.ends(number)) => true,
        }
    };
    if broken {
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
}

#[cfg(test)]
mod tests;
