//! The loop of a stream.

use super::ask::{StreamAsk, StreamReserve};
use super::closing::Closing;
use super::credits::Credits;
use super::messages::{Messages, Reserved};
use super::settlements::{SettledFrame, Settlements};
use super::socket::{Heard, Socket};
use super::tell;
use crate::actions::{Acted, Acting, BURY};
use crate::admission::Admission;
use crate::metrics::GaugeGuard;
use crate::problem::{Kind, Problem};
use crate::routes::reserve::kind;
use crate::routes::settle::answer;
use crate::server::{Peer, Terms};
use crate::state::{App, Scope};
use axum::Error;
use axum::extract::ws::WebSocket;
use axum::http::StatusCode;
use std::collections::VecDeque;

/// The parts of a gateway that a stream needs.
pub(super) struct Streaming {
    pub(super) app: App,
    pub(super) scope: Scope,
    pub(super) admission: Admission,
    pub(super) peer: Peer,
}

struct Running {
    of: Streaming,
    socket: Socket,
    /// Frames that came.
    frames: u64,
    messages: Messages,
    settlements: Settlements,
    replies: VecDeque<String>,
    counted: (&'static str, GaugeGuard),
}

enum StreamEvent {
    Heard(Heard),
    Reserved(Reserved),
    Settled(Vec<SettledFrame>),
    /// More is to be sent.
    Unsent,
}

// === impl Streaming ===

impl Streaming {
    pub(super) async fn run(self, web: WebSocket, terms: Terms) {
        let admission = self.admission.clone();
        let mut running = Running::new(self, Socket::new(web, terms.silence));
        let closing = tokio::select! {
            biased;
            () = terms.shutdown.requested() => Closing::Stopping,
            problem = admission.lost() => Closing::Refused(problem),
            closing = running.run() => closing,
        };
        running.end(closing).await;
    }
}

// === impl Running ===

impl Running {
    fn new(of: Streaming, socket: Socket) -> Self {
        let (messages, settlements) = (Messages::default(), Settlements::default());
        let state = messages.state();
        let counted = (state, of.app.metrics.stream_in(state));
        Self { of, socket, frames: 0, messages, settlements, replies: VecDeque::new(), counted }
    }

    /// Until the client or the connection ends. Cancel safe.
    async fn run(&mut self) -> Closing {
        loop {
            match self.step().await {
                Ok(None) => {}
                Ok(Some(closing)) => return closing,
                Err(error) => return Closing::of(error),
            }
        }
    }

    /// Cancel safe: calls and messages in flight are kept.
    async fn step(&mut self) -> Result<Option<Closing>, Error> {
        self.send().await?;
        self.messages.ask(&self.of.scope, &self.of.peer);
        self.settlements.begin(&self.of.scope);
        self.count();
        match self.next().await {
            StreamEvent::Heard(Heard::Text(text)) => self.hear(&text),
            StreamEvent::Heard(Heard::Quiet) => {
                self.replies.push_back(tell::ping());
                self.socket.ping().await?;
            }
            StreamEvent::Heard(Heard::Ended(closing)) => return Ok(Some(closing)),
            StreamEvent::Heard(Heard::Sign) | StreamEvent::Unsent => {}
            StreamEvent::Settled(frames) => self.settled(frames),
            StreamEvent::Reserved(reserved) => {
                if let Err(problem) = self.messages.take(reserved) {
                    self.replies.push_back(tell::error(&problem, None, None));
                }
            }
        }
        Ok(None)
    }

    /// Sends the replies and one message, so that frames of the client come in between.
    async fn send(&mut self) -> Result<(), Error> {
        // The rest of an earlier call, and pongs.
        self.flush().await?;
        if !self.replies.is_empty() {
            while let Some(reply) = self.replies.pop_front() {
                self.socket.feed(reply).await?;
            }
            self.flush().await?;
        }
        if let Some(message) = self.messages.next_unsent() {
            let (frame, receipt, handed) = message.into_parts();
            self.socket.feed(frame).await?;
            self.messages.sending(receipt, handed);
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Error> {
        self.socket.flush().await?;
        self.messages.sent();
        Ok(())
    }

    async fn next(&mut self) -> StreamEvent {
        let (has_room, has_unsent) = (self.settlements.has_room(), self.messages.has_unsent());
        tokio::select! {
            biased;
            heard = self.socket.hear(), if has_room => StreamEvent::Heard(heard),
            settled = self.settlements.ended() => StreamEvent::Settled(settled),
            () = std::future::ready(()), if has_unsent => StreamEvent::Unsent,
            reserved = self.messages.reserved() => StreamEvent::Reserved(reserved),
        }
    }

    fn hear(&mut self, text: &str) {
        self.frames += 1;
        let read = StreamAsk::read(text).and_then(|ask| match ask {
            StreamAsk::Reserve(reserve) => self.reserve(reserve),
            StreamAsk::Credit(more) => self.messages.credits().by(more).map(|credits| self.grant(credits)),
            StreamAsk::Settle(item) => {
                self.settlements.push(self.frames, item);
                Ok(())
            }
        });
        if let Err(problem) = read {
            self.replies.push_back(tell::error(&problem, Some(self.frames), None));
        }
    }

    fn reserve(&mut self, asked: StreamReserve) -> Result<(), Problem> {
        if self.messages.is_begun() {
            return Err(Problem::new(Kind::Invalid, "reserve: a stream reserves once; open another one"));
        }
        let credits = Credits::new(asked.credits)?;
        let kind = kind(asked.topics, asked.max_bytes, asked.lease, self.of.app.lease)?;
        self.messages.begin(self.of.scope.stored_kind(kind)?);
        self.grant(credits);
        Ok(())
    }

    /// No message comes beyond the credits that the client is told here.
    fn grant(&mut self, credits: Credits) {
        self.messages.grant(credits);
        self.replies.push_back(tell::credits(credits.all()));
    }

    fn settled(&mut self, frames: Vec<SettledFrame>) {
        self.note(frames.iter().filter(|frame| frame.is_burial()).count() as u64);
        for of in frames {
            if of.frees_credit() {
                self.messages.settled(&of.receipt);
            }
            self.replies.push_back(match of.settled.and_then(|settled| answer(&settled)) {
                Ok(outcome) => tell::settled(&of.receipt, outcome),
                Err(problem) => tell::error(&problem, Some(of.frame), Some(&of.receipt)),
            });
        }
    }

    /// For the log of actions.
    fn note(&self, buried: u64) {
        if buried > 0 {
            let acting = Acting::new(self.of.admission.caller(), ("openStream", false), Vec::new(), None);
            let acted = Acted { action: Some(BURY), messages: buried, with: None };
            self.of.app.actions.note(acting, acted, StatusCode::OK, None);
        }
    }

    fn count(&mut self) {
        let state = self.messages.state();
        if self.counted.0 != state {
            self.counted = (state, self.of.app.metrics.stream_in(state));
        }
    }

    /// Gives back unsent messages, carries out the settlements that came, and closes. The client's messages go back too, unless the
    /// gateway stops: then the client settles at another gateway.
    async fn end(mut self, closing: Closing) {
        tracing::debug!(?closing, code = closing.code(), "a stream ends");
        self.messages.stop();
        while !self.settlements.is_empty() {
            self.settlements.begin(&self.of.scope);
            let settled = self.settlements.ended().await;
            self.settled(settled);
        }
        self.of.app.metrics.stream_closed(closing.code());
        if self.socket.flush_soon().await {
            self.messages.sent();
            self.socket.close(&closing, self.replies).await;
        }
        if matches!(closing, Closing::Stopping) {
            self.messages.leave();
        }
    }
}
