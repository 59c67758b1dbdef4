//! Lateness: how long after its due time a message is ready, and a waiting worker has it.
//!
//! All messages are put before the first is due, so that no producer competes. Ready is each message's own ready time, on
//! Redis's clock; in a worker's hand by this host's clock, which must be Redis's: measure on one machine.

use crate::{
    bare_loop,
    bench::{Bench, BenchError, Ground},
    clock,
    figures::{Figure, Target, percentile_ms},
    fleet::Fleet,
    server::redis_cpu,
};
use delayq_core::{Client, Consumer, ConsumerOptions, ReserveRequest, ShardId, Topic, UnixMillis};
use std::time::Duration;
use tokio::{sync::oneshot, time::timeout};

const SHARDS: u16 = 64;
const SECONDS: u64 = 10;
/// How far ahead the first one is due: time to put all of them.
const AHEAD: Duration = Duration::from_secs(4);

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
    /// What Redis needs of a core.
    pub redis: &'static str,
    /// Pumps that came for a due time and found nothing.
    pub empty: &'static str,
}

/// What was seen of the timers in one window.
struct Pumped {
    redis_percent: f64,
    empty_percent: f64,
}

// === impl Bench ===

impl Bench {
    /// `rate` messages a second at random milliseconds over 64 shards for ten seconds, beside a bare loop. `fleet` is of
    /// two timers. Once without anybody who takes them, for when they are ready; once with a waiting worker.
    ///
    /// # Errors
    /// Redis cannot be used; a message was early or is missing.
    pub async fn lateness(
        &self,
        rate: u64,
        names: LatenessNames,
        fleet: &impl Fleet,
    ) -> Result<Vec<Figure>, BenchError> {
        let from = clock::since_epoch() + AHEAD;
        let from_ms = u64::try_from(from.as_millis()).unwrap_or(u64::MAX);
        let dues = (0..rate * SECONDS).map(|_| from_ms + fastrand::u64(0..SECONDS * 1000)).collect();
        let bare = bare_loop::run(&self.address, dues).await?;

        let (ready, pumped) = self.ready_waits(rate, fleet).await?;
        let worker = self.worker_waits(rate, fleet).await?;
        let wait = |name, waits: &[u64], limits: &[u64], part, most| Figure {
            name,
            unit: "ms",
            measured: percentile_ms(waits, part),
            limit: Some(percentile_ms(limits, part)),
            target: Target::AtMost(most),
        };
        let percent = |name, measured, limit, most| {
            let target = Target::AtMost(most);
            Figure { name, unit: "%", measured, limit, target }
        };
        Ok(vec![
            wait(names.ready_p50, &ready, &bare.ready, 0.5, 0.1),
            wait(names.ready_p99, &ready, &bare.ready, 0.99, 0.5),
            wait(names.ready_max, &ready, &bare.ready, 1.0, 10.0),
            wait(names.worker_p50, &worker, &bare.worker, 0.5, 0.25),
            wait(names.worker_p99, &worker, &bare.worker, 0.99, 1.0),
            percent(names.redis, pumped.redis_percent, Some(bare.redis_percent), 20.0),
            percent(names.empty, pumped.empty_percent, None, 2.0),
        ])
    }

    async fn ready_waits(&self, rate: u64, fleet: &impl Fleet) -> Result<(Vec<u64>, Pumped), BenchError> {
        let mut ground = self.ground(SHARDS).await?;
        let client = self.client(SHARDS)?;
        let window = async {
            let from = ground.gather(rate, fleet).await?;
            ground.wait_until(from).await?;
            let before = (redis_cpu(&mut ground.bare).await?, fleet.calls(), clock::now());
            ground.wait_until(from + Duration::from_secs(SECONDS)).await?;
            let redis = redis_cpu(&mut ground.bare).await? - before.0;
            let redis_percent = 100.0 * redis / (clock::now() - before.2).as_secs_f64();
            let pumped = Pumped { redis_percent, empty_percent: fleet.calls().empty_percent(before.1) };
            ground.wait_until(from + Duration::from_secs(SECONDS + 1)).await?;
            Ok::<_, BenchError>(pumped)
        };
        let pumped = tokio::select! {
            pumped = window => pumped?,
            () = fleet.run(client) => return Err(BenchError::Wrong("the timers stopped".to_owned())),
        };
        Ok((ready_waits(&ground, rate).await?, pumped))
    }

