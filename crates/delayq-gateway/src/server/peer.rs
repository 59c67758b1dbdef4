//! The presence of the client of a connection.

use futures_util::FutureExt as _;
use std::sync::{Arc, Weak};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// The client of a connection. Does not keep the connection open.
#[derive(Clone, Debug)]
pub(crate) struct Peer(Weak<TcpStream>);

// === impl Peer ===

impl Peer {
    pub(super) fn of(stream: &Arc<TcpStream>) -> Self {
        Self(Arc::downgrade(stream))
    }

    /// True if the client has closed or reset the connection, or the sending half. hyper notices that as well, unless bytes of
    /// a further request wait to be read.
    pub(crate) fn is_gone(&self) -> bool {
        let Some(stream) = self.0.upgrade() else { return true };
        match stream.ready(Interest::READABLE).now_or_never() {
            Some(Ok(ready)) => ready.is_read_closed(),
            Some(Err(_)) => true,
            None => false,
        }
    }
}
