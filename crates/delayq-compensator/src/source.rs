//! The operations on a place of recorded writes that a compensator needs: a spool, a table of a database, a broker.

use crate::outcome::Outcome;
use crate::writes::Write;
use async_trait::async_trait;
use delayq::spool::GroupRecord;
use std::time::{Duration, Instant};

/// A place where writes are recorded.
///
/// # Contract
/// - Records of a message are handed out in order. The records of a call are settled before the next call.
/// - A record that is not settled as done or rejected is handed out again: an untried or held record at once, a resting
///   record by [`Want::Rested`]. The source keeps resting records, and marks records behind these.
/// - After an error the source connects again at the next call. Records of the old connection are handed out again.
#[async_trait]
pub(crate) trait Source: Send {
    /// The handle that settles a record.
    type Key: Send + Sync;

    /// Waits for records, until this time at most; none: there are none for now. A call may be dropped if
    /// [`close`](Self::close) follows.
    ///
    /// # Errors
    /// Why the source cannot be used.
    async fn next(&mut self, want: Want, until: Instant) -> Result<Vec<HandedOut<Self::Key>>, String>;

    /// Notes that a record is about to be tried of which Redis would recognise no repeat.
    ///
    /// # Errors
    /// The record must not be tried.
    async fn begin(&mut self, _key: &Self::Key) -> Result<(), String> {
        Ok(())
    }

    /// Notes the outcomes of records, in the order of the hand-out. Safe to repeat.
    ///
    /// # Errors
    /// Some outcomes are not noted.
    async fn settle(&mut self, what: Vec<(Self::Key, Outcome)>) -> Result<(), String>;

    /// The last known state, without a call.
    fn seen(&self) -> SourceState;

    /// Gives up all records handed out, and disconnects.
    async fn close(&mut self);
}

/// The records that a source is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Records that do not rest.
    New,
    /// Some of the resting records, to be tried again.
    Rested,
    /// Nothing for now: the source keeps the connection.
    Nothing,
}

/// A record that was handed out.
#[derive(Debug)]
pub(crate) struct HandedOut<K> {
    pub(crate) key: K,
    pub(crate) what: RecordContent,
}

/// The content of a record.
#[derive(Debug)]
pub(crate) enum RecordContent {
    Write(Write),
    /// A change of a whole group.
    Change(GroupRecord),
    /// Something, behind an older record that rests.
    Behind,
    /// Nothing that can ever be carried out, for this reason.
    Unfit(String),
}

/// The state of a source.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceState {
    pub(crate) waiting: Option<u64>,
    pub(crate) rejected: Option<u64>,
    pub(crate) resting: u64,
    /// Age of the oldest record.
    pub(crate) oldest: Duration,
    pub(crate) bytes: Option<u64>,
    /// A fault that does not keep records from being carried out.
    pub(crate) wrong: Option<String>,
}
