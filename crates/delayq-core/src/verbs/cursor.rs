//! Where a page or a step begins.

use crate::{Error, UnixMillis, link::Call, reply::Reply};

/// Behind an entry, whether that is still there or not; at first at a time. Never a rank: whatever leaves in front of it
/// would make it pass something over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    at: UnixMillis,
    entry: Vec<u8>,
}

// === impl Cursor ===

impl Cursor {
    /// At a time, behind no entry yet.
    pub(crate) const fn from(at: UnixMillis) -> Self {
        Self { at, entry: Vec::new() }
    }

    /// What an answer says of the next page; `None`: through.
    pub(crate) fn read(reply: &mut Reply) -> Result<Option<Self>, Error> {
        let (at, entry) = (reply.maybe_number()?, reply.bytes()?);
        Ok(at.map(|at| Self { at: UnixMillis::new(at), entry }))
    }
}

// === impl Call ===

impl Call {
    /// Time and entry of a cursor, where a script takes one behind the other.
    pub(crate) fn cursor(self, cursor: &Cursor) -> Self {
        self.arg(cursor.at.get()).cursor_entry(cursor)
    }

    /// The time of a cursor.
    pub(crate) fn cursor_time(self, cursor: &Cursor) -> Self {
        self.arg(cursor.at.get())
    }

    /// The entry of a cursor.
    pub(crate) fn cursor_entry(self, cursor: &Cursor) -> Self {
        self.arg(&cursor.entry)
    }
}
