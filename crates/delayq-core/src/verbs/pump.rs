//! `pump`: moving due messages to their ready queues.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::{UnixMicros, UnixMillis};

/// The report of a pump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PumpReport {
    /// The result.
    pub word: PumpWord,
    /// Redis's clock.
    pub now: UnixMicros,
    /// Time of the next pump; `None`: nothing in the shard has a time.
    pub next_due: Option<UnixMillis>,
    /// Messages that became ready.
    pub moved: u64,
    /// Leases that ran out.
    pub returned: u64,
    /// Leases that ran out after the last attempt.
    pub buried: u64,
    /// Messages that expired.
    pub expired: u64,
    /// Finished ids that were forgotten.
    pub forgotten: u64,
    /// Entries blocked by a key of the wrong type; they are tried again.
    pub blocked: u64,
    /// The mark of this pump, if its caller owns the shard: the next pump gives it back.
    pub mark: Option<UnixMillis>,
    /// The mark of older data with which Redis came back: writes since then may be missing. Zero: the data has no mark.
    pub older: Option<UnixMillis>,
    /// Due times of the moved messages, with counts. Beyond a bound, several times share a run with the earliest as its
    /// time.
    pub runs: Vec<(UnixMillis, u64)>,
}

/// The result of a pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PumpWord {
    /// Everything due has moved.
    Pumped,
    /// More is due: pump again at once.
    More,
    /// The shard is held: the clock is not trusted.
    Held,
    /// The clock is further ahead than the caller accepts: nothing moved.
    Ahead,
    /// A newer owner has this epoch: nothing moved.
    Fenced(u64),
    /// The caller does not own the shard, and nothing is overdue by 10 s: nothing moved.
    NotOverdue,
}

/// The claim of an owner on a pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The owner's epoch.
    pub epoch: u64,
    /// The mark of the owner's last pump; `None`: unknown.
    pub mark: Option<UnixMillis>,
}

/// Moves due messages: at most `limit` (1 to 500) ids. `owned` is `None` for a timer that does not own the shard and
/// only pumps long overdue messages. If Redis's clock is past `latest`, nothing moves.
pub fn request(shard: ShardId, owned: Option<Owned>, limit: u16, latest: Option<UnixMillis>) -> Call {
    let maybe = |call: Call, number: Option<u64>| match number {
        Some(number) => call.number(number),
        None => call.arg(""),
    };
    let call = maybe(Call::new(Verb::Pump, shard), owned.map(|owned| owned.epoch)).number(limit);
    let call = maybe(call, latest.map(UnixMillis::get));
    match owned {
        Some(owned) => maybe(call, owned.mark.map(UnixMillis::get)),
        None => call,
    }
}

/// Reads the report.
pub fn read(reply: Value) -> Result<PumpReport, ReplyError> {
    let mut reply = Reply::new(Verb::Pump, reply)?;
    let text = reply.text()?;
    let mut words = Words::new(&text);
    let (word, number) = (words.word(), words.number());
    let older = if words.word() == "older" { words.number().map(UnixMillis::new) } else { None };
    let word = match (word, number) {
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
        mark: number.filter(|_| matches!(word, PumpWord::Pumped | PumpWord::More)).map(UnixMillis::new),
        older,
        runs: Vec::new(),
    };
    while !reply.is_empty() {
        report.runs.push((UnixMillis::new(reply.number()?), reply.number()?));
    }
    Ok(report)
}
