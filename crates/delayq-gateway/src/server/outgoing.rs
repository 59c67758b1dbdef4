//! Answers on their way to the socket.
//!
//! hyper takes the last bytes of an answer into its own buffer, and flushes the socket only once that buffer is empty. So
//! what was handed to hyper before a flush has left this process, and what is here when the connection ends has not.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Something that an answer carries. Dropping a parcel that was not sent gives the contents back.
pub(crate) trait Enclosure: Send {
    /// The socket has taken all of the answer.
    fn sent(self: Box<Self>);
}

/// The parcels of a connection whose bytes the socket may not have taken yet; clones share the list.
#[derive(Clone, Default)]
pub(crate) struct Outgoing(Arc<Mutex<Vec<Box<dyn Enclosure>>>>);

// === impl Outgoing ===

impl Outgoing {
    /// The answer with this parcel was handed to hyper.
    pub(crate) fn push(&self, parcel: Box<dyn Enclosure>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(parcel);
    }

    /// The socket has taken all that was handed over.
    pub(super) fn flushed(&self) {
        let parcels = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for parcel in parcels {
            parcel.sent();
        }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outgoing")
    }
}
