//! The socket of a stream: whole frames, and how long the client has been silent.

use super::closing::Closing;
use axum::Error;
use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Longest time for the last frames, and for the answer of the client.
const FAREWELL: Duration = Duration::from_secs(1);

pub(super) struct Socket {
    web: WebSocket,
    /// A client is silent for at most so long.
    silence: Duration,
    heard: Instant,
    /// Since the client was heard.
    is_pinged: bool,
}

pub(super) enum Heard {
    Text(String),
    /// A ping or a pong.
    Sign,
    Quiet,
    Ended(Closing),
}

// === impl Socket ===

impl Socket {
    pub(super) fn new(web: WebSocket, silence: Duration) -> Self {
        Self { web, silence, heard: Instant::now(), is_pinged: false }
    }

    /// Cancel safe. [`Heard::Quiet`]: a ping is due.
    pub(super) async fn hear(&mut self) -> Heard {
        let quiet = if self.is_pinged { self.silence } else { self.silence / 2 };
        let until = self.heard + quiet;
        let heard = tokio::select! {
            biased;
            heard = self.web.next() => heard,
            () = tokio::time::sleep_until(until) => {
                return if self.is_pinged { Heard::Ended(Closing::Silent) } else { Heard::Quiet };
            }
        };
        (self.heard, self.is_pinged) = (Instant::now(), false);
        match heard {
            Some(Ok(Message::Text(text))) => Heard::Text(text.to_string()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Heard::Sign,
            Some(Ok(Message::Binary(_))) => Heard::Ended(Closing::Binary),
            Some(Ok(Message::Close(_))) => Heard::Ended(Closing::ByClient),
            Some(Err(error)) => Heard::Ended(Closing::of(error)),
            None => Heard::Ended(Closing::Gone),
        }
    }

    /// Hands a frame over; [`Self::flush`] sends the frame.
    pub(super) async fn feed(&mut self, text: String) -> Result<(), Error> {
        self.web.feed(Message::Text(text.into())).await
    }

    /// Until the socket has taken all. Cancel safe.
    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        self.web.flush().await
    }

    pub(super) async fn ping(&mut self) -> Result<(), Error> {
        self.is_pinged = true;
        self.web.feed(Message::Ping(Bytes::new())).await
    }

    /// Flushes within a limit. True if the socket has taken all.
    pub(super) async fn flush_soon(&mut self) -> bool {
        matches!(timeout(FAREWELL, self.web.flush()).await, Ok(Ok(())))
    }

    /// Sends the last replies and the close frame, and waits for that of the client: closing the socket sooner could reset the
    /// connection, and the client would not read the frame.
    pub(super) async fn close(mut self, closing: &Closing, replies: impl IntoIterator<Item = String>) {
        let farewell = async {
            let Some(frame) = closing.frame() else { return };
            for reply in replies {
                let _ = self.feed(reply).await;
            }
            if self.web.send(Message::Close(Some(frame))).await.is_err() {
                return;
            }
            if matches!(closing, Closing::TooLarge | Closing::NotText | Closing::Malformed) {
                // Nothing is read behind a faulty frame.
                return sleep(FAREWELL).await;
            }
            while let Some(Ok(_)) = self.web.next().await {}
        };
        let _ = timeout(FAREWELL, farewell).await;
    }
}
