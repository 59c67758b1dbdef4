//! `survey`: the work for consumers in a shard, now and soon.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use std::time::Duration;

/// The work for consumers in a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The start of the next page of topics; 0: the first again.
    pub next: u64,
    /// Ready messages of the topics of this page.
    pub ready: u64,
    /// Ready messages that no reserve may take now, because their group is full or paused: at least so many.
    pub held: u64,
    /// Leased messages of the shard.
    pub leased: u64,
    /// Age of the oldest head of the ready queues of this page's topics; `None`: no message is ready.
    pub oldest_ready: Option<Duration>,
    /// For each span, the number of delayed messages of the shard due by its end, overdue messages included; too low if
    /// more than 100 buckets are due.
    pub due: Vec<u64>,
}

/// Asks for a page of topics, starting with 0, and for messages due within each of these spans: 1 to 500 spans, each
/// at least a millisecond.
pub fn request(shard: ShardId, page: u64, spans: &[Duration]) -> Call {
    let call = Call::new(Verb::Survey, shard).number(page);
    spans.iter().fold(call, |call, span| call.number(span.as_millis() as u64))
}

/// Reads the survey.
pub fn read(reply: Value) -> Result<Survey, ReplyError> {
    let mut reply = Reply::new(Verb::Survey, reply)?;
    let (next, ready) = (reply.number()?, reply.counter()?);
    let (held, leased) = (reply.counter()?, reply.number()?);
    let oldest_ready = reply.maybe_number()?.map(Duration::from_millis);
    let mut due = Vec::new();
    while !reply.is_empty() {
        due.push(reply.number()?);
    }
    Ok(Survey { next, ready, held, leased, oldest_ready, due })
}
