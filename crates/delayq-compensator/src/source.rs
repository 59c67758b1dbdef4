//! What a compensator needs of a place where writes are recorded: a spool, a table of a database, a broker.

use crate::outcome::Settle;
use crate::writes::Write;
use async_trait::async_trait;
use delayq::spool::GroupRecord;
use std::time::{Duration, Instant};

/// A place where writes are recorded.
///
/// # Contract
/// - Records of one message are handed out in their order. Those of one call are settled before the next one.
/// - What is not settled as done or rejected is handed out again: at once if it is untried or held, by [`Want::Rested`] if it
///   rests. The source keeps what rests, and says what is behind it.
/// - After an error the source connects again at the next call. What was handed out is handed out again.
#[async_trait]
pub(crate) trait Source: Send {
    /// The handle that settles a record.
    type Key: Send + Sync;

    /// Waits for records, until this time at most; none: there are none for now. A call may be dropped if
    /// [`close`](Self::close) follows.
    ///
    /// # Errors
    /// Why the source cannot be used.
    async fn next(&mut self, want: Want, until: Instant) -> Result<Vec<Recorded<Self::Key>>, String>;

    /// Notes that a record is about to be tried of which Redis would recognise no repeat.
    ///
    /// # Errors
    /// It is not to be tried.
    async fn begin(&mut self, _key: &Self::Key) -> Result<(), String> {
        Ok(())
    }

    /// Notes what became of records, in the order in which they were handed out. Safe to repeat.
    ///
    /// # Errors
    /// Why not all of it is noted.
    async fn settle(&mut self, what: Vec<(Self::Key, Settle)>) -> Result<(), String>;

    /// The last known state, without a call.
    fn seen(&self) -> Seen;

    /// Gives up what was handed out, and disconnects.
    async fn close(&mut self);
}

/// The records that a source is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Records that do not rest.
    New,
    /// Some of those that rest, to see whether they still have to.
    Rested,
    /// Nothing for now: it keeps its connection.
    Nothing,
}

/// A record that was handed out.
#[derive(Debug)]
pub(crate) struct Recorded<K> {
    pub(crate) key: K,
    pub(crate) what: What,
}

/// The content of a record.
#[derive(Debug)]
pub(crate) enum What {
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
pub(crate) struct Seen {
    pub(crate) waiting: Option<u64>,
    pub(crate) rejected: Option<u64>,
    pub(crate) resting: u64,
    /// Age of the oldest record.
    pub(crate) oldest: Duration,
    pub(crate) bytes: Option<u64>,
    /// A fault that does not keep records from being carried out.
    pub(crate) wrong: Option<String>,
}
