//! The outbox: time of rows until Redis has accepted them, also while a snapshot is held.

use crate::bare_outbox::BareOutbox;
use crate::bench::{Bench, Prepared};
use crate::clock::{self, PATIENCE};
use crate::error::BenchError;
use crate::figures::{Figure, Target, percentile_ms};
use crate::shape::Shape;
use delayq::Admin;
use delayq_compensator::{OutboxConfig, SourceDeps, SourcesMetrics, build_outbox, outbox_keeper};
use delayq_service::config::{HumanDuration, Secret};
use delayq_service::{Fault, Metrics, Readiness, Shutdown};
use delayq_tests::postgres_server::PostgresServer;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const ROWS: f64 = 20_000.0;
/// Rate of transactions with one row each while a snapshot is held, per second.
const COMMITS: f64 = 200.0;
/// Target for the 99th percentile from a row's commit to Redis.
const P99_MS: f64 = 200.0;
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Short enough for tables to be truncated while the snapshot is held.
const ROTATE_EVERY: HumanDuration = HumanDuration::from_secs(5);

struct Reading {
    shutdown: Shutdown,
    running: JoinHandle<Result<(), Fault>>,
}

// === impl Bench ===

impl Bench {
    /// Rate of waiting rows, compared with a bare reader of the same table that uses `put_many`; and time of single
    /// rows while a snapshot is held, with the dead rows left behind.
    pub(crate) async fn outbox(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let server = PostgresServer::start_with(&[("fsync", "on")]).await;
        let config = OutboxConfig {
            url: Some(Secret::plain(server.url())),
            rotate_every: ROTATE_EVERY,
            ..OutboxConfig::default()
        };
        outbox_keeper(&config).map_err(|fault| wrong(&fault))?.init().await.map_err(|fault| wrong(&fault))?;
        let database = BareOutbox::connect(&server.url()).await?;
        database.fill(self.messages, shape).await?;

        let prepared = self.prepared(shape).await?;
        let start = clock::now();
        let put = database.read(&prepared.producer, config.batch.into()).await?;
        let limit = rate(put, start);
        if put != self.messages {
            return Err(BenchError::Wrong(format!("the bare reader put {put} of {} rows", self.messages)));
        }

        let prepared = self.prepared(shape).await?;
        let start = clock::now();
        let reading = Reading::start(config.clone(), &prepared).await?;
        wait(&prepared, self.messages).await?;
        let measured = rate(self.messages, start);
        reading.end().await?;
        let name = "outbox, beside a bare reader with put_many of 1,000";
        let mut figures =
            vec![Figure::new(shape, name, "/s", measured).limit(limit).target(Target::AtLeast(ROWS))];
        figures.extend(self.commits(shape, config, &server.url()).await?);
        Ok(figures)
    }

    async fn commits(
        &self,
        shape: Shape,
        config: OutboxConfig,
        url: &str,
    ) -> Result<Vec<Figure>, BenchError> {
        let prepared = self.prepared(shape).await?;
        let reading = Reading::start(config, &prepared).await?;
        let (writer, holder) = (BareOutbox::connect(url).await?, BareOutbox::connect(url).await?);
        holder.hold_snapshot().await?;
        let count = (self.lives_last.as_secs_f64() * COMMITS) as usize;
        let committed = Arc::new(Mutex::new(Vec::with_capacity(count)));
        let writing = tokio::spawn(write(writer, count, shape, Arc::clone(&committed)));
        let (admin, mut waits) = (Admin::new(prepared.client.clone()), Vec::with_capacity(count));
        let give_up = clock::now() + self.lives_last + PATIENCE;
        while waits.len() < count {
            let accepted = admin.topic(&prepared.messages.topic).count().await?.accepted as usize;
            let now = clock::now();
            if now > give_up || writing.is_finished() && committed_of(&committed).len() < count {
                break;
            }
            let new: Vec<Instant> =
                committed_of(&committed).iter().take(accepted).skip(waits.len()).copied().collect();
            waits.extend(new.into_iter().map(|at| clock::micros(now.saturating_duration_since(at))));
            tokio::time::sleep(LOOK_EVERY).await;
        }
        writing.await.map_err(|error| BenchError::Wrong(error.to_string()))??;
        if waits.len() < count {
            return Err(BenchError::Wrong(format!("{} of {count} rows reached Redis", waits.len())));
        }
        let dead = BareOutbox::dead_rows(url).await?;
        reading.end().await?;
        waits.sort_unstable();
        let figure = |name: &str, unit, measured| Figure::new(shape, name, unit, measured);
        Ok(vec![
            figure(
                "outbox under a held snapshot, committed → in Redis, p50",
                "ms",
                percentile_ms(&waits, 0.5),
            ),
            figure(
                "outbox under a held snapshot, committed → in Redis, p99",
                "ms",
                percentile_ms(&waits, 0.99),
            )
            .target(Target::AtMost(P99_MS)),
            figure("outbox under a held snapshot, n_dead_tup", "rows", dead as f64)
                .target(Target::AtMost(0.0)),
        ])
    }
}

async fn write(
    database: BareOutbox,
    count: usize,
    shape: Shape,
    committed: Arc<Mutex<Vec<Instant>>>,
) -> Result<(), BenchError> {
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / COMMITS));
    for number in 0..count {
        ticks.tick().await;
        database.insert(number, shape).await?;
        committed_of(&committed).push(clock::now());
    }
    Ok(())
}

fn committed_of(committed: &Mutex<Vec<Instant>>) -> std::sync::MutexGuard<'_, Vec<Instant>> {
    committed.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn wait(prepared: &Prepared, count: usize) -> Result<(), BenchError> {
    let admin = Admin::new(prepared.client.clone());
    let mut last = (0, clock::now());
    loop {
        let accepted = admin.topic(&prepared.messages.topic).count().await?.accepted as usize;
        if accepted >= count {
            return Ok(());
        }
        if accepted > last.0 {
            last = (accepted, clock::now());
        }
        if last.1.elapsed() > PATIENCE {
            return Err(BenchError::Wrong(format!("{accepted} of {count} rows reached Redis")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn rate(count: usize, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

fn wrong(fault: &Fault) -> BenchError {
    BenchError::Wrong(fault.to_string())
}

// === impl Reading ===

impl Reading {
    async fn start(config: OutboxConfig, prepared: &Prepared) -> Result<Self, BenchError> {
        let (client, shutdown) = (prepared.client.clone(), Shutdown::new());
        let deps = SourceDeps {
            client,
            metrics: SourcesMetrics::register(&Metrics::new()),
            readiness: Readiness::new(),
        };
        let reader = build_outbox(config, deps).await.map_err(|fault| wrong(&fault))?;
        Ok(Self { running: tokio::spawn(reader.run(shutdown.clone())), shutdown })
    }

    async fn end(self) -> Result<(), BenchError> {
        self.shutdown.request();
        self.running
            .await
            .map_err(|error| BenchError::Wrong(error.to_string()))?
            .map_err(|fault| wrong(&fault))
    }
}
