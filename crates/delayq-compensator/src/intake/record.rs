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
    /// Whether the broker says that it has delivered it before.
    pub(crate) is_repeat: bool,
}

// === impl Record ===

impl Record {
    /// Its approximate size: the body and what its headers hold.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }
}
