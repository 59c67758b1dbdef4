//! Reserving for all that wait: no request reserves by itself.
//!
//! A request whose client goes while its reserve is on the way would lease a message to nobody. So a single task reserves for all:
//!
//! ```text
//!  reserve ─► waiter ─┐                          ┌─► first waiter whose client is there ─► socket
//!  reserve ─► waiter ─┼─► desk ─► one reserve ───┼─► next waiter
//!  reserve ─► waiter ─┘   (same topics, lease)   └─► given back, its attempt kept
//! ```
//! Requests for the same topics and lease share a desk: one reserve asks for as many messages as the waiters want. A desk asks
//! the shards that may have messages: every shard at first and once a second, otherwise the shards that publish a ready queue.
//! A request with fewer messages than it wants waits for the shards that have more, and for no news.
//!
//! A stream reserves like a request, for as many messages as credits are free. [`Unsettled`] has the messages that the socket of a
//! stream has taken, and gives these back at the end of the stream.

mod desk;
mod giving_back;
mod handed;
mod running;
mod unsettled;
mod watched;

pub(crate) use desk::{Wanted, WantedKind};
pub(crate) use giving_back::GivingBack;
pub(crate) use handed::Handed;
pub(crate) use running::ReserveTask;
pub(crate) use unsettled::Unsettled;
pub(crate) use watched::watched;

use crate::server::Peer;
use delayq::Error;
use desk::Waiter;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Clones share the waiting room.
#[derive(Clone, Debug)]
pub(crate) struct Dispatcher {
    waiters: mpsc::UnboundedSender<Waiter>,
    places: Arc<Semaphore>,
}

pub(crate) struct Poll {
    pub(crate) wanted: Wanted,
    pub(crate) wait: Duration,
    pub(crate) peer: Peer,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Requests wait in these places; the other end is for [`ReserveTask`].
    pub(crate) fn new(places: Arc<Semaphore>) -> (Self, mpsc::UnboundedReceiver<Waiter>) {
        let (waiters, arriving) = mpsc::unbounded_channel();
        (Self { waiters, places }, arriving)
    }

    /// `None`: all are taken.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// `None`: none came in time, or the gateway stops. Cancel safe: messages that arrive for a dropped
    /// future go to the next waiter, or back.
    pub(crate) async fn reserve(&self, poll: Poll) -> Result<Option<Handed>, Error> {
        let (answer, answered) = oneshot::channel();
        let Poll { wanted, wait, peer } = poll;
        let waiter = Waiter::new(wanted, !wait.is_zero(), peer, answer);
        if self.waiters.send(waiter).is_err() {
            return Ok(None);
        }
        // Without a wait, the desk answers once no shard is left to ask; calls have a deadline.
        let limit = if wait.is_zero() { Duration::MAX } else { wait };
        match tokio::time::timeout(limit, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }
}
