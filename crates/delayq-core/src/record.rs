//! Records: the origin of a write, such as a row of a table or an offset of a topic, noted before the write was sent.

use crate::call::Call;
use crate::target::Target;
use sha2::{Digest, Sha256};
use std::fmt;

/// Identifies the record of a write. Until its source has noted the answer, every call with the same record gets the
/// answer of the first, and changes nothing more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId([u8; 8]);

// === impl RecordId ===

impl RecordId {
    /// The record with these parts, such as its source, its place there and its time.
    pub fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let hash = hash.finalize();
        Self(*hash.first_chunk().expect("a hash has 32 bytes"))
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({self})")
    }
}

/// Appends a stored id, followed by the record of its write: no id has a NUL at that position.
pub(crate) fn push(call: &mut Call, target: &Target, record: Option<RecordId>) {
    match record {
        None => call.push(target.stored()),
        Some(record) => call.push([&*target.stored(), b"\0", record.to_string().as_bytes()].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_differ_by_where_their_parts_end() {
        let of = |parts: &[&[u8]]| RecordId::of(parts.iter().copied());
        assert_eq!(of(&[b"a", b"b"]), of(&[b"a", b"b"]));
        assert_ne!(of(&[b"a", b"b"]), of(&[b"ab", b""]));
        assert_eq!(of(&[b"a"]).to_string().len(), 16);
    }
}
