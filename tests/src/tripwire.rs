//! A process that is cut off for ever at one request: ways to etcd and Redis that hold everything from then on.
//!
//! What a process did is what its requests did. So to end it before a request that never leaves, or after one whose
//! answer never comes, is to kill it between two steps, and always between the same ones.

use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::deadline::{LONG, within};

/// `/etcdserverpb.Lease/LeaseRevoke` as a head of HTTP/2 has it, in the code of RFC 7541. The message itself is a lease's
/// id alone, as a keep-alive's is.
const REVOKE: [u8; 22] = [
    0x60, 0xa9, 0x24, 0x88, 0x2d, 0x9d, 0xcb, 0x65, 0x71, 0xaf, 0x9c, 0xa3, 0x41, 0x58, 0xce, 0x51, 0xa0,
    0xbb, 0x4b, 0xdc, 0xfd, 0x4b,
];

/// Which side of the request the process ends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The request does not leave.
    Before,
    /// The server does what was asked, and the process never learns of it.
    After,
}

/// Tells the request by what was sent, from the beginning of what the system gave at once.
pub type Step = fn(&[u8]) -> bool;

/// The ways, and where they end. None yet by default.
#[derive(Debug, Default)]
pub struct Tripwire {
    shared: Arc<Shared>,
    listening: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shared {
    armed: Mutex<Option<(Step, End)>>,
    tripped: watch::Sender<bool>,
}

// === impl Tripwire ===

impl Tripwire {
    /// Another way, to this server; its own address.
    ///
    /// # Panics
    /// When there is no port to listen on.
    pub async fn way_to(&mut self, server: String) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
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
    pub fn arm(&self, step: Step, end: End) {
        *self.shared.armed() = Some((step, end));
    }

    /// Resolves when it was met.
    ///
    /// # Panics
    /// When it is not met in time.
    pub async fn tripped(&self) {
        let mut tripped = self.shared.tripped.subscribe();
        within("the step to be met", LONG, tripped.wait_for(|tripped| *tripped))
            .await
            .expect("this end says when it is met");
    }
}

// === impl Shared ===

impl Shared {
    fn has_tripped(&self) -> bool {
        *self.tripped.borrow()
    }

    fn armed(&self) -> MutexGuard<'_, Option<(Step, End)>> {
        self.armed.lock().expect("nobody panics while holding it")
    }

    /// Whether these bytes may go on to the server.
    fn admits(&self, sent: &[u8]) -> bool {
        if self.has_tripped() {
            return false;
        }
        match *self.armed() {
            Some((step, end)) if step(sent) => {
                self.tripped.send_replace(true);
                end == End::After
            }
            _ => true,
        }
    }
}

/// Whether this part is anywhere in what was sent.
#[must_use]
pub fn has(sent: &[u8], part: impl AsRef<[u8]>) -> bool {
    let part = part.as_ref();
    sent.windows(part.len()).any(|window| window == part)
}

/// Whether a member of a group asks etcd to give one of its shards up: a deletion names a claim's key and nothing else of
/// the group.
#[must_use]
pub fn gives_up_a_claim(sent: &[u8]) -> bool {
    has(sent, "/claims/") && !["/claims0", "/plan", "/members/", "name"].iter().any(|other| has(sent, other))
}

/// Whether a member of a group leaves it.
#[must_use]
pub fn revokes_its_lease(sent: &[u8]) -> bool {
    has(sent, REVOKE)
}

/// Whether a member of a group begins to lead it: the leader alone reads the members together with the plan.
#[must_use]
pub fn begins_to_lead(sent: &[u8]) -> bool {
    has(sent, "/members/") && has(sent, "/plan") && !has(sent, "/claims/")
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
