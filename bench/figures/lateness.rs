//! Lateness: from a message's due time until ready, and until a waiting worker has the message.
//!
//! All messages are put before the first is due, so that no producer competes. Ready is each message's own ready time,
//! on Redis's clock; a worker's hand is on this host's clock, which must be Redis's: measure on one machine.

use crate::bench::{Bench, Prepared};
use crate::error::BenchError;
use crate::figures::{Figure, Target, percentile_ms};
use crate::server::redis_cpu;
use crate::shape::Shape;
use crate::timers::Timers;
use crate::{bare_loop, clock};
use delayq::{Client, Consumer, ConsumerOptions, Topic, UnixMillis};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

const SECONDS: u64 = 10;
/// Time to put one second's worth of messages in the slowest case; the first message is due after all puts.
const AHEAD_EACH: Duration = Duration::from_micros(100);
const AHEAD: Duration = Duration::from_secs(2);

/// Targets for p50 and p99 in ms, and for Redis's CPU in percent of a core: without consumers, and with a worker; for p50
/// and p99 of a worker that pumps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatenessTargets {
    pub(crate) ready: [f64; 3],
    pub(crate) worker: [f64; 3],
    pub(crate) pumping: [f64; 2],
}

struct Pumped {
    redis_percent: f64,
    empty_percent: f64,
}

// === impl LatenessTargets ===

impl LatenessTargets {
    /// At 1,000 messages a second.
    pub(crate) const STEADY: Self =
        Self { ready: [0.1, 0.5, 20.0], worker: [0.25, 1.0, 45.0], pumping: [0.4, 1.2] };
    /// At 10,000 messages a second.
    pub(crate) const BUSY: Self =
        Self { ready: [0.1, 0.5, 20.0], worker: [0.3, 1.0, 45.0], pumping: [0.5, 2.0] };

    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            ready: self.ready.map(|most| most * factor),
            worker: self.worker.map(|most| most * factor),
            pumping: self.pumping.map(|most| most * factor),
        }
    }
}

// === impl Bench ===

impl Bench {
    /// Measures `rate` messages a second, due at random milliseconds of ten seconds, against a bare loop: first without
    /// consumers, then with a waiting worker. `timers` are two timers.
    pub(crate) async fn lateness(
        &self,
        shape: Shape,
        rate: u64,
        targets: LatenessTargets,
        timers: &Timers,
    ) -> Result<Vec<Figure>, BenchError> {
        let bare = bare_loop::run(&self.address, due_times(rate)).await?;
        let (ready, pumped) = self.ready_waits(shape, rate, timers).await?;
        let (worker, redis_with_worker) = self.worker_waits(shape, rate, timers).await?;
        let pumping = self.pumping_worker_waits(shape, rate).await?;
        if let Some(file) = &self.waits {
            for (of, what, waits) in [
                ("delayq", "ready", &ready),
                ("delayq", "worker", &worker),
                ("bare", "ready", &bare.ready),
                ("bare", "worker", &bare.worker),
            ] {
                file.write(format_args!("{of},{},{rate},{what}", shape.shards), waits)?;
            }
        }
        let thousands = rate / 1000;
        let name = |what: &str| format!("{thousands},000/s, {what}");
        let ms = |what: &str, waits: &[u64], part| {
            Figure::new(shape, name(what), "ms", percentile_ms(waits, part))
        };
        let percent = |what: &str, measured| Figure::new(shape, name(what), "%", measured);
        let limited = |figure: Figure, limits: &[u64], part, most| {
            figure.limit(percentile_ms(limits, part)).target(Target::AtMost(most))
        };
        let [ready_p50, ready_p99, redis] = targets.ready;
        let [worker_p50, worker_p99, redis_and_worker] = targets.worker;
        let [pumping_p50, pumping_p99] = targets.pumping;
        Ok(vec![
            limited(ms("due -> ready, p50", &ready, 0.5), &bare.ready, 0.5, ready_p50),
            limited(ms("due -> ready, p99", &ready, 0.99), &bare.ready, 0.99, ready_p99),
            // A maximum is a single message: the bare loop's maximum is no limit.
            ms("due -> ready, max", &ready, 1.0).target(Target::AtMost(10.0)),
            limited(ms("due -> worker, p50", &worker, 0.5), &bare.worker, 0.5, worker_p50),
            limited(ms("due -> worker, p99", &worker, 0.99), &bare.worker, 0.99, worker_p99),
            limited(ms("due -> worker that pumps, p50", &pumping, 0.5), &bare.worker, 0.5, pumping_p50),
            limited(ms("due -> worker that pumps, p99", &pumping, 0.99), &bare.worker, 0.99, pumping_p99),
            percent("a core for Redis, without worker", pumped.redis_percent).target(Target::AtMost(redis)),
            percent("a core for Redis, with worker", redis_with_worker)
                .limit(bare.redis_percent)
                .target(Target::AtMost(redis_and_worker)),
            percent("pumps that found nothing", pumped.empty_percent).target(Target::AtMost(2.0)),
        ])
    }