    async fn worker_waits(&self, rate: u64, fleet: &impl Fleet) -> Result<Vec<u64>, BenchError> {
        let mut ground = self.ground(SHARDS).await?;
        let client = self.client(SHARDS)?;
        let window = async {
            ground.gather(rate, fleet).await?;
            apart(worker_waits(self.client(SHARDS)?, ground.topic.clone(), rate)).await
        };
        tokio::select! {
            waits = window => waits,
            () = fleet.run(client) => Err(BenchError::Wrong("the timers stopped".to_owned())),
        }
    }
}

// === impl Ground ===

impl Ground {
    /// Puts all messages of ten seconds, once the timers share the shards. Returns when the first may be due.
    async fn gather(&mut self, rate: u64, fleet: &impl Fleet) -> Result<UnixMillis, BenchError> {
        self.owned_by(fleet).await?;
        let from = self.redis_ms().await? + AHEAD;
        self.fill(usize::try_from(rate * SECONDS).unwrap_or(usize::MAX), from, SECONDS * 1000).await?;
        if self.redis_ms().await? >= from {
            return Err(BenchError::Wrong(format!(
                "this machine cannot put {} messages in 4 s",
                rate * SECONDS
            )));
        }
        Ok(from)
    }

    async fn wait_until(&mut self, end: UnixMillis) -> Result<(), BenchError> {
        let left = end.since(self.redis_ms().await?);
        tokio::time::sleep(left).await;
        Ok(())
    }
}

/// Ready − due of every message, in µs, sorted.
async fn ready_waits(ground: &Ground, rate: u64) -> Result<Vec<u64>, BenchError> {
    let request =
        ReserveRequest { topics: vec![ground.topic.clone()], most: 500, most_bytes: 0, lease: None };
    let mut waits = Vec::new();
    for shard in ground.client.shards().shards().collect::<Vec<ShardId>>() {
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

/// Runs a worker as in a process of its own: on a thread of its own, with a runtime of that thread alone.
async fn apart<T: Send + 'static>(
    worker: impl Future<Output = Result<T, BenchError>> + Send + 'static,
) -> Result<T, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| BenchError::Wrong(format!("no runtime for the worker: {error}")))?;
    let (tell, told) = oneshot::channel();
    // Whoever waits for it is gone only where the measurement is over.
    std::thread::spawn(move || drop(tell.send(runtime.block_on(worker))));
    told.await.unwrap_or_else(|_| Err(BenchError::Wrong("the worker panicked".to_owned())))
}

/// Due → a waiting worker has it, of every message, in µs, sorted.
async fn worker_waits(client: Client, topic: Topic, rate: u64) -> Result<Vec<u64>, BenchError> {
    let mut options = ConsumerOptions::new([topic]);
    options.concurrency = 1024;
    let mut consumer = Consumer::start(client, options);
    let mut waits = Vec::new();
    let all = (rate * SECONDS) as usize;
    while waits.len() < all {
        let delivery = timeout(crate::bench::PATIENCE, consumer.next())
            .await
            .map_err(|_| BenchError::Wrong(format!("only {} of {all} were delivered", waits.len())))?;
        let Some(delivery) = delivery else { break };
        let due = Duration::from_millis(delivery.due().get());
        waits.push(clock::micros(clock::since_epoch().saturating_sub(due)));
        delivery.ack_later();
    }
    waits.sort_unstable();
    Ok(waits)
}
