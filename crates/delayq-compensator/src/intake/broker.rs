//! The operations on a broker that an intake needs.

use super::record::BrokerRecord;
use async_trait::async_trait;
use delayq_service::brokers::{Outcome, Outcomes};
use std::fmt;

/// A topic, queue or stream, and the destination of dead records.
///
/// # Contract
/// - Records that were handed out and not settled are handed out again: after [`open`](Self::open), or by another process.
/// - Records of one partition or queue are handed out in order, to one process at a time.
/// - An error ends the connection, except in [`bury`](Self::bury): records that came over the connection are lost to this
///   process until the next [`open`](Self::open).
#[async_trait]
pub(crate) trait Broker: Send {
    /// The handle that settles a record. Its text names the record's origin.
    type Ticket: fmt::Display + Send + Sync;

    /// Connects, checks that the source and the dead destination exist, and forgets an earlier connection.
    ///
    /// # Errors
    /// Why not.
    async fn open(&mut self) -> Result<(), String>;

    /// Waits for records, and returns those that came. While paused, none is asked for, and only records that were on their
    /// way come. Cancel safe.
    ///
    /// # Errors
    /// Why the connection is of no use any more; while paused, also that records that were handed out may be lost.
    async fn receive(&mut self, is_paused: bool) -> Result<Vec<Arrived<Self::Ticket>>, String>;

    /// The record's place in the source, unique over all processes and connections; `None`: the broker has no such places,
    /// and [`settle`](Self::settle) waits for the broker's note instead.
    fn place(&self, ticket: &Self::Ticket) -> Option<String>;

    /// True if a record was lost to another process since.
    fn is_lost(&self, ticket: &Self::Ticket) -> bool;

    /// Settles finished records, which are never handed out again.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    async fn settle(&mut self, tickets: &[&Self::Ticket]) -> Result<(), String>;

    /// Publishes records to the dead destination. Returns for each record the confirmation, or why there is none; the record
    /// may have arrived all the same. All records stay handed out.
    ///
    /// # Errors
    /// Why none is known to be confirmed.
    async fn bury(&mut self, dead: &[Dead<'_, Self::Ticket>]) -> Result<Vec<Buried>, String>;

    /// Number of unsettled records, including those that wait in the broker, as far as known.
    fn lag(&self) -> Option<u64>;

    /// Records dropped by the broker before a read, as noticed since the last call.
    fn lost(&mut self) -> Vec<Lost> {
        Vec::new()
    }

    /// Closes the connection.
    async fn close(&mut self);
}

/// Why a call without [`open`](Broker::open) fails.
pub(crate) const NOT_CONNECTED: &str = "not connected";

/// Records that the broker's retention dropped unread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Maximum number: some of these places may have had no record.
    pub(crate) records: u64,
    /// The first and the last place.
    pub(crate) place: String,
}

/// The confirmation of a buried record, or why there is none.
pub(crate) type Buried = Result<(), String>;

/// The confirmations in the outcomes of a call that has ended; `place` names the dead destination.
pub(crate) fn buried(outcomes: &Outcomes, place: &str) -> Vec<Buried> {
    let mut fresh = outcomes.fresh();
    fresh.sort_unstable_by_key(|(index, _)| *index);
    let buried = |(_, outcome)| match outcome {
        Outcome::Delivered => Ok(()),
        Outcome::Rejected { reason } | Outcome::Unavailable { reason, .. } => {
            Err(format!("{place}: {reason}"))
        }
    };
    fresh.into_iter().map(buried).collect()
}

/// A record that was handed out.
#[derive(Debug)]
pub(crate) struct Arrived<T> {
    pub(crate) record: BrokerRecord,
    pub(crate) ticket: T,
}

/// A record that cannot be taken in, and why.
#[derive(Debug)]
pub(crate) struct Dead<'r, T> {
    pub(crate) record: &'r BrokerRecord,
    pub(crate) ticket: &'r T,
    pub(crate) reason: &'r str,
}

/// The additional headers of a dead record.
pub(crate) const REASON: &str = "delayq-reason";
pub(crate) const ORIGIN: &str = "delayq-origin";

// === impl Dead ===

impl<T: fmt::Display> Dead<'_, T> {
    /// The record's headers without the headers of an earlier burial, then the reason and the origin.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, Vec<u8>)> {
        let earlier = |name: &str| [REASON, ORIGIN].iter().any(|own| own.eq_ignore_ascii_case(name));
        let own = self.record.headers.iter().filter(move |(name, _)| !earlier(name));
        let added =
            [(REASON, self.reason.as_bytes().to_vec()), (ORIGIN, self.ticket.to_string().into_bytes())];
        own.map(|(name, value)| (name.as_str(), value.clone())).chain(added)
    }
}
