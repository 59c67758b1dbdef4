//! `reserve`: leasing ready messages.

use crate::call::Call;
use crate::codec::Unrestored;
use crate::envelope::Envelope;
use crate::id::{MessageId, Topic};
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::Target;
use crate::time::{UnixMicros, UnixMillis};
use std::fmt;
use std::time::Duration;

/// A reserve from one shard.
#[derive(Clone, Debug)]
pub struct ReserveRequest {
    /// The topics, in order of preference.
    pub topics: Vec<Topic>,
    /// Maximum messages, 1 to 500.
    pub most: u16,
    /// Maximum bytes of envelopes as stored ([`Reservation::stored_bytes`]), which the last message may exceed; 0:
    /// unlimited.
    pub max_bytes: u32,
    /// How long the lease lasts, 1 ms to 24 h; `None`: the topic's.
    pub lease: Option<Duration>,
}

/// The right to settle one delivery of one message.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The shard of the message.
    pub shard: ShardId,
    pub(super) bytes: Vec<u8>,
}

/// A message under lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// What settles it.
    pub receipt: Receipt,
    /// Its topic.
    pub topic: Topic,
    /// Its id.
    pub id: MessageId,
    /// When it became ready, on Redis's clock.
    pub ready: UnixMicros,
    /// When the lease ends, unless it is extended, on Redis's clock.
    pub lease_end: UnixMillis,
    /// The bytes of its envelope as stored, with headers and a possibly compressed payload: what
    /// [`ReserveRequest::max_bytes`] counts.
    pub stored_bytes: usize,
    /// The message itself; its attempt and delivery count this one. Its payload is as it was put, unless `unrestored`
    /// is set.
    pub envelope: Envelope,
    /// Why its payload is still compressed, if it is.
    pub unrestored: Option<Unrestored>,
}

/// The report of a reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveReport {
    /// Redis's clock.
    pub now: UnixMicros,
    /// The messages, in the order of the topics.
    pub messages: Vec<Reservation>,
    /// When to reserve again without being woken: at once (a limit on bytes or entries was reached, and there may be
    /// more), later (a rate holds messages back), or `None`.
    pub wait: Option<Duration>,
    /// Stale entries that were dropped.
    pub dropped: u64,
    /// Messages that had expired.
    pub expired: u64,
    /// Malformed messages, now dead letters.
    pub buried: u64,
    /// Messages of a newer format, or blocked by a key of the wrong type: they are ready again in 10 s.
    pub newer: u64,
    /// Topics that were skipped because a key of theirs has the wrong type. The others proceed; if there is no other,
    /// the call fails instead.
    pub refused: Vec<Topic>,
}

/// What was reserved, and the receipts of messages that cannot be decoded, each with the reason.
pub type Reserved = (ReserveReport, Vec<(Receipt, String)>);

// === impl Receipt ===

impl Receipt {
    /// A receipt from its bytes, as `reserve` answers it.
    pub const fn new(shard: ShardId, bytes: Vec<u8>) -> Self {
        Self { shard, bytes }
    }

    /// Topic number, `:`, stored id, gen.
    fn target(&self) -> Option<Target> {
        let colon = self.bytes.iter().position(|&byte| byte == b':')?;
        let id = self.bytes.get(colon + 1..self.bytes.len().checked_sub(4)?)?;
        Some(Target::from_stored(id))
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receipt({}, {:?})", self.shard, self.target())
    }
}

/// Reserves ready messages of one shard; `by` is what the caller calls itself, for histories, or empty.
pub fn request(shard: ShardId, request: &ReserveRequest, by: &str) -> Call {
    let call = Call::new(Verb::Reserve, shard).number(request.most).number(request.max_bytes);
    let mut call = match request.lease {
        Some(lease) => call.number(lease.as_millis() as u64),
        None => call.arg(""),
    };
    request.topics.iter().for_each(|topic| call.push(topic.as_bytes()));
    if !by.is_empty() {
        call.push(format!("by={by}"));
    }
    call
}

/// What was reserved, with payloads as stored.
///
/// # Errors
/// The script does not give such an answer.
pub fn read(shard: ShardId, request: &ReserveRequest, reply: Value) -> Result<Reserved, ReplyError> {
    let mut unreadable = Vec::new();
    let mut reply = Reply::new(Verb::Reserve, reply)?;
    let mut report = ReserveReport {
        now: UnixMicros(reply.number()?),
        messages: Vec::new(),
        wait: reply.maybe_number()?.map(Duration::from_millis),
        dropped: reply.number()?,
        expired: reply.number()?,
        buried: reply.number()?,
        newer: reply.number()?,
        refused: Vec::new(),
    };
    while !reply.is_empty() {
        let place = reply.number()? as usize;
        let topic = request.topics.get(place.wrapping_sub(1));
        let topic = topic.ok_or_else(|| reply.nonsense(&place.to_string()))?;
        let lease_end = UnixMillis::new(reply.number()?);
        if lease_end.get() == 0 {
            report.refused.push(topic.clone());
        }
        for _ in 0..reply.number()? {
            match reservation(shard, topic, lease_end, &mut reply)? {
                Ok(message) => report.messages.push(message),
                Err(broken) => unreadable.push(broken),
            }
        }
    }
    report.buried += unreadable.len() as u64;
    Ok((report, unreadable))
}

fn reservation(
    shard: ShardId,
    topic: &Topic,
    lease_end: UnixMillis,
    reply: &mut Reply,
) -> Result<Result<Reservation, (Receipt, String)>, ReplyError> {
    let ready = UnixMicros(reply.number()?);
    let receipt = Receipt { shard, bytes: reply.bytes()? };
    let bytes = reply.bytes()?;
    let Some(Target { id, .. }) = receipt.target() else {
        return Ok(Err((receipt, "an invalid id".to_owned())));
    };
    let mut envelope = match Envelope::decode(&bytes) {
        Ok(envelope) => envelope,
        Err(error) => return Ok(Err((receipt, error.to_string()))),
    };
    envelope.attempt = envelope.attempt.saturating_add(1);
    envelope.delivery = envelope.delivery.saturating_add(1);
    Ok(Ok(Reservation {
        receipt,
        topic: topic.clone(),
        id,
        ready,
        lease_end,
        stored_bytes: bytes.len(),
        envelope,
        unrestored: None,
    }))
}
