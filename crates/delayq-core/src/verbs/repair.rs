//! `repair`: repairing an audit's findings.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

/// The outcome of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mending {
    /// Repaired.
    Mended,
    /// The fault no longer exists.
    Sound,
    /// Not repairable, for this reason.
    Failed(String),
}

/// Repairs findings, each given by kind, index and name. At most 500.
pub fn request<'f>(shard: ShardId, findings: impl IntoIterator<Item = [&'f [u8]; 3]>) -> Call {
    let mut call = Call::new(Verb::Repair, shard);
    findings.into_iter().flatten().for_each(|part| call.push(part));
    call
}

/// Reads the outcome of each finding.
pub fn read(reply: Value, count: usize) -> Result<Vec<Mending>, ReplyError> {
    let mut reply = Reply::new(Verb::Repair, reply)?;
    (0..count).map(|_| mending(&mut reply)).collect()
}

fn mending(reply: &mut Reply) -> Result<Mending, ReplyError> {
    let text = reply.text()?;
    match text.split_once(' ').unwrap_or((&text, "")) {
        ("mended", _) => Ok(Mending::Mended),
        ("sound", _) => Ok(Mending::Sound),
        ("failed", why) => Ok(Mending::Failed(why.to_owned())),
        _ => Err(reply.nonsense(&text)),
    }
}
