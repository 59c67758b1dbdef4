//! The spool: puts while Redis is away, and the replay after Redis is back.

use crate::bare_spool::{BareSpool, syncs_a_second};
use crate::bench::{Bench, Prepared};
use crate::clock;
use crate::error::BenchError;
use crate::figures::{Figure, Target};
use crate::messages::Messages;
use crate::shape::Shape;
use delayq::protocol::Envelope;
use delayq::spool::{Spool, SpoolRecord};
use delayq::{Client, Fate, Message, Producer, ProducerOptions, PutOutcome, Settings, Topic, UnixMillis};
use delayq_compensator::{CompensatorConfig, Deps, SourcesMetrics, build};
use delayq_service::{Metrics, Readiness};
use delayq_spool::{SpoolSettings, SpoolWriter};
use delayq_tests::folder::Folder;
use delayq_tests::ports::free_port;
use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

#[derive(Clone, Copy)]
struct Callers {
    count: usize,
    batch: usize,
    name: &'static str,
}

const BATCHES: Callers = Callers { count: 8, batch: 100, name: "spooled put, batches of 100 by 8 callers" };
const SINGLES: Callers = Callers { count: 64, batch: 1, name: "spooled put, one by one by 64 callers" };

/// Single puts use this fraction of the messages: each commit waits for the disk.
const SINGLE_PART: usize = 10;

const LOOKS: u32 = 1_000_000;

const REPLAY_BATCH: usize = CompensatorConfig::BATCH as usize;

/// Target of each figure, as a fraction of its limit.
const PART: f64 = 0.8;
/// Target rate of 64 callers, if the disk allows.
const SINGLE_PUTS: f64 = 5_000.0;
const REPLAYED: f64 = 50_000.0;
/// Maximum cost of an empty spool for a write, in ns.
const LOOK_NS: f64 = 1_000.0;

const FAR: Duration = Duration::from_secs(24 * 3600);

// === impl Bench ===

impl Bench {
    /// Spooled puts in batches and singly, compared with SQLite that commits the same bytes, and with the disk; the
    /// replay, compared with `put_many`; and the cost of an empty spool for a write.
    pub(crate) async fn spool(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let mut figures = Vec::new();
        for callers in [BATCHES, SINGLES] {
            let count = if callers.batch == 1 { self.messages / SINGLE_PART } else { self.messages };
            let limit = bare(callers, count, shape).await?;
            let measured = spooled(callers, count, shape).await?;
            let figure = Figure::new(shape, callers.name, "/s", measured);
            figures.push(figure.limit(limit).target(Target::OfLimit(PART)));
        }
        let singles = figures[1].measured;
        let folder = Folder::new("synced");
        let limit = syncs_a_second(folder.path())? * SINGLES.count as f64;
        let name = format!("{}, beside syncs of the disk x 64", SINGLES.name);
        figures.push(Figure::new(shape, name, "/s", singles).limit(limit).target(lower(SINGLE_PUTS, limit)));
        figures.extend(self.replay(shape).await?);
        figures.push(look(shape)?);
        Ok(figures)
    }

    /// Replays spooled messages, compared with one caller that puts the same messages in calls of the same size.
    async fn replay(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let prepared = self.prepared(shape).await?;
        let (count, due) = (self.messages / REPLAY_BATCH * REPLAY_BATCH, clock_far());
        let start = clock::now();
        for _ in 0..count / REPLAY_BATCH {
            prepared.messages.put_many(&prepared.producer, REPLAY_BATCH, || due).await?;
        }
        let limit = rate(count, start);

        let prepared = self.prepared(shape).await?;
        let folder = Folder::new("replayed");
        fill(&prepared, &folder, count, due).await?;
        let deps = Deps {
            client: prepared.client.clone(),
            spool: folder.path().to_owned(),
            holder: "the benchmark".to_owned(),
            metrics: SourcesMetrics::register(&Metrics::new()),
            readiness: Readiness::new(),
        };
        let built = build(CompensatorConfig::default(), deps).await;
        let mut compensator = built.map_err(|fault| BenchError::Wrong(fault.to_string()))?;
        let start = clock::now();
        let mut done = 0;
        loop {
            let report = compensator.step(false).await.map_err(BenchError::Wrong)?;
            if report.taken == 0 {
                break;
            }
            done += report.done;
        }
        let measured = rate(count, start);
        if done != count as u64 {
            return Err(BenchError::Wrong(format!("{done} of {count} records were resubmitted")));
        }
        let figure = Figure::new(shape, "replay, beside put_many of 2,000 by one caller", "/s", measured);
        Ok(vec![figure.limit(limit).target(lower(REPLAYED, limit))])
    }
}

