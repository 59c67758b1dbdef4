//! A body as lines, read while it comes. Each line has a size and a time; the body has no end of its own.

use super::body::{MAX_BODY, cut_off, discard, too_large, too_slow};
use crate::problem::Problem;
use crate::state::{Room, Scope};
use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _};
use std::time::Duration;

/// With the room that the lines take.
pub(crate) struct Lines {
    data: BodyDataStream,
    buffered: BytesMut,
    /// How much of the buffer has no end of a line.
    searched: usize,
    is_over: bool,
    timeout: Duration,
    _room: Room,
}

// === impl Lines ===

impl Lines {
    /// The client sets the pace, so only what was sent has turns.
    pub(super) fn of(body: Body, scope: &Scope) -> Result<Self, Problem> {
        scope.yield_turn();
        Ok(Self {
            data: body.into_data_stream(),
            buffered: BytesMut::new(),
            searched: 0,
            is_over: false,
            timeout: scope.body_timeout(),
            _room: scope.room(2 * MAX_BODY)?,
        })
    }

    /// `None` after the last line, which needs no end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let timeout = self.timeout;
        let next = tokio::time::timeout(timeout, self.read());
        next.await.map_err(|_| too_slow("a line", timeout))?
    }

    /// If the line has come already.
    pub(crate) fn ready(&mut self) -> Option<Result<Option<Bytes>, Problem>> {
        self.read().now_or_never()
    }

    /// After a refusal.
    pub(crate) fn discard(self) {
        discard(self.data, self.timeout);
    }

    /// Cancel safe: read bytes stay in the buffer.
    async fn read(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            if let Some(at) = self.buffered[self.searched..].iter().position(|&byte| byte == b'\n') {
                let line = self.buffered.split_to(self.searched + at + 1);
                self.searched = 0;
                return Ok(Some(without_end(&line.freeze())));
            }
            self.searched = self.buffered.len();
            if self.searched > MAX_BODY {
                return Err(too_large(MAX_BODY));
            }
            if self.is_over {
                self.searched = 0;
                let last = self.buffered.split().freeze();
                return Ok(Some(last).filter(|last| !last.is_empty()));
            }
            match self.data.next().await {
                Some(part) => self.buffered.extend_from_slice(&part.map_err(|error| cut_off(&error))?),
                None => self.is_over = true,
            }
        }
    }
}

fn without_end(line: &Bytes) -> Bytes {
    let end = line.strip_suffix(b"\n").unwrap_or(line);
    let end = end.strip_suffix(b"\r").unwrap_or(end).len();
    line.slice(..end)
}
