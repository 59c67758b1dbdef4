//! Where a page or a step begins.

use crate::call::Call;
use crate::reply::{Reply, ReplyError};
use crate::time::UnixMillis;

/// After an entry, whether it still exists or not; at first at a time. Never a rank: an entry that leaves before it
/// would make it skip another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    at: UnixMillis,
    entry: Vec<u8>,
}

// === impl Cursor ===

impl Cursor {
    /// At a time, after no entry yet.
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

    /// The entry; empty: none yet.
    pub fn entry(&self) -> &[u8] {
        &self.entry
    }

    /// The next page in an answer; `None`: there is none.
    pub(crate) fn read(reply: &mut Reply) -> Result<Option<Self>, ReplyError> {
        let (at, entry) = (reply.maybe_number()?, reply.bytes()?);
        Ok(at.map(|at| Self { at: UnixMillis::new(at), entry }))
    }
}

// === impl Call ===

impl Call {
    /// Time and entry of a cursor, for scripts that take both in this order.
    pub(crate) fn cursor(self, cursor: &Cursor) -> Self {
        self.cursor_time(cursor).cursor_entry(cursor)
    }

    /// The time of a cursor.
    pub(crate) fn cursor_time(self, cursor: &Cursor) -> Self {
        self.number(cursor.at.get())
    }

    /// The entry of a cursor.
    pub(crate) fn cursor_entry(self, cursor: &Cursor) -> Self {
        self.arg(&cursor.entry)
    }
}
