//! A record as its broker hands it over.

use delayq::UnixMillis;

/// A record of a topic, queue or stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Names and values, in order.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// When it was published, by the clock of its broker or producer; `None`: that is not known.
    pub(crate) at: Option<UnixMillis>,
    /// An id that the broker's protocol has a place of its own for.
    pub(crate) id: Option<String>,
    /// Whether the broker says that it has delivered it before, and nothing tells whether it was carried out.
    pub(crate) is_repeat: bool,
    /// Whether it has no body at all, where its broker tells that from an empty one.
    pub(crate) has_no_value: bool,
    /// Why it could not be taken over whole: it cannot be read then.
    pub(crate) damage: Option<&'static str>,
}

// === impl Record ===

impl Record {
    /// Its approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        /// That of two allocations and their addresses.
        const HEADER: usize = 64;
        let headers = self.headers.iter().map(|(name, value)| HEADER + name.len() + value.len());
        size_of::<Self>() + self.body.len() + headers.sum::<usize>()
    }
}