fn lower(rate: f64, limit: f64) -> Target {
    if PART * limit < rate { Target::OfLimit(PART) } else { Target::AtLeast(rate) }
}

fn rate(count: usize, start: std::time::Instant) -> f64 {
    count as f64 / (clock::now() - start).as_secs_f64()
}

fn clock_far() -> UnixMillis {
    UnixMillis::new(clock::since_epoch().as_millis() as u64) + FAR
}

async fn fill(prepared: &Prepared, folder: &Folder, count: usize, due: UnixMillis) -> Result<(), BenchError> {
    let spool = SpoolWriter::open(folder.path(), &SpoolSettings::default())?;
    let tried = UnixMillis::new(clock::since_epoch().as_millis() as u64);
    for _ in 0..count / REPLAY_BATCH {
        let record = |_| Ok(SpoolRecord::put(&prepared.messages.next(due)?, Fate::NotApplied, tried));
        let records = (0..REPLAY_BATCH).map(record).collect::<Result<_, BenchError>>()?;
        spool.append(records).await?;
    }
    Ok(())
}

/// Every write first checks whether spooled writes wait that must not be overtaken. Measures that check on an empty
/// spool.
fn look(shape: Shape) -> Result<Figure, BenchError> {
    let folder = Folder::new("empty");
    let spool: Arc<dyn Spool> = Arc::new(SpoolWriter::open(folder.path(), &SpoolSettings::default())?);
    let start = clock::now();
    let held = (0..LOOKS).filter(|_| black_box(&spool).may_hold()).count();
    let each = (clock::now() - start).as_secs_f64() * 1e9 / f64::from(LOOKS);
    if held > 0 {
        return Err(BenchError::Wrong("an empty spool says that a record may wait".to_owned()));
    }
    let figure = Figure::new(shape, "look at an empty spool before each write", "ns", each);
    Ok(figure.target(Target::AtMost(LOOK_NS)))
}

/// The limit: the same messages in the same batches, in a table of bare SQLite.
async fn bare(callers: Callers, count: usize, shape: Shape) -> Result<f64, BenchError> {
    let folder = Folder::new("bare");
    let spool = BareSpool::open(folder.path())?;
    callers
        .drive(count, shape, move |messages| {
            let encoded = |message: &Message| Envelope::of(message, message.payload.clone(), false).encode();
            let (bodies, spool) = (messages.iter().map(encoded).collect(), spool.clone());
            async move { spool.append(bodies).await }
        })
        .await
}

/// Puts of a producer without Redis.
async fn spooled(callers: Callers, count: usize, shape: Shape) -> Result<f64, BenchError> {
    let folder = Folder::new("spooled");
    let spool = SpoolWriter::open(folder.path(), &SpoolSettings { max_bytes: 64 << 30 })?;
    let mut settings = Settings::new(format!("redis://127.0.0.1:{}", free_port()));
    settings.shards = shape.shards;
    let options = ProducerOptions::default().spool(Arc::new(spool));
    let producer = Producer::start(Client::new(settings), options);
    callers
        .drive(count, shape, move |messages| {
            let producer = producer.clone();
            async move {
                for put in producer.put_many(messages).await {
                    match put?.outcome {
                        PutOutcome::Spooled => {}
                        other => return Err(BenchError::Wrong(format!("a put answered {other:?}"))),
                    }
                }
                Ok(())
            }
        })
        .await
}

// === impl Callers ===

impl Callers {
    /// Makes sequential calls in each caller; returns messages per second.
    async fn drive<C, F>(self, count: usize, shape: Shape, call: C) -> Result<f64, BenchError>
    where
        C: Fn(Vec<Message>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<(), BenchError>> + Send,
    {
        let messages = Arc::new(Messages::new(Topic::new("bench")?, shape));
        let (calls, due) = (count / self.batch / self.count, clock_far());
        let start = clock::now();
        let mut callers = JoinSet::new();
        for _ in 0..self.count {
            let (messages, call) = (Arc::clone(&messages), call.clone());
            callers.spawn(async move {
                for _ in 0..calls {
                    let some = (0..self.batch).map(|_| messages.next(due)).collect::<Result<_, _>>()?;
                    call(some).await?;
                }
                Ok::<_, BenchError>(())
            });
        }
        while let Some(caller) = callers.join_next().await {
            caller.map_err(|error| BenchError::Wrong(error.to_string()))??;
        }
        Ok(rate(calls * self.batch * self.count, start))
    }
}
