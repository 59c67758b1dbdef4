//! A process that is cut off for ever at one request: ways to etcd and Redis that hold everything from then on.
//!
//! What a process did is what its requests did. So to end it before a request that never leaves, or after one whose
//! answer never comes, is to kill it between two steps, and always between the same ones.

use delayq_tests::deadline::{LONG, within};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Which side of the request the process ends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The request does not leave.
    Before,
    /// The server does what was asked, and the process never learns of it.
    After,
}

/// Tells the request by what was sent, from the beginning of what the system gave at once.
pub(crate) type Step = fn(&[u8]) -> bool;

/// The ways, and where they end.
pub(crate) struct Tripwire {
    shared: Arc<Shared>,
    listening: JoinSet<()>,
}

struct Shared {
    armed: Mutex<Option<(Step, End)>>,
    tripped: watch::Sender<bool>,
}

// === impl Tripwire ===

impl Tripwire {
    pub(crate) fn new() -> Self {
        let shared = Shared { armed: Mutex::default(), tripped: watch::Sender::new(false) };
        Self { shared: Arc::new(shared), listening: JoinSet::new() }
    }

    /// Another way, to this server; its own address.
    pub(crate) async fn way_to(&mut self, server: String) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::clone(&self.shared);
        self.listening.spawn(async move {
            // The connections end with the test's runtime: until then a server keeps what it was sent.
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server.clone(), Arc::clone(&shared)));
            }
        });
        address
    }

    /// Everything is held from the first such request on.
    pub(crate) fn arm(&self, step: Step, end: End) {
        *self.shared.armed.lock().unwrap() = Some((step, end));
    }

    /// Resolves when it was met.
    pub(crate) async fn tripped(&self) {
        let mut tripped = self.shared.tripped.subscribe();
        within("the step to be met", LONG, tripped.wait_for(|tripped| *tripped)).await.unwrap();
    }
}

// === impl Shared ===

impl Shared {
    fn has_tripped(&self) -> bool {
        *self.tripped.borrow()
    }

    /// Whether these bytes may go on to the server.
    fn admits(&self, sent: &[u8]) -> bool {
        if self.has_tripped() {
            return false;
        }
        match *self.armed.lock().unwrap() {
            Some((step, end)) if step(sent) => {
                self.tripped.send_replace(true);
                end == End::After
            }
            _ => true,
        }
    }
}

async fn carry(client: TcpStream, server: String, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let replies = tokio::spawn(replies(from_server, to_client, Arc::clone(&shared)));
    requests(from_client, to_server, &shared).await;
    let _ = replies.await;
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared) {
    while let Some(sent) = read(&mut from).await {
        if shared.admits(&sent) && to.write_all(&sent).await.is_err() {
            return;
        }
    }
    // A process that is gone takes back nothing of what is on its way.
    if shared.has_tripped() {
        std::future::pending::<()>().await;
    }
}

async fn replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: Arc<Shared>) {
    while let Some(answer) = read(&mut from).await {
        if !shared.has_tripped() && to.write_all(&answer).await.is_err() {
            return;
        }
    }
}

async fn read(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 64 * 1024];
    let read = from.read(&mut bytes).await.ok().filter(|&read| read > 0)?;
    bytes.truncate(read);
    Some(bytes)
}
