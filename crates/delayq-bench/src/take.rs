//! Taking: reserve and ack, in batches and one message at a time.

use crate::{
    address::Address,
    bare::{Answer, Bare},
    bench::{Bench, BenchError, Ground},
    clock,
    figures::{Figure, Target},
};
use delayq_core::{Consumer, ConsumerOptions, ReserveRequest, ShardId, UnixMillis, Verb};
use futures_util::future::try_join_all;
use std::sync::Arc;
use tokio::sync::Mutex;

const BATCH: u16 = 100;
const LOOPS: usize = 4;

// === impl Bench ===

impl Bench {
    /// Reserves and acks batches of 100, four loops at once, beside four bare connections that do the same.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn reserve_and_ack(&self) -> Result<Figure, BenchError> {
        let count = self.messages / 2;
        let limit = self.bare_taking(count, BATCH, LOOPS).await?;
        let ground = self.ground(1).await?;
        ground.fill(count, UnixMillis::new(1), 1).await?;
        let request =
            ReserveRequest { topics: vec![ground.topic.clone()], most: BATCH, most_bytes: 0, lease: None };
        let start = clock::now();
        let taking = || async {
            loop {
                let report = ground.client.reserve(ShardId::new(0), &request).await?;
                if report.messages.is_empty() {
                    return Ok::<_, delayq_core::Error>(());
                }
                let receipts: Vec<_> = report.messages.into_iter().map(|message| message.receipt).collect();
                for answer in ground.client.ack(&receipts).await {
                    answer?;
                }
            }
        };
        try_join_all((0..LOOPS).map(|_| taking())).await?;
        let took = clock::now() - start;
        let measured = count as f64 / took.as_secs_f64();
        let name = "reserve + ack, batches of 100";
        Ok(Figure { name, unit: "/s", measured, limit: Some(limit), target: Target::OfLimit(0.8) })
    }

    /// A consumer with 64 workers that take and ack one message at a time, beside four bare connections that take and
    /// ack batches of 100: what a consumer that gathers the workers' calls could reach at best.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn workers(&self) -> Result<Figure, BenchError> {
        let count = self.messages / 2;
        let limit = self.bare_taking(count, BATCH, LOOPS).await?;
        let ground = self.ground(1).await?;
        ground.fill(count, UnixMillis::new(1), 1).await?;
        let mut options = ConsumerOptions::new([ground.topic.clone()]);
        options.concurrency = 512;
        let start = clock::now();
        let consumer = Arc::new(Mutex::new(Consumer::start(ground.client.clone(), options)));
        let left = Arc::new(std::sync::atomic::AtomicUsize::new(count));
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let (consumer, left) = (Arc::clone(&consumer), Arc::clone(&left));
                tokio::spawn(async move {
                    while left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) as isize > 0 {
                        let Some(delivery) = consumer.lock().await.next().await else { break };
                        delivery.ack().await?;
                    }
                    Ok::<_, delayq_core::Error>(())
                })
            })
            .collect();
        for task in tasks {
            task.await.map_err(|error| BenchError::Wrong(error.to_string()))??;
        }
        let took = clock::now() - start;
        let measured = count as f64 / took.as_secs_f64();
        let name = "take + ack, 64 workers, one at a time";
        Ok(Figure { name, unit: "/s", measured, limit: Some(limit), target: Target::OfLimit(0.8) })
    }

    async fn bare_taking(&self, count: usize, batch: u16, connections: usize) -> Result<f64, BenchError> {
        let ground = self.ground(1).await?;
        ground.fill(count, UnixMillis::new(1), 1).await?;
        let start = clock::now();
        try_join_all((0..connections).map(|_| bare_loop(&ground, &self.address, batch))).await?;
        Ok(count as f64 / (clock::now() - start).as_secs_f64())
    }
}

/// Reserves and acks on one bare connection until nothing is left.
async fn bare_loop(ground: &Ground, address: &Address, batch: u16) -> Result<(), BenchError> {
    let mut bare = Bare::connect(address).await?;
    let shard = ShardId::new(0);
    let (meta, never) = (ground.client.keys().meta(shard), ground.client.keys().never(shard));
    let keys: [&[u8]; 4] = [b"2", meta.as_bytes(), never.as_bytes(), b"1"];
    let most = batch.to_string();
    loop {
        let mut reserve: Vec<&[u8]> = vec![b"EVALSHA", ground.sha(Verb::Reserve)];
        reserve.extend(keys);
        reserve.extend([most.as_bytes(), b"0", b"", ground.topic.as_str().as_bytes()]);
        let Answer::List(items) = bare.call(&reserve).await? else {
            return Err(BenchError::Wrong("reserve answered no list".to_owned()));
        };
        // Six numbers of the report and three of the topic, then ready time, receipt and envelope of each message.
        let receipts: Vec<&[u8]> = items
            .get(9..)
            .unwrap_or_default()
            .chunks(3)
            .filter_map(|message| match message.get(1) {
                Some(Answer::Text(receipt)) => Some(receipt.as_slice()),
                _ => None,
            })
            .collect();
        if receipts.is_empty() {
            return Ok(());
        }
        let mut ack: Vec<&[u8]> = vec![b"EVALSHA", ground.sha(Verb::Ack)];
        ack.extend(keys);
        ack.extend(receipts);
        bare.call(&ack).await?;
    }
}
