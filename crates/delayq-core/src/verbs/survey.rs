//! `survey`: what consumers have to take from a shard, now and soon.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use std::time::Duration;

/// What consumers have to take from a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Where the next page of topics begins; 0: with the first again.
    pub next: u64,
    /// Ready messages of the topics of this page.
    pub ready: u64,
    /// Leased messages of the shard.
    pub leased: u64,
    /// For each span how many delayed messages of the shard are due by its end, overdue ones among them; fewer than there
    /// are where more than 100 buckets are due.
    pub due: Vec<u64>,
}

/// Asks for one page of topics, the first of which begins at 0, and for what is due within each of these spans: 1 to 500 of
/// them, each a millisecond at least.
pub fn request(shard: ShardId, page: u64, spans: &[Duration]) -> Call {
    let call = Call::new(Verb::Survey, shard).number(page);
    spans.iter().fold(call, |call, span| call.number(span.as_millis() as u64))
}

/// What was found.
///
/// # Errors
/// The script does not give such an answer.
pub fn read(reply: Value) -> Result<Survey, ReplyError> {
    let mut reply = Reply::new(Verb::Survey, reply)?;
    let (next, ready, leased) = (reply.number()?, reply.counter()?, reply.number()?);
    let mut due = Vec::new();
    while !reply.is_empty() {
        due.push(reply.number()?);
    }
    Ok(Survey { next, ready, leased, due })
}
