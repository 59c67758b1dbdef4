//! Lateness: how long after its due time a message is ready, and a waiting worker has it.

use crate::{
    bare::Bare,
    bench::{Bench, BenchError, Ground},
    clock,
    figures::{Figure, Target, percentile_ms},
};
use delayq_core::{Client, Consumer, ConsumerOptions, ReserveRequest, ShardId, UnixMillis, Verb};
use std::time::Duration;
use tokio::time::timeout;

const SHARDS: u16 = 16;
const SECONDS: u64 = 10;
/// How far ahead the first one is due.
const AHEAD: Duration = Duration::from_secs(3);
/// How far ahead of the due time the bare loop sends: half a round trip and the waking up.
const AIM: Duration = Duration::from_micros(80);

/// The names of the figures of one rate: each is asked for at compile time, so that a report can be searched.
#[derive(Clone, Copy, Debug)]
pub struct LatenessNames {
    /// Ready − due, median.
    pub ready_p50: &'static str,
    /// Ready − due, 99 of 100.
    pub ready_p99: &'static str,
    /// Ready − due, the worst.
    pub ready_max: &'static str,
    /// A waiting worker has it − due, median.
    pub worker_p50: &'static str,
    /// A waiting worker has it − due, 99 of 100.
    pub worker_p99: &'static str,
}

// === impl Bench ===

impl Bench {
    /// `rate` messages a second at random milliseconds over 16 shards for ten seconds: ready − due on Redis's clock,
    /// beside a bare loop that knows all due times, sleeps precisely and calls the same pump script; and due → a
    /// waiting worker has it (this host's clock, which must be Redis's). `run` runs a timer on the deployment for as
    /// long as its future lives.
    ///
    /// # Errors
    /// Redis cannot be used; a message was early or is missing.
    pub async fn lateness<F>(
        &self,
        rate: u64,
        names: LatenessNames,
        run: impl Fn(Client) -> F,
    ) -> Result<Vec<Figure>, BenchError>
    where
        F: Future<Output = ()>,
    {
        let limit = self.bare_lateness(rate).await?;

        let (mut ground, end) = self.gather(rate).await?;
        let client = self.client(SHARDS)?;
        tokio::select! {
            passed = until(&mut ground, end) => passed?,
            () = run(client) => return Err(BenchError::Wrong("the timer stopped".to_owned())),
        }
        let ready = ready_waits(&ground, rate).await?;

        let (ground, _) = self.gather(rate).await?;
        let client = self.client(SHARDS)?;
        let worker = tokio::select! {
            worker = worker_waits(&ground, rate) => worker?,
            () = run(client) => return Err(BenchError::Wrong("the timer stopped".to_owned())),
        };
        let figure = |name, waits: &[u64], limits: Option<&[u64]>, part, most| Figure {
            name,
            unit: "ms",
            measured: percentile_ms(waits, part),
            limit: limits.map(|limits| percentile_ms(limits, part)),
            target: Target::AtMost(most),
        };
        Ok(vec![
            figure(names.ready_p50, &ready, Some(&limit), 0.5, 0.2),
            figure(names.ready_p99, &ready, Some(&limit), 0.99, 1.0),
            figure(names.ready_max, &ready, Some(&limit), 1.0, 10.0),
            figure(names.worker_p50, &worker, None, 0.5, 0.25),
            figure(names.worker_p99, &worker, None, 0.99, 1.0),
        ])
    }

    async fn gather(&self, rate: u64) -> Result<(Ground, UnixMillis), BenchError> {
        let mut ground = self.ground(SHARDS).await?;
        let from = ground.redis_ms().await? + AHEAD;
        ground.fill(usize::try_from(rate * SECONDS).unwrap_or(usize::MAX), from, SECONDS * 1000).await?;
        Ok((ground, from + Duration::from_secs(SECONDS + 1)))
    }

