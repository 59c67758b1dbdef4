//! Answers on their way to the socket.
//!
//! hyper takes the last bytes of an answer into its own buffer, and flushes the socket only once that buffer is empty. So
//! what was handed to hyper before a flush has left this process, and what is here when the connection ends has not.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Dropping a parcel that was not sent gives the contents back.
pub(crate) trait Enclosure: Send {
    /// The socket has taken all of the answer.
    fn sent(self: Box<Self>);
}

/// The parcels of a connection whose bytes the socket may not have taken yet; clones share the list.
#[derive(Clone, Default)]
pub(crate) struct Outgoing(Arc<Mutex<Vec<Box<dyn Enclosure>>>>);

/// A connection that reports flushed answers: plain, or TLS, whose flush ends once the socket has taken every record.
pub(super) struct Reporting<C> {
    connection: C,
    outgoing: Outgoing,
}

// === impl Outgoing ===

impl Outgoing {
    /// hyper has the answer with this parcel.
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

// === impl Reporting ===

impl<C> Reporting<C> {
    pub(super) fn new(connection: C, outgoing: Outgoing) -> Self {
        Self { connection, outgoing }
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Reporting<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(cx, buffer)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Reporting<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    /// hyper flushes when the own buffer is empty: the connection has every answer.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.connection).poll_flush(cx))?;
        self.outgoing.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}
