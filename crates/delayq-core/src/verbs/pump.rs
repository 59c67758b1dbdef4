//! `pump`: what the timer calls.

use crate::{
    Client, Error, ShardId, UnixMillis,
    client::UnixMicros,
    link::Call,
    reply::{Reply, Words},
    script::Verb,
};

/// What one pump did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PumpReport {
    /// How it ended.
    pub word: PumpWord,
    /// Redis's clock.
    pub now: UnixMicros,
    /// When the shard has to be looked at next; `None`: it holds nothing that has a time.
    pub next_due: Option<UnixMillis>,
    /// Messages that became ready.
    pub moved: u64,
    /// Leases that ran out.
    pub returned: u64,
    /// Of these, messages whose attempts were used up.
    pub buried: u64,
    /// Messages that expired.
    pub expired: u64,
    /// Finished ids that were forgotten.
    pub forgotten: u64,
    /// Things that a key of the wrong type keeps from being moved; they are tried again.
    pub blocked: u64,
    /// When the moved messages were due: a time, and how many. Where many times come together, a run of them is
    /// told as its earliest.
    pub runs: Vec<(UnixMillis, u64)>,
}

/// How a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PumpWord {
    /// All that was due is moved.
    Pumped,
    /// More is due: go again at once.
    More,
    /// The shard is held: its clock is not trusted.
    Held,
    /// The clock reads more than the caller believes possible: nothing was moved.
    Ahead,
    /// A newer owner has this epoch: nothing was moved.
    Fenced(u64),
    /// The caller does not own the shard, and nothing in it is overdue by 10 s: nothing was moved.
    NotOverdue,
}

// === impl Client ===

impl Client {
    /// Moves what is due in one shard: at most `limit` (1 to 500) ids. `epoch` is the owner's; `None` for one who
    /// is not, and only looks after what is long overdue.
    ///
    /// # Errors
    /// Another `limit` is refused as `DQARG`. Safe to repeat whatever the error was.
    pub async fn pump(&self, shard: ShardId, epoch: Option<u64>, limit: u16) -> Result<PumpReport, Error> {
        let reply = self.send(self.pump_request(shard, epoch, limit, None)).await?;
        read(reply)
    }

    /// Pumps several shards in one round trip, unless Redis's clock reads more than `latest`: a clock that jumped
    /// ahead then moves nothing, and says so by [`PumpWord::Ahead`]. Without `latest` any clock is believed.
    pub async fn pump_until(
        &self,
        shards: &[(ShardId, Option<u64>)],
        limit: u16,
        latest: Option<UnixMillis>,
    ) -> Vec<Result<PumpReport, Error>> {
        let calls: Vec<_> =
            shards.iter().map(|&(shard, epoch)| self.pump_request(shard, epoch, limit, latest)).collect();
        self.send_all(calls).await.into_iter().map(|reply| reply.and_then(read)).collect()
    }

    fn pump_request(
        &self,
        shard: ShardId,
        epoch: Option<u64>,
        limit: u16,
        latest: Option<UnixMillis>,
    ) -> Call {
        let epoch = epoch.map_or_else(String::new, |epoch| epoch.to_string());
        let mut call = self.call(Verb::Pump, shard).arg(epoch).arg(limit);
        if let Some(latest) = latest {
            call.push(latest.get());
        }
        call
    }
}

fn read(reply: redis::Value) -> Result<PumpReport, Error> {
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