    async fn bare_lateness(&self, rate: u64) -> Result<Vec<u64>, BenchError> {
        let (ground, _) = self.gather(rate).await?;
        let mut dues = due_times(&ground, &self.address).await?;
        dues.sort_unstable();
        dues.dedup();
        let calls: Vec<_> = dues
            .into_iter()
            .map(|(due, shard)| {
                let (meta, never) = (ground.client.keys().meta(shard), ground.client.keys().never(shard));
                (due, meta, never)
            })
            .collect();
        let sha = ground.sha(Verb::Pump).to_vec();
        let address = self.address.clone();
        let bare = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let mut bare = runtime.block_on(Bare::connect(&address))?;
            for (due, meta, never) in calls {
                let at = Duration::from_millis(due.get()) - AIM;
                std::thread::sleep(at.saturating_sub(clock::since_epoch()));
                let words: [&[u8]; 8] =
                    [b"EVALSHA", &sha, b"2", meta.as_bytes(), never.as_bytes(), b"1", b"1", b"500"];
                runtime.block_on(bare.call(&words))?;
            }
            Ok::<_, std::io::Error>(())
        });
        tokio::task::spawn_blocking(move || bare.join())
            .await
            .map_err(|error| BenchError::Wrong(error.to_string()))?
            .map_err(|_| BenchError::Wrong("the bare loop panicked".to_owned()))??;
        // What the aim sent too early waits for the next call on its shard: the last round fetches the rest.
        for shard in ground.client.shards().shards() {
            ground.client.pump(shard, Some(1), 500).await?;
        }
        ready_waits(&ground, rate).await
    }
}

async fn until(ground: &mut Ground, end: UnixMillis) -> Result<(), BenchError> {
    let left = end.since(ground.redis_ms().await?);
    tokio::time::sleep(left).await;
    Ok(())
}

/// Every due time and its shard, read from the buckets.
async fn due_times(ground: &Ground, address: &str) -> Result<Vec<(UnixMillis, ShardId)>, BenchError> {
    use crate::bare::Answer;
    let mut bare = Bare::connect(address).await?;
    let mut dues = Vec::new();
    for shard in ground.client.shards().shards() {
        let base = ground.client.keys().base(shard);
        let Answer::List(buckets) =
            bare.call(&[b"ZRANGE", (base.clone() + "alarms").as_bytes(), b"0", b"-1"]).await?
        else {
            continue;
        };
        for bucket in buckets {
            let Answer::Text(bucket) = bucket else { continue };
            let key = base.clone() + &String::from_utf8_lossy(&bucket);
            let reply = bare.call(&[b"ZRANGE", key.as_bytes(), b"0", b"-1", b"WITHSCORES"]).await?;
            let Answer::List(items) = reply else { continue };
            for pair in items.chunks(2) {
                if let Some(Answer::Text(score)) = pair.get(1) {
                    let due = String::from_utf8_lossy(score).parse().unwrap_or(0);
                    dues.push((UnixMillis::new(due), shard));
                }
            }
        }
    }
    Ok(dues)
}

/// Ready − due of every message, in µs, sorted.
async fn ready_waits(ground: &Ground, rate: u64) -> Result<Vec<u64>, BenchError> {
    let request =
        ReserveRequest { topics: vec![ground.topic.clone()], most: 500, most_bytes: 0, lease: None };
    let mut waits = Vec::new();
    for shard in ground.client.shards().shards().collect::<Vec<_>>() {
        loop {
            let report = ground.client.reserve(shard, &request).await?;
            if report.messages.is_empty() {
                break;
            }
            for message in report.messages {
                let due_us = message.envelope.due.get() * 1000;
                let wait = message.ready.0.checked_sub(due_us);
                waits.push(wait.ok_or_else(|| BenchError::Wrong(format!("{} was ready early", message.id)))?);
            }
        }
    }
    waits.sort_unstable();
    let all = (rate * SECONDS) as usize;
    if waits.len() == all {
        Ok(waits)
    } else {
        Err(BenchError::Wrong(format!("{} of {all} were ready", waits.len())))
    }
}

/// Due → a waiting worker has it, of every message, in µs, sorted.
async fn worker_waits(ground: &Ground, rate: u64) -> Result<Vec<u64>, BenchError> {
    let mut options = ConsumerOptions::new([ground.topic.clone()]);
    options.concurrency = 1024;
    let mut consumer = Consumer::start(ground.client.clone(), options);
    let mut waits = Vec::new();
    let all = (rate * SECONDS) as usize;
    while waits.len() < all {
        let delivery = timeout(crate::bench::PATIENCE, consumer.next())
            .await
            .map_err(|_| BenchError::Wrong(format!("only {} of {all} were delivered", waits.len())))?;
        let Some(delivery) = delivery else { break };
        let due = Duration::from_millis(delivery.due().get());
        waits.push(clock::micros(clock::since_epoch().saturating_sub(due)));
        tokio::spawn(delivery.ack());
    }
    waits.sort_unstable();
    Ok(waits)
}
