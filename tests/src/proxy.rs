//! A TCP proxy between a client and a server that breaks the network on command.
//!
//! Each direction has a [`Flow`], switched at run time. Held bytes continue when the flow passes again, as TCP delivers
//! them after a network outage. The proxy runs on its own thread, so a blocking test does not stop it.

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

/// One of the two directions through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// What happens to the bytes of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// They pass at once.
    #[default]
    Pass,
    /// Each arrives later by this; order and rate stay.
    Delay(Duration),
    /// None arrives until the flow passes again.
    Hold,
    /// None arrives until the flow passes again, and none is read either: the sender's buffers fill, as if its client
    /// did not read.
    Unread,
}

/// What happens to a connection after a lost reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterLoss {
    /// It is reset: the client learns at once that something went wrong.
    Reset,
    /// It stays open and silent: only the client's own deadline reveals the loss.
    Silence,
}

/// A proxy in front of one server. Dropping it resets every connection through it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
}

/// All that a test can switch; connections watch it.
#[derive(Debug, Clone, Default)]
struct State {
    /// Where new connections lead; `None`: the proxy's original upstream.
    moved_to: Option<SocketAddr>,
    requests: Flow,
    replies: Flow,
    refusing: bool,
    ended: bool,
    /// How many connections were accepted so far; each has a number, from 0.
    taken: u64,
    /// Connections with a lower number are reset.
    reset_below: u64,
    /// Connections with a lower number are held forever.
    stranded_below: u64,
    /// The processes whose connections are held.
    barred: Vec<u32>,
    /// How many more replies may pass before one is lost, and what happens then.
    losing: Option<(u64, AfterLoss)>,
    /// The direction, and how many more bytes may pass before the connection is reset.
    cutting: Option<(Direction, u64)>,
    losses: u64,
    /// Whether the listener is closed or open now, as the refusing flag demands.
    listening: bool,
}

// === impl Proxy ===

impl Proxy {
    /// Starts a proxy in front of any server, for example `"127.0.0.1:2379"`.
    ///
    /// # Panics
    /// If `upstream` is not a socket address.
    #[must_use]
    pub fn start(upstream: &str) -> Self {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        Self::start_with(listener, upstream, Framing::Bytes)
    }

    /// Starts a proxy in front of a Redis: it knows where replies end, so it can lose exactly one. It listens
    /// [beside](listen_beside) the Redis.
    ///
    /// # Panics
    /// If `upstream` is not a socket address.
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

    /// Where clients connect to, `127.0.0.N:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Sets what happens to one direction, on all connections, from now on.
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

    /// Holds the connections that are now open forever; new ones pass.
    pub fn strand_open(&self) {
        self.change(|s| s.stranded_below = s.taken);
    }

    /// Holds the connections of one process of this machine, including later ones, until [`Self::mend`].
    pub fn bar(&self, process: u32) {
        self.change(|s| s.barred.push(process));
    }

    /// Forwards to another server from now on, like an address that moves; open connections stay where they are.
    ///
    /// # Panics
    /// If `upstream` is not a socket address.
    pub fn lead_to(&self, upstream: &str) {
        let upstream = socket_address(upstream);
        self.change(|s| s.moved_to = Some(upstream));
    }

    /// Resets (RST) the connections that are open now; new ones pass.
    pub fn reset_open(&self) {
        self.change(|s| s.reset_below = s.taken);
    }

    /// Resets open connections and refuses new ones like a port without a listener; returns once it does.
    pub async fn refuse(&self) {
        self.reset_open();
        self.set_refusing(true).await;
    }

    /// Accepts new connections again; returns once it does.
    pub async fn accept(&self) {
        self.set_refusing(false).await;
    }

    /// Loses one reply of the server: after `passing` more replies (0: the very next), over all connections, one does
    /// not arrive, nor does anything after it on its connection. The server has applied the request.
    ///
    /// Only for a proxy made by [`Self::start_for_redis`]; in front of another server it loses nothing.
    pub fn lose_reply(&self, passing: u64, then: AfterLoss) {
        self.change(|s| s.losing = Some((passing, then)));
    }

    /// Resets a connection in the middle: as soon as this many more bytes have passed in that direction, over all
    /// connections.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.change(|s| s.cutting = Some((direction, bytes)));
    }

    /// How often an armed fault ([`Self::lose_reply`], [`Self::cut_after`]) has struck so far.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.state.borrow().losses
    }

    /// Waits until armed faults have struck this often in all.
    ///
    /// It may wait forever; give it a limit.
    pub async fn wait_losses(&self, count: u64) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|s| s.losses >= count).await;
    }

    /// How many connections it has accepted so far.
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
    /// The flow of one direction on the connection of that number and that dialer.
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

    /// Whether the connection of that number must end.
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

/// At the port of a server, on another address of this machine: a cluster of one that the harness started tells its port alone,
/// and its clients then stay with the host that they know.
pub(crate) fn listen_beside(server: &str) -> std::net::TcpListener {
    let port = socket_address(server).port();
    let beside = |n| std::net::TcpListener::bind((Ipv4Addr::new(127, 0, 0, n), port)).ok();
    let listener = (2..=u8::MAX).find_map(beside).unwrap_or_else(|| panic!("no address beside {server}"));
    listener.set_nonblocking(true).expect("a socket can be made non-blocking");
    listener
}

/// Accepts connections until the proxy is dropped; while refusing, it does not listen on the port.
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
            // The connections see it too; they end with the runtime, and that with this function.
            tokio::task::yield_now().await;
            return;
        }
        let _ = changes.wait_for(|s| !s.refusing || s.ended).await;
        if state.borrow().ended {
            return;
        }
    }
}

/// Carries one connection until it ends by itself or by a fault.
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
