//! `audit`, `audit_index`, `repair`, `recount`: looking for what got stuck, and giving it a way out.

use crate::{Client, Error, ShardId, reply::Reply, script::Verb};
use redis::from_redis_value;

/// A finding as a script tells it: its kind, and the message's or the entry's name.
pub(crate) type Told = (String, Vec<u8>);

/// How a finding was mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mending {
    Mended,
    /// The fault is not there any more.
    Sound,
    Failed(String),
}

/// Where a count of a topic stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Ready, leased, accepted: what the counter says, and what there is.
    All([(i64, i64); 3]),
    /// There are too many leases or buckets to be counted in one step.
    Crowded,
    /// It changed between two steps.
    Changed,
}

// === impl Client ===

impl Client {
    /// What is wrong with these messages, each named by its key without the base.
    pub(crate) async fn audit_call(&self, shard: ShardId, keys: &[&[u8]]) -> Result<Vec<Told>, Error> {
        let mut call = self.call(Verb::Audit, shard);
        keys.iter().for_each(|key| call.push(*key));
        let mut reply = Reply::new(Verb::Audit, self.send(call).await?)?;
        for _state in 0..5 {
            reply.number()?;
        }
        told(reply)
    }

    /// What is wrong with an index and these entries of it.
    pub(crate) async fn audit_index_call(
        &self,
        shard: ShardId,
        index: &[u8],
        entries: &[Vec<u8>],
    ) -> Result<Vec<Told>, Error> {
        let mut call = self.call(Verb::AuditIndex, shard).arg(index);
        entries.iter().for_each(|entry| call.push(entry));
        told(Reply::new(Verb::AuditIndex, self.send(call).await?)?)
    }

    /// Mends findings: each its kind, its index and its name. One answer each.
    pub(crate) async fn repair_call(
        &self,
        shard: ShardId,
        findings: &[(&str, &[u8], &[u8])],
    ) -> Result<Vec<Mending>, Error> {
        let mut call = self.call(Verb::Repair, shard);
        for (kind, index, name) in findings {
            [kind.as_bytes(), index, name].into_iter().for_each(|part| call.push(part));
        }
        let mut reply = Reply::new(Verb::Repair, self.send(call).await?)?;
        findings.iter().map(|_| mending(&mut reply)).collect()
    }

    /// Counts what a topic has in a shard, and sets its counters right where `mend` says so.
    pub(crate) async fn recount_call(
        &self,
        shard: ShardId,
        topic: &str,
        mend: bool,
    ) -> Result<Counted, Error> {
        let (mut mark, mut passed, mut ready) = (String::new(), 0, 0);
        loop {
            let call = self.call(Verb::Recount, shard).arg(topic).arg(if mend { "mend" } else { "look" });
            let call = call.arg(&mark).arg(passed).arg(ready);
            let mut reply = Reply::new(Verb::Recount, self.send(call).await?)?;
            let word = reply.text()?;
            (mark, passed, ready) = (reply.text()?, reply.number()?, reply.number()?);
            match word.as_str() {
                "more" => {}
                "changed" => return Ok(Counted::Changed),
                "crowded" => return Ok(Counted::Crowded),
                "counted" => {
                    let mut pair = || Ok::<_, Error>((signed(&mut reply)?, signed(&mut reply)?));
                    return Ok(Counted::All([pair()?, pair()?, pair()?]));
                }
                other => return Err(reply.nonsense(other)),
            }
        }
    }

    /// One step of SCAN or ZSCAN: where the next one begins (0: this was the last), and what it found.
    pub(crate) async fn scan_step(&self, command: &redis::Cmd) -> Result<(u64, Vec<Vec<u8>>), Error> {
        from_redis_value(self.link().plain(command).await?)
            .map_err(|error| Error::Unfit(format!("SCAN answers what no Redis answers: {error}")))
    }
}

fn told(mut reply: Reply) -> Result<Vec<Told>, Error> {
    let mut all = Vec::new();
    while !reply.is_empty() {
        all.push((reply.text()?, reply.bytes()?));
    }
    Ok(all)
}

fn mending(reply: &mut Reply) -> Result<Mending, Error> {
    let text = reply.text()?;
    match text.split_once(' ').unwrap_or((&text, "")) {
        ("mended", _) => Ok(Mending::Mended),
        ("sound", _) => Ok(Mending::Sound),
        ("failed", why) => Ok(Mending::Failed(why.to_owned())),
        _ => Err(reply.nonsense(&text)),
    }
}

/// A counter that drifts may be below zero.
fn signed(reply: &mut Reply) -> Result<i64, Error> {
    let text = reply.text()?;
    text.parse().map_err(|_| reply.nonsense(&text))
}
