//! A process cut off for ever at a particular request: proxies to etcd and Redis hold everything from then on.
//!
//! A process acts only through its requests. So holding a request before it leaves, or its answer, kills the process
//! between two steps, always at the same place.

use crate::deadline::{LONG, within};
use crate::proxy::listen_beside;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// `/etcdserverpb.Lease/LeaseRevoke` in an HTTP/2 header, in the encoding of RFC 7541. The message itself is only a
/// lease's id, like a keep-alive's.
const REVOKE: [u8; 22] = [
    0x60, 0xa9, 0x24, 0x88, 0x2d, 0x9d, 0xcb, 0x65, 0x71, 0xaf, 0x9c, 0xa3, 0x41, 0x58, 0xce, 0x51, 0xa0,
    0xbb, 0x4b, 0xdc, 0xfd, 0x4b,
];

/// The side of the request on which the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The request does not leave.
    Before,
    /// The server applies the request, and the process never learns of it.
    After,
}

/// Recognises the request by the bytes of one read, from their beginning.
pub type Step = fn(&[u8]) -> bool;

/// The proxies, and their stopping point. Empty by default.
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
    /// Adds a proxy beside this server; returns the address.
    pub async fn way_to(&mut self, server: String) -> String {
        let listener = TcpListener::from_std(listen_beside(&server)).expect("it is within a runtime");
        let address = listener.local_addr().expect("it is bound").to_string();
        let shared = Arc::clone(&self.shared);
        self.listening.spawn(async move {
            // The connections end with the test's runtime: until then a server keeps its received data.
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server.clone(), Arc::clone(&shared)));
            }
        });
        address
    }

    /// Holds everything from the first matching request on.
    pub fn arm(&self, step: Step, end: End) {
        *self.shared.armed() = Some((step, end));
    }

    /// Resolves once the request was seen.
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
        self.armed.lock().expect("no code panics while holding the lock")
    }

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

/// True if the bytes contain this part.
#[must_use]
pub fn has(sent: &[u8], part: impl AsRef<[u8]>) -> bool {
    let part = part.as_ref();
    sent.windows(part.len()).any(|window| window == part)
}

/// Recognises a member that leaves its fleet.
#[must_use]
pub fn revokes_its_lease(sent: &[u8]) -> bool {
    has(sent, REVOKE)
}

/// Recognises a member that begins to lead its fleet: only the leader reads all members, up to the end of their range, with
/// the plan.
#[must_use]
pub fn begins_to_lead(sent: &[u8]) -> bool {
    frames(sent).any(|frame| has(frame, "/members0") && has(frame, "/plan"))
}

/// The HTTP/2 frames (RFC 9113, 4.1) in one read of a client's bytes: on a busy machine several requests arrive
/// together. Bytes without a frame header are one piece.
fn frames(sent: &[u8]) -> impl Iterator<Item = &[u8]> {
    const HEADER: usize = 9;
    let mut rest = sent;
    std::iter::from_fn(move || {
        let length = match rest {
            [] => return None,
            [a, b, c, ..] => HEADER + u32::from_be_bytes([0, *a, *b, *c]) as usize,
            _ => rest.len(),
        };
        let (frame, others) = rest.split_at(length.min(rest.len()));
        rest = others;
        Some(frame)
    })
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
    // A dead process takes back nothing in flight.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(payload: &str) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, 0, 0, 0, 0, 0, 1][..], payload.as_bytes()].concat()
    }

    #[test]
    fn a_request_is_recognised_among_those_that_are_sent_with_it() {
        let (follows, all) = (frame("p/members/a p/plan"), frame("p/members/ p/members0"));
        let (alive, look) = (frame(""), frame("p/members/ p/members0 p/plan "));
        assert!(begins_to_lead(&[alive, follows.clone(), look.clone()].concat()));
        assert!(!begins_to_lead(&[follows, all].concat()));
        // Cut short, or no frame at all.
        assert!(begins_to_lead(&look[..look.len() - 1]));
        assert!(!begins_to_lead(b"p/"));
    }
}
