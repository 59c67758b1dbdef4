//! A connection that fails when no byte has moved for too long.
//!
//! hyper has a deadline for the head of a request only. This covers the rest: a client that stops reading its
//! answer, or sends a body by the drop.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose reads and writes fail with [`io::ErrorKind::TimedOut`] after a stretch of silence.
pub(super) struct Idling {
    stream: TcpStream,
    limit: Duration,
    silence: Pin<Box<Sleep>>,
}

// === impl Idling ===

impl Idling {
    pub(super) fn new(stream: TcpStream, limit: Duration) -> Self {
        Self { stream, limit, silence: Box::pin(sleep(limit)) }
    }

    /// A byte moved: the silence begins anew.
    fn moved(&mut self) {
        let end = Instant::now() + self.limit;
        self.silence.as_mut().reset(end);
    }

    fn settle<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match poll {
            Poll::Pending => {
                std::task::ready!(self.silence.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no byte moved for too long")))
            }
            ready => {
                self.moved();
                ready
            }
        }
    }
}

impl AsyncRead for Idling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.settle(cx, poll)
    }
}

impl AsyncWrite for Idling {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.settle(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.settle(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
