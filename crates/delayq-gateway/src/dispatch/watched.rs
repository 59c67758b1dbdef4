//! The body of an answer with messages, watched until the socket has taken all bytes.

use super::handed::Handed;
use crate::server::Outgoing;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The messages go back unless the socket takes all bytes.
struct Watched {
    bytes: Option<Bytes>,
    handed: Option<Handed>,
    outgoing: Outgoing,
}

pub(crate) fn watched(bytes: Bytes, handed: Option<Handed>, outgoing: Outgoing) -> Body {
    let handed = handed.map(Handed::without_payloads);
    Body::new(Watched { bytes: Some(bytes), handed, outgoing })
}

// === impl Watched ===

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        if let Some(handed) = self.handed.take() {
            self.outgoing.push(Box::new(handed));
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
