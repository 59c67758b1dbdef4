//! The start of a page or step.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::time::UnixMillis;

/// A position after an entry, whether that still exists or not; initially a time. Never a rank: an entry that
/// disappears before the position would make a rank skip another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    at: UnixMillis,
    entry: Vec<u8>,
}

// === impl Cursor ===

impl Cursor {
    /// At a time, before any entry.
    pub const fn from(at: UnixMillis) -> Self {
        Self { at, entry: Vec::new() }
    }

    /// After this entry at its time.
    pub const fn behind(at: UnixMillis, entry: Vec<u8>) -> Self {
        Self { at, entry }
    }

    /// The time.
    pub const fn at(&self) -> UnixMillis {
        self.at
    }

    /// The entry; empty at first.
    pub fn entry(&self) -> &[u8] {
        &self.entry
    }

    /// `None` after the last page.
    pub(crate) fn read(reply: &mut Reply) -> Result<Option<Self>, ReplyError> {
        let (at, entry) = (reply.maybe_number()?, reply.bytes()?);
        Ok(at.map(|at| Self { at: UnixMillis::new(at), entry }))
    }

    /// Two counts, and the start of the next step; `None` after the last.
    pub(crate) fn read_step(verb: Verb, reply: Value) -> Result<([u64; 2], Option<Self>), ReplyError> {
        let mut reply = Reply::new(verb, reply)?;
        let more = match reply.text()?.as_str() {
            "more" => true,
            "done" => false,
            other => return Err(reply.nonsense(other)),
        };
        let counts = [reply.number()?, reply.number()?];
        let next = Self::read(&mut reply)?;
        Ok((counts, next.filter(|_| more)))
    }
}

// === impl Call ===

impl Call {
    /// Appends time and entry, for scripts with this order.
    pub(crate) fn cursor(self, cursor: &Cursor) -> Self {
        self.cursor_time(cursor).cursor_entry(cursor)
    }

    pub(crate) fn cursor_time(self, cursor: &Cursor) -> Self {
        self.number(cursor.at.get())
    }

    pub(crate) fn cursor_entry(self, cursor: &Cursor) -> Self {
        self.arg(&cursor.entry)
    }
}
