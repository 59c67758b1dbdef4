//! What an intake needs of a broker.

use super::record::Record;
use async_trait::async_trait;
use std::convert::Infallible;
use std::fmt;

/// A topic, queue or stream, and where records go that cannot be taken in.
///
/// # Contract
/// - What was handed out and not settled is handed out again: after [`open`](Self::open), or by another process.
/// - Records of one partition or queue are handed out in order, to one process at a time.
/// - An error, but of [`bury`](Self::bury), ends the connection: what was handed out over it is lost to this process, until
///   the next [`open`](Self::open).
#[async_trait]
pub(crate) trait Broker: Send {
    /// What settles one record; shown, it says where the record comes from.
    type Ticket: fmt::Display + Send + Sync;

    /// Connects, checks that the source and the dead destination exist, and forgets an earlier connection.
    ///
    /// # Errors
    /// Why not.
    async fn open(&mut self) -> Result<(), String>;

    /// Waits for records, and returns at most `most` of them. Cancel safe.
    ///
    /// # Errors
    /// Why the connection is of no use any more.
    async fn next(&mut self, most: usize) -> Result<Vec<Arrived<Self::Ticket>>, String>;

    /// Takes nothing more, and keeps the connection and what was handed out, until records may be lost. Cancel safe.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    async fn hold(&mut self) -> Result<Infallible, String>;

    /// What no other record of the source has, in no process and over no other connection; `None`: the broker gives its
    /// records no such place. Then [`settle`](Self::settle) ends when the broker has noted it.
    fn place(&self, ticket: &Self::Ticket) -> Option<String>;

    /// Whether a record was lost to another process since it was handed out.
    fn is_lost(&self, ticket: &Self::Ticket) -> bool;

    /// Records that are over: they are not handed out again.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    async fn settle(&mut self, tickets: &[&Self::Ticket]) -> Result<(), String>;

    /// Publishes records to the dead destination, and says of each whether it is confirmed, or why it is not: it may be
    /// there all the same. What was handed out stays so.
    ///
    /// # Errors
    /// Why none is known to be confirmed.
    async fn bury(&mut self, dead: &[Dead<'_, Self::Ticket>]) -> Result<Vec<Buried>, String>;

    /// How many records wait in the broker or are not settled, as far as that is known.
    fn lag(&self) -> Option<u64>;

    /// What the broker dropped before it was read, as found since the last call.
    fn lost(&mut self) -> Vec<Lost> {
        Vec::new()
    }

    /// Closes the connection.
    async fn close(&mut self);
}

/// Records that the broker's retention dropped before they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// How many at most: some of these places may have had no record.
    pub(crate) records: u64,
    /// From where to where.
    pub(crate) place: String,
}

/// That a record is confirmed, or why it is not.
pub(crate) type Buried = Result<(), String>;

/// A record that was handed out.
#[derive(Debug)]
pub(crate) struct Arrived<T> {
    pub(crate) record: Record,
    pub(crate) ticket: T,
}

/// A record that cannot be taken in, and why.
#[derive(Debug)]
pub(crate) struct Dead<'r, T> {
    pub(crate) record: &'r Record,
    pub(crate) ticket: &'r T,
    pub(crate) reason: &'r str,
}

/// The headers that a dead record has in addition to its own.
pub(crate) const REASON: &str = "delayq-reason";
pub(crate) const ORIGIN: &str = "delayq-origin";

// === impl Dead ===

impl<T: fmt::Display> Dead<'_, T> {
    /// The record's headers without those of an earlier burial, and why and from where it was buried.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, Vec<u8>)> {
        let earlier = |name: &str| [REASON, ORIGIN].iter().any(|own| own.eq_ignore_ascii_case(name));
        let own = self.record.headers.iter().filter(move |(name, _)| !earlier(name));
        let added =
            [(REASON, self.reason.as_bytes().to_vec()), (ORIGIN, self.ticket.to_string().into_bytes())];
        own.map(|(name, value)| (name.as_str(), value.clone())).chain(added)
    }
}
