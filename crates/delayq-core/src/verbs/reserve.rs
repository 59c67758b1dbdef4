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

/// A reserve from a shard.
#[derive(Clone, Debug)]
pub struct ReserveRequest {
    /// The topics, in order of preference.
    pub topics: Vec<Topic>,
    /// Maximum messages, 1 to 500.
    pub most: u16,
    /// Maximum bytes of envelopes as stored ([`Reservation::stored_bytes`]), which the last message may exceed; 0:
    /// unlimited.
    pub max_bytes: u32,
    /// Duration of the lease, 1 ms to 24 h; `None`: the topic's.
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
    /// Settles this delivery.
    pub receipt: Receipt,
    /// The topic.
    pub topic: Topic,
    /// The id.
    pub id: MessageId,
    /// Ready time, on Redis's clock.
    pub ready: UnixMicros,
    /// End of the lease unless extended, on Redis's clock.
    pub lease_end: UnixMillis,
    /// Bytes of the stored envelope, with headers and a possibly compressed payload, as counted by
    /// [`ReserveRequest::max_bytes`].
    pub stored_bytes: usize,
    /// The message; its attempt and delivery count this one. The payload is restored, unless `unrestored` is set.
    pub envelope: Envelope,
    /// Why the payload is still compressed, if it is.
    pub unrestored: Option<Unrestored>,
}

/// The report of a reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveReport {
    /// Redis's clock.
    pub now: UnixMicros,
    /// The messages, in the order of the topics.
    pub messages: Vec<Reservation>,
    /// Time of the next reserve without a wake-up: at once (a limit on bytes or entries was reached, and there may be
    /// more), later (a rate holds messages back), or `None`.
    pub wait: Option<Duration>,
    /// Stale entries that were dropped.
    pub dropped: u64,
    /// Messages that had expired.
    pub expired: u64,
    /// Malformed messages, now dead letters.
    pub buried: u64,
    /// Messages with a newer format, or blocked by a key of the wrong type: they are ready again in 10 s.
    pub newer: u64,
    /// Topics skipped because one of their keys has the wrong type. Other topics proceed; without any other, the call
    /// fails instead.
    pub refused: Vec<Topic>,
}

/// The report, and the receipts of undecodable messages, each with the reason.
pub type Reserved = (ReserveReport, Vec<(Receipt, String)>);

// === impl Receipt ===

impl Receipt {
    /// A receipt from its bytes, as `reserve` answers it.
    pub const fn new(shard: ShardId, bytes: Vec<u8>) -> Self {
        Self { shard, bytes }
    }

    /// The bytes, as `reserve` answered them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
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

/// Reserves ready messages of one shard; `by` is the caller's name for histories, or empty.
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

/// Reads the report, with payloads as stored.
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
