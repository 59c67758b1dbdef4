//! `pump`: moving due messages to their ready queues.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::{UnixMicros, UnixMillis};

/// The report of one pump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PumpReport {
    /// How it ended.
    pub word: PumpWord,
    /// Redis's clock.
    pub now: UnixMicros,
    /// When the shard must be pumped next; `None`: nothing in it has a time.
    pub next_due: Option<UnixMillis>,
    /// Messages that became ready.
    pub moved: u64,
    /// Leases that ran out.
    pub returned: u64,
    /// Those of these leases whose messages had used up their attempts.
    pub buried: u64,
    /// Messages that expired.
    pub expired: u64,
    /// Finished ids that were forgotten.
    pub forgotten: u64,
    /// Entries that a key of the wrong type blocks; they are tried again.
    pub blocked: u64,
    /// When the moved messages were due: a time, and how many. Of many times, a run is reported as its earliest.
    pub runs: Vec<(UnixMillis, u64)>,
}

/// How a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PumpWord {
    /// All that was due is moved.
    Pumped,
    /// More is due: pump again at once.
    More,
    /// The shard is held: its clock is not trusted.
    Held,
    /// The clock is further ahead than the caller accepts: nothing was moved.
    Ahead,
    /// A newer owner has this epoch: nothing was moved.
    Fenced(u64),
    /// The caller does not own the shard, and nothing in it is overdue by 10 s: nothing was moved.
    NotOverdue,
}

/// Moves due messages: at most `limit` (1 to 500) ids. `epoch` is the owner's; `None` for a timer that does not own the
/// shard and only pumps what is long overdue. If Redis's clock is past `latest`, nothing is moved.
pub fn request(shard: ShardId, epoch: Option<u64>, limit: u16, latest: Option<UnixMillis>) -> Call {
    let call = Call::new(Verb::Pump, shard);
    let mut call = match epoch {
        Some(epoch) => call.number(epoch),
        None => call.arg(""),
    };
    call.push_number(limit);
    if let Some(latest) = latest {
        call.push_number(latest.get());
    }
    call
}

/// The report of the pump.
///
/// # Errors
/// The script does not give such an answer.
pub fn read(reply: Value) -> Result<PumpReport, ReplyError> {
    let mut reply = Reply::new(Verb::Pump, reply)?;
    let text = reply.text()?;
    let mut words = Words::new(&text);
    let word = match (words.word(), words.number()) {
        ("pumped", _) => PumpWord::Pumped,
        ("more", _) => PumpWord::More,
        ("held", _) => PumpWord::Held,
        ("ahead", _) => PumpWord::Ahead,
        ("fenced", Some(epoch)) => PumpWord::Fenced(epoch),
        ("not", _) => PumpWord::NotOverdue,
        _ => return Err(reply.nonsense(&text)),
    };
    let mut report = PumpReport {
        word,
        now: UnixMicros(reply.number()?),
        next_due: reply.maybe_number()?.map(UnixMillis::new),
        moved: reply.number()?,
        returned: reply.number()?,
        buried: reply.number()?,
        expired: reply.number()?,
        forgotten: reply.number()?,
        blocked: reply.number()?,
        runs: Vec::new(),
    };
    while !reply.is_empty() {
        report.runs.push((UnixMillis::new(reply.number()?), reply.number()?));
    }
    Ok(report)
}
