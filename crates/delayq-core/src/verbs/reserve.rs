//! `reserve`.

use crate::{
    Client, Error, MessageId, ShardId, Topic, UnixMillis, Unrestored, client::UnixMicros, envelope::Envelope,
    link::Call, reply::Reply, script::Verb,
};
use std::time::Duration;

/// What a reserve asks of one shard.
#[derive(Clone, Debug)]
pub struct ReserveRequest {
    /// The topics, the first that has something first.
    pub topics: Vec<Topic>,
    /// The most messages, 1 to 500.
    pub most: u16,
    /// The most bytes of envelopes as they are stored ([`Reservation::stored_bytes`]), which the last message may exceed;
    /// 0: no bound.
    pub most_bytes: u32,
    /// How long the lease lasts, 1 ms to 24 h; `None`: as the topic says.
    pub lease: Option<Duration>,
}

/// The right to settle one delivery of one message.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The shard of the message.
    pub shard: ShardId,
    pub(crate) bytes: Vec<u8>,
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
    /// The bytes of its envelope as it is stored: headers and all, the payload compressed where it is. What
    /// [`ReserveRequest::most_bytes`] counts.
    pub stored_bytes: usize,
    /// The message itself; its attempt and delivery count this one. Its payload is as it was put, unless `unrestored`
    /// says otherwise.
    pub envelope: Envelope,
    /// Why its payload is still compressed, if it is.
    pub unrestored: Option<Unrestored>,
}

/// What a reserve found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveReport {
    /// Redis's clock.
    pub now: UnixMicros,
    /// The messages, in the order of the topics.
    pub messages: Vec<Reservation>,
    /// When to come back without being woken: at once (a bound on bytes or entries was reached, and there may be more),
    /// later (a rate holds messages back), or `None`.
    pub wait: Option<Duration>,
    /// Stale entries that were dropped.
    pub dropped: u64,
    /// Messages that had expired.
    pub expired: u64,
    /// Messages that were malformed and are dead now.
    pub buried: u64,
    /// Messages of a newer format, or that a key of the wrong type is in the way of: they are ready again in 10 s.
    pub newer: u64,
    /// Topics of which nothing was taken, because a key of theirs is of the wrong type. The others go on; where there
    /// is no other one, the call fails instead.
    pub refused: Vec<Topic>,
}

// === impl Client ===

impl Client {
    /// Reserves ready messages of one shard.
    ///
    /// # Errors
    /// A number outside its range is refused by Redis as `DQARG`, and nothing is leased. With fate *unknown*, messages may be leased that nobody holds: they come back when their lease runs out.
    pub async fn reserve(&self, shard: ShardId, request: &ReserveRequest) -> Result<ReserveReport, Error> {
        let mut reports = self.reserve_many(&[(shard, request.clone())]).await;
        reports.pop().expect("one report for one request")
    }

    /// Reserves from several shards in one round trip.
    pub async fn reserve_many(
        &self,
        requests: &[(ShardId, ReserveRequest)],
    ) -> Vec<Result<ReserveReport, Error>> {
        let calls: Vec<_> =
            requests.iter().map(|(shard, request)| self.reserve_request(*shard, request)).collect();
        let replies = self.send_all(calls).await;
        let read = |(reply, (shard, request)): (Result<_, _>, &(ShardId, ReserveRequest))| {
            reply.and_then(|reply| read(*shard, request, reply))
        };
        let mut unreadable = Vec::new();
        let mut reports = Vec::with_capacity(requests.len());
        for found in replies.into_iter().zip(requests).map(read) {
            reports.push(found.map(|(report, some)| {
                unreadable.extend(some);
                report
            }));
        }
        self.bury_unreadable(&unreadable).await;
        let mut messages: Vec<&mut Reservation> =
            reports.iter_mut().flatten().flat_map(|report| &mut report.messages).collect();
        let answers = self.restore_payloads(messages.iter_mut().map(|message| &mut message.envelope)).await;
        messages.into_iter().zip(answers).for_each(|(message, answer)| message.unrestored = answer);
        reports
    }

    /// Moves leased messages that nobody can decode to the dead letters: they keep no other from being delivered.
    async fn bury_unreadable(&self, unreadable: &[(Receipt, String)]) {
        if unreadable.is_empty() {
            return;
        }
        for ((receipt, why), settled) in unreadable.iter().zip(self.bury(unreadable).await) {
            tracing::warn!(?receipt, why, ?settled, "a message cannot be decoded: buried");
        }
    }

    fn reserve_request(&self, shard: ShardId, request: &ReserveRequest) -> Call {
        let lease = request.lease.map_or_else(String::new, |lease| lease.as_millis().to_string());
        let mut call = self.call(Verb::Reserve, shard).arg(request.most).arg(request.most_bytes).arg(lease);
        for topic in &request.topics {
            call.push(topic.as_str());
        }
        call
    }
}

// === impl Receipt ===

impl Receipt {
    /// Topic number, `:`, id, gen.
    fn id(&self) -> Option<MessageId> {
        let colon = self.bytes.iter().position(|&byte| byte == b':')?;
        let id = self.bytes.get(colon + 1..self.bytes.len().checked_sub(4)?)?;
        MessageId::from_bytes(id)
    }
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receipt({}, {:?})", self.shard, self.id())
    }
}

/// The report, and the receipts of messages that cannot be decoded, with the reason.
fn read(
    shard: ShardId,
    request: &ReserveRequest,
    reply: redis::Value,
) -> Result<(ReserveReport, Vec<(Receipt, String)>), Error> {
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
) -> Result<Result<Reservation, (Receipt, String)>, Error> {
    let ready = UnixMicros(reply.number()?);
    let receipt = Receipt { shard, bytes: reply.bytes()? };
    let bytes = reply.bytes()?;
    let Some(id) = receipt.id() else { return Ok(Err((receipt, "an id that is none".to_owned()))) };
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
