//! The times of a call to a node.

use crate::clock;
use crate::places::Places;
use std::time::Instant;

/// The times of sending and answering a call, by the local clock.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    /// When the call was sent.
    pub sent: Instant,
    /// When the answer arrived.
    pub answered: Instant,
    /// A shard may have moved to another node during the call: then the clock in the answer may be any node's.
    pub moved: bool,
}

// === impl Trip ===

impl Trip {
    /// Times a call. `placed` is the version of the places by which the call's shards have their nodes.
    pub async fn of<T>((places, placed): (Places, u64), call: impl Future<Output = T>) -> (Self, T) {
        let sent = clock::steady();
        let answer = call.await;
        (Self { sent, answered: clock::steady(), moved: places.version() != placed }, answer)
    }
}
