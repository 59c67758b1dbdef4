//! Putting: in batches, and one by one with many in flight.

use crate::{
    bare::Request,
    bench::{Bench, BenchError, Ground, body},
    clock,
    figures::{Figure, Target},
};
use delayq_core::{MessageId, ShardId, UnixMillis, Verb};
use futures_util::future::try_join_all;
use std::time::Duration;

const BATCH: usize = 100;
const PIPELINES: usize = 4;

/// How far away the messages are due: nothing becomes ready while it is measured.
const FAR: Duration = Duration::from_secs(24 * 3600);

// === impl Bench ===

impl Bench {
    /// Puts in batches of 100, four callers at once, beside the same script in a bare pipeline.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn put_in_batches(&self) -> Result<Figure, BenchError> {
        let limit = self.bare_puts().await?;
        let mut ground = self.ground(1).await?;
        let due = ground.redis_ms().await? + FAR;
        let calls = self.messages / BATCH / PIPELINES;
        let start = clock::now();
        let caller = || async {
            for _ in 0..calls {
                let messages = (0..BATCH).map(|_| ground.message(due)).collect();
                for put in ground.producer.put_many(messages).await {
                    put.map_err(|error| error.error)?;
                }
            }
            Ok::<_, BenchError>(())
        };
        try_join_all((0..PIPELINES).map(|_| caller())).await?;
        let took = clock::now() - start;
        let measured = (calls * BATCH * PIPELINES) as f64 / took.as_secs_f64();
        Ok(Figure {
            name: "put, batches of 100",
            unit: "/s",
            measured,
            limit: Some(limit),
            target: Target::OfLimit(0.85),
        })
    }

    /// Puts one by one, `callers` at once, beside what batches of the same producer reach (`batches`, a second).
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn put_one_by_one(
        &self,
        callers: usize,
        name: &'static str,
        batches: f64,
    ) -> Result<Figure, BenchError> {
        let mut ground = self.ground(1).await?;
        let due = ground.redis_ms().await? + FAR;
        let each = self.messages / callers;
        let start = clock::now();
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let (producer, topic) = (ground.producer.clone(), ground.topic.clone());
                tokio::spawn(async move {
                    for _ in 0..each {
                        let message = delayq_core::Message::new(topic.clone(), body()).at(due);
                        producer.put(message).await.map_err(|error| error.error)?;
                    }
                    Ok::<_, delayq_core::Error>(())
                })
            })
            .collect();
        for task in tasks {
            task.await.map_err(|error| BenchError::Wrong(error.to_string()))??;
        }
        let took = clock::now() - start;
        let measured = (each * callers) as f64 / took.as_secs_f64();
        Ok(Figure { name, unit: "/s", measured, limit: Some(batches), target: Target::OfLimit(0.8) })
    }

    /// The limit: the put script driven by a bare client.
    async fn bare_puts(&self) -> Result<f64, BenchError> {
        let mut ground = self.ground(1).await?;
        let due = ground.redis_ms().await? + FAR;
        let count = self.messages / BATCH;
        let now = ground.redis_ms().await?.get();
        let requests: Vec<Request> = (0..count as u64).map(|n| request(&ground, due, now + n)).collect();
        let took = ground.bare.drive(&requests, PIPELINES).await?;
        Ok((count * BATCH) as f64 / took.as_secs_f64())
    }
}

/// One call of the put script with a batch of messages, encoded by hand. Its ids are of one millisecond, as a producer's
/// are: ids in no order cost Redis more to sort in.
fn request(ground: &Ground, due: UnixMillis, id_ms: u64) -> Request {
    let shard = ShardId::new(0);
    let (meta, never) = (ground.client.keys().meta(shard), ground.client.keys().never(shard));
    let due = due.to_string();
    let messages: Vec<(Vec<u8>, Vec<u8>)> = (0..BATCH)
        .map(|_| {
            let id = MessageId::generate(shard, id_ms);
            let mut envelope = vec![0; delayq_core::HEAD_BYTES];
            envelope[0] = delayq_core::FORMAT;
            envelope[1] = 1;
            envelope.extend(body());
            (id.as_bytes().to_vec(), envelope)
        })
        .collect();
    let mut words: Vec<&[u8]> =
        vec![b"EVALSHA", ground.sha(Verb::Put), b"2", meta.as_bytes(), never.as_bytes(), b"1"];
    words.push(ground.topic.as_str().as_bytes());
    for (id, envelope) in &messages {
        words.extend([id.as_slice(), due.as_bytes(), b"", envelope.as_slice()]);
    }
    Request::new(&words)
}