    async fn ready_waits(
        &self,
        shape: Shape,
        rate: u64,
        timers: &Timers,
    ) -> Result<(Vec<u64>, Pumped), BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let window = async {
            prepared.owned_by(timers).await?;
            let from = prepared.gather(rate).await?;
            prepared.wait_until(from).await?;
            let before = (redis_cpu(&mut prepared.bare).await?, timers.calls(), clock::now());
            prepared.wait_until(from + Duration::from_secs(SECONDS)).await?;
            let redis = redis_cpu(&mut prepared.bare).await? - before.0;
            let redis_percent = 100.0 * redis / (clock::now() - before.2).as_secs_f64();
            let pumped = Pumped { redis_percent, empty_percent: timers.calls().empty_percent(before.1) };
            prepared.wait_until(from + Duration::from_secs(SECONDS + 1)).await?;
            Ok::<_, BenchError>(pumped)
        };
        let pumped = timers.during(self.client(shape.shards), window).await?;
        Ok((ready_waits(&prepared, rate).await?, pumped))
    }

    /// Sorted, in µs, from due until a waiting worker has the message; and Redis's CPU in percent of a core.
    async fn worker_waits(
        &self,
        shape: Shape,
        rate: u64,
        timers: &Timers,
    ) -> Result<(Vec<u64>, f64), BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let window = async {
            prepared.owned_by(timers).await?;
            let from = prepared.gather(rate).await?;
            let topic = prepared.messages.topic.clone();
            let worker = apart(worker_waits(self.client(shape.shards), topic, rate, false));
            let watch = async {
                prepared.wait_until(from).await?;
                let (cpu, since) = (redis_cpu(&mut prepared.bare).await?, clock::now());
                prepared.wait_until(from + Duration::from_secs(SECONDS)).await?;
                let cpu = redis_cpu(&mut prepared.bare).await? - cpu;
                Ok::<_, BenchError>(100.0 * cpu / (clock::now() - since).as_secs_f64())
            };
            tokio::try_join!(worker, watch)
        };
        timers.during(self.client(shape.shards), window).await
    }

    /// As [`Self::worker_waits`], without a timer: the worker pumps.
    async fn pumping_worker_waits(&self, shape: Shape, rate: u64) -> Result<Vec<u64>, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        prepared.gather(rate).await?;
        let topic = prepared.messages.topic.clone();
        apart(worker_waits(self.client(shape.shards), topic, rate, true)).await
    }
}

// === impl Prepared ===

impl Prepared {
    /// Returns the earliest due time.
    async fn gather(&mut self, rate: u64) -> Result<UnixMillis, BenchError> {
        let from = self.redis_ms().await? + ahead(rate);
        self.fill(usize::try_from(rate * SECONDS).unwrap_or(usize::MAX), from, SECONDS * 1000).await?;
        if self.redis_ms().await? >= from {
            let (count, ahead) = (rate * SECONDS, ahead(rate));
            return Err(BenchError::Wrong(format!("this machine cannot put {count} messages in {ahead:?}")));
        }
        Ok(from)
    }

    pub(crate) async fn wait_until(&mut self, end: UnixMillis) -> Result<(), BenchError> {
        let left = end.since(self.redis_ms().await?);
        tokio::time::sleep(left).await;
        Ok(())
    }
}

fn ahead(rate: u64) -> Duration {
    AHEAD + AHEAD_EACH * (rate * SECONDS) as u32
}

fn due_times(rate: u64) -> Vec<u64> {
    let from_ms = (clock::since_epoch() + AHEAD).as_millis() as u64;
    (0..rate * SECONDS).map(|_| from_ms + fastrand::u64(0..SECONDS * 1000)).collect()
}

async fn ready_waits(prepared: &Prepared, rate: u64) -> Result<Vec<u64>, BenchError> {
    let mut waits = Vec::new();
    for message in prepared.ready().await? {
        let wait = message.ready.0.checked_sub(message.envelope.due.get() * 1000);
        waits.push(wait.ok_or_else(|| BenchError::Wrong(format!("{} was ready early", message.id)))?);
    }
    waits.sort_unstable();
    let all = (rate * SECONDS) as usize;
    if waits.len() == all {
        Ok(waits)
    } else {
        Err(BenchError::Wrong(format!("{} of {all} were ready", waits.len())))
    }
}

/// As if in its own process: on a separate thread with its own runtime.
pub(crate) async fn apart<T: Send + 'static>(
    worker: impl Future<Output = Result<T, BenchError>> + Send + 'static,
) -> Result<T, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| BenchError::Wrong(format!("no runtime for the worker: {error}")))?;
    let (done, waits) = oneshot::channel();
    // The receiver is dropped only after the measurement ended.
    std::thread::spawn(move || drop(done.send(runtime.block_on(worker))));
    waits.await.unwrap_or_else(|_| Err(BenchError::Wrong("the worker panicked".to_owned())))
}

async fn worker_waits(client: Client, topic: Topic, rate: u64, pump: bool) -> Result<Vec<u64>, BenchError> {
    let mut options = ConsumerOptions::new([topic]);
    options.concurrency = 1024;
    options.pump = pump;
    let mut consumer = Consumer::start(client, options).expect("the options are in their ranges");
    let mut waits = Vec::new();
    let all = (rate * SECONDS) as usize;
    while waits.len() < all {
        let delivery = timeout(clock::PATIENCE, consumer.next())
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
