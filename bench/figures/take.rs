//! Taking: reserve and ack, in batches and one message at a time.

use crate::bare::{Answer, Bare, Request};
use crate::bench::{Bench, Prepared};
use crate::clock;
use crate::error::BenchError;
use crate::figures::{Figure, Target};
use crate::shape::Shape;
use delayq::protocol::{Holder, ReserveRequest, ShardId, Verb};
use delayq::{Consumer, ConsumerOptions, UnixMillis};
use futures_util::future::try_join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const BATCH: u16 = 100;
const FULL_BATCH: u16 = 500;
/// Loops that share the shards; with fewer shards, loops share a shard.
const LOOPS: u16 = 4;
const WORKERS: usize = 64;

// === impl Bench ===

impl Bench {
    /// Reserves and acks in batches and singly, each compared with the same scripts in full calls of a bare client.
    pub(crate) async fn takes(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let limit = self.bare_taking(shape).await?;
        let batches = self.reserve_and_ack(shape).await?.limit(limit).target(Target::OfLimit(0.8));
        Ok(vec![batches, self.workers(shape).await?.limit(limit)])
    }

    /// Reserves and acks batches of 100 in four loops, each with its share of the shards.
    async fn reserve_and_ack(&self, shape: Shape) -> Result<Figure, BenchError> {
        let (count, prepared) = self.ready(shape).await?;
        let request = ReserveRequest {
            topics: vec![prepared.messages.topic.clone()],
            most: BATCH,
            max_bytes: 0,
            lease: None,
        };
        let empty = |shard| {
            let (holder, request) = (Holder::new(prepared.client.clone()), &request);
            async move {
                loop {
                    let report = holder.reserve(&[(shard, request.clone())]).await.remove(0)?;
                    if report.messages.is_empty() {
                        return Ok::<_, BenchError>(());
                    }
                    let receipts: Vec<_> =
                        report.messages.into_iter().map(|message| message.receipt).collect();
                    for answer in holder.ack(&receipts).await {
                        answer?;
                    }
                }
            }
        };
        let start = clock::now();
        try_join_all((0..LOOPS).map(async |one| {
            for shard in share(shape, one) {
                empty(shard).await?;
            }
            Ok::<_, BenchError>(())
        }))
        .await?;
        let measured = count as f64 / (clock::now() - start).as_secs_f64();
        Ok(Figure::new(shape, "reserve + ack, batches of 100 by 4 loops", "/s", measured))
    }

    /// A consumer with 64 workers; each takes one message, acks, then takes the next.
    pub(crate) async fn workers(&self, shape: Shape) -> Result<Figure, BenchError> {
        let (count, prepared) = self.ready(shape).await?;
        let mut options = ConsumerOptions::new([prepared.messages.topic.clone()]);
        options.concurrency = WORKERS;
        let start = clock::now();
        let consumer = Arc::new(Mutex::new(
            Consumer::start(prepared.client.clone(), options).expect("the options are in their ranges"),
        ));
        let taken = Arc::new(AtomicUsize::new(0));
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            let (consumer, taken) = (Arc::clone(&consumer), Arc::clone(&taken));
            workers.spawn(async move {
                while taken.fetch_add(1, Ordering::Relaxed) < count {
                    let Some(delivery) = consumer.lock().await.next().await else { break };
                    delivery.ack().await?;
                }
                Ok::<_, delayq::Error>(())
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker.map_err(|error| BenchError::Wrong(error.to_string()))??;
        }
        let measured = count as f64 / (clock::now() - start).as_secs_f64();
        Ok(Figure::new(shape, "reserve + ack, one by one by 64 workers", "/s", measured))
    }

    /// The limit: four bare connections, each with its share of the shards, reserve and ack in calls of maximum size.
    async fn bare_taking(&self, shape: Shape) -> Result<f64, BenchError> {
        let (count, prepared) = self.ready(shape).await?;
        let start = clock::now();
        try_join_all((0..LOOPS).map(async |one| {
            let mut bare = Bare::connect(&self.address).await?;
            for shard in share(shape, one) {
                empty(&prepared, shard, &mut bare).await?;
            }
            Ok::<_, BenchError>(())
        }))
        .await?;
        Ok(count as f64 / (clock::now() - start).as_secs_f64())
    }

    async fn ready(&self, shape: Shape) -> Result<(usize, Prepared), BenchError> {
        let count = self.messages / 2;
        let prepared = self.prepared(shape).await?;
        prepared.fill(count, UnixMillis::new(1), 1).await?;
        Ok((count, prepared))
    }
}

fn share(shape: Shape, one: u16) -> impl Iterator<Item = ShardId> {
    let count = shape.shards.get();
    let is_own = move |shard: &ShardId| match count < LOOPS {
        true => shard.get() == one % count,
        false => shard.get() % LOOPS == one,
    };
    shape.shards.shards().filter(is_own)
}

async fn empty(prepared: &Prepared, shard: ShardId, bare: &mut Bare) -> Result<(), BenchError> {
    let mut reserve = prepared.call(Verb::Reserve, shard);
    reserve.extend([FULL_BATCH.to_string(), "0".into(), String::new()].map(String::into_bytes));
    reserve.push(prepared.messages.topic.as_str().into());
    loop {
        let Answer::List(items) = bare.call(&reserve).await? else {
            return Err(BenchError::Wrong("reserve answered no list".to_owned()));
        };
        // Six numbers of the report and three of the topic, then ready time, receipt and envelope of each message.
        let messages = items.get(9..).unwrap_or_default().chunks(3);
        let mut ack = prepared.call(Verb::Ack, shard);
        let without = ack.len();
        ack.extend(messages.filter_map(|message| match message.get(1) {
            Some(Answer::Text(receipt)) => Some(receipt.clone()),
            _ => None,
        }));
        if ack.len() == without {
            return Ok(());
        }
        bare.drive(&[Request::new(&ack)], 1).await?;
    }
}
