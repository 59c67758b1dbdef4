//! A window: the keys of rows still to be carried out, in order.
//!
//! The keys are read once: a window that waited long (a compensator that was away, a transaction of a million rows) can have
//! many rows, and sorting all keys again for each batch would take as long as carrying out the rows.

use crate::outbox::row::MAX_PAGE_BYTES;
use std::collections::VecDeque;

/// At most so many keys are kept, which take some 24 MB.
pub(super) const MAX_KEYS: i64 = 1_000_000;

/// A row's key, and the bytes of payload and headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) tx: i64,
    pub(super) seq: i64,
    pub(super) bytes: i64,
}

/// A window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The number of the window's progress.
    pub(super) turn: i64,
    pub(super) before: String,
    pub(super) until: String,
    /// The window is settled up to here.
    pub(super) seq: i64,
    /// The waiting keys, in order.
    pub(super) keys: VecDeque<Key>,
    /// True if there are no more keys than these.
    pub(super) is_whole: bool,
}

// === impl Window ===

impl Window {
    /// The next rows: at most so many.
    pub(super) fn page(&self, most: usize) -> Vec<Key> {
        let mut bytes = 0;
        let fits = |key: &&Key| {
            bytes += key.bytes;
            bytes <= MAX_PAGE_BYTES || bytes == key.bytes
        };
        self.keys.iter().take(most).take_while(fits).copied().collect()
    }

    /// True if the window matches the progress: another reader may have continued, or another database may have appeared
    /// behind a pooler.
    pub(super) fn is_at(&self, turn: i64, until: &str, seq: i64) -> bool {
        (self.turn, self.until.as_str(), self.seq) == (turn, until, seq) && !self.keys.is_empty()
    }

    /// Drops settled keys; true: the window is.
    pub(super) fn settle(&mut self, rows: usize) -> bool {
        self.keys.drain(..rows);
        self.keys.is_empty() && self.is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_bounded_by_rows_and_by_bytes_and_has_one_row_however_large() {
        let window = |sizes: &[i64]| Window {
            turn: 1,
            before: String::new(),
            until: String::new(),
            seq: 0,
            keys: (1..).zip(sizes).map(|(seq, &bytes)| Key { tx: 1, seq, bytes }).collect(),
            is_whole: true,
        };
        for (sizes, most, expected) in [
            (&[1, 1, 1][..], 2, 2),
            (&[1, 1, 1], 9, 3),
            (&[MAX_PAGE_BYTES + 1, 1], 9, 1),
            (&[1, MAX_PAGE_BYTES], 9, 1),
            (&[0, 0, MAX_PAGE_BYTES, 1], 9, 3),
            (&[], 9, 0),
        ] {
            assert_eq!(window(sizes).page(most).len(), expected, "{sizes:?}");
        }
        let mut window = window(&[1, 1, 1]);
        assert!(window.is_at(1, "", 0) && !window.is_at(2, "", 0) && !window.is_at(1, "3:3:", 0));
        assert!(!window.is_at(1, "", 9));
        assert!(!window.settle(2));
        assert!(window.settle(1));
    }
}
