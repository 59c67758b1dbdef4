//! Putting: in batches, and one by one from many callers.

use crate::bare::Request;
use crate::bench::{Bench, Prepared};
use crate::clock;
use crate::error::BenchError;
use crate::figures::{Figure, Target};
use crate::messages::Messages;
use crate::shape::Shape;
use delayq::protocol::{Envelope, MAX_IDS_A_CALL, ShardId, Verb};
use delayq::{Message, MessageId, Producer, UnixMillis};
use futures_util::future::try_join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Messages per batch, and callers with batches.
const BATCH: usize = 100;
const BATCHERS: usize = 8;
/// Callers with single puts.
const SINGLES: usize = 64;
/// Calls of the bare client in flight.
const WINDOW: usize = 4;

const FAR: Duration = Duration::from_secs(24 * 3600);

// === impl Bench ===

impl Bench {
    /// Puts in batches and single puts, each compared with the same script in full calls of a bare client.
    pub(crate) async fn puts(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let limit = self.bare_puts(shape).await?;
        let batches = self.put_in_batches(shape).await?.limit(limit).target(Target::OfLimit(0.85));
        Ok(vec![batches, self.put_one_by_one(shape).await?.limit(limit)])
    }

    pub(crate) async fn put_in_batches(&self, shape: Shape) -> Result<Figure, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let due = prepared.redis_ms().await? + FAR;
        let start = clock::now();
        let put = in_batches(&prepared.producer, &prepared.messages, self.messages, due).await?;
        let measured = put as f64 / (clock::now() - start).as_secs_f64();
        Ok(Figure::new(shape, "put, batches of 100 by 8 callers", "/s", measured))
    }

    pub(crate) async fn put_one_by_one(&self, shape: Shape) -> Result<Figure, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let due = prepared.redis_ms().await? + FAR;
        let start = clock::now();
        let put = one_by_one(&prepared.producer, &prepared.messages, self.messages, due).await?;
        let measured = put as f64 / (clock::now() - start).as_secs_f64();
        Ok(Figure::new(shape, "put, one by one by 64 callers", "/s", measured))
    }

    /// The limit: the put script driven by a bare client, in calls of maximum size, four in flight.
    async fn bare_puts(&self, shape: Shape) -> Result<f64, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let due = prepared.redis_ms().await? + FAR;
        let now_ms = prepared.redis_ms().await?.get();
        let (mut requests, mut open) = (Vec::new(), BTreeMap::<ShardId, Vec<Message>>::new());
        for n in 0..self.messages {
            let mut message = prepared.messages.next(due)?;
            if message.id.is_none() {
                // Like a producer's ids: ordered by time, 500 in sequence per shard.
                let call = n / MAX_IDS_A_CALL;
                let shard = ShardId::new((call % usize::from(shape.shards.get())) as u16);
                message = message.with_id(MessageId::generate(shard, now_ms + call as u64));
            }
            let shard = prepared.shard_of(&message);
            let call = open.entry(shard).or_default();
            call.push(message);
            if call.len() == MAX_IDS_A_CALL {
                requests.push(request(&prepared, shard, &std::mem::take(call)));
            }
        }
        let rest = open.iter().filter(|(_, call)| !call.is_empty());
        requests.extend(rest.map(|(&shard, call)| request(&prepared, shard, call)));
        let took = prepared.bare.drive(&requests, WINDOW).await?;
        Ok(self.messages as f64 / took.as_secs_f64())
    }
}

/// By eight callers, in batches of 100; returns the number.
pub(crate) async fn in_batches(
    producer: &Producer,
    messages: &Messages,
    count: usize,
    due: UnixMillis,
) -> Result<usize, BenchError> {
    let calls = count / BATCH / BATCHERS;
    let caller = || async {
        for _ in 0..calls {
            messages.put_many(producer, BATCH, || due).await?;
        }
        Ok::<_, BenchError>(())
    };
    try_join_all((0..BATCHERS).map(|_| caller())).await?;
    Ok(calls * BATCH * BATCHERS)
}

/// By 64 callers; returns the number.
pub(crate) async fn one_by_one(
    producer: &Producer,
    messages: &Arc<Messages>,
    count: usize,
    due: UnixMillis,
) -> Result<usize, BenchError> {
    let each = count / SINGLES;
    let mut callers = JoinSet::new();
    for _ in 0..SINGLES {
        let (producer, messages) = (producer.clone(), Arc::clone(messages));
        callers.spawn(async move {
            for _ in 0..each {
                messages.put(&producer, due).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.map_err(|error| BenchError::Wrong(error.to_string()))??;
    }
    Ok(each * SINGLES)
}

fn request(prepared: &Prepared, shard: ShardId, messages: &[Message]) -> Request {
    let mut words = prepared.call(Verb::Put, shard);
    words.push(prepared.messages.topic.as_str().into());
    for message in messages {
        let id = message.id.as_ref().expect("a message has its id before it is put").clone();
        let target = delayq::Target { id, group: message.group.clone() };
        let envelope = Envelope::of(message, message.payload.clone(), false).encode();
        words.extend([
            target.stored().into_owned(),
            message.due.argument().into_bytes(),
            Vec::new(),
            envelope,
        ]);
    }
    Request::new(&words)
}
