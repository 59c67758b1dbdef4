//! The rows of `bench/peers/compare.py` for delayq, through its public client alone: `peer REDIS_PORT ROW COUNT IDS
//! BYTES [SHARDS]`, with the ids `own`, `grouped` or `generated`.

use delayq::{
    Admin, Client, Consumer, ConsumerOptions, Delivery, Message, Producer, ProducerOptions, Settings,
    ShardCount, Topic, UnixMillis,
};
use delayq_service::{Metrics, Readiness, Shutdown};
use delayq_timer::{Deps, Membership, SweepConfig, TimerConfig};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;
use tokio::time::sleep;

const HOUR_MS: u64 = 3_600_000;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Bench {
    client: Client,
    producer: Producer,
    topic: Topic,
    count: usize,
    bytes: usize,
    ids: Ids,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ids {
    Own,
    Grouped,
    Generated,
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, port, row, count, ids, bytes, more @ ..] = words.as_slice() else {
        return Err("peer REDIS_PORT ROW COUNT IDS BYTES [SHARDS]".into());
    };
    let mut settings = Settings::new(format!("redis://127.0.0.1:{port}"));
    if let Some(shards) = more.first() {
        settings = settings.shards(ShardCount::new(shards.parse()?)?);
    }
    let ids = match ids.as_str() {
        "own" => Ids::Own,
        "grouped" => Ids::Grouped,
        "generated" => Ids::Generated,
        other => return Err(format!("there are no ids {other}").into()),
    };
    let client = Client::new(settings);
    Admin::new(client.clone()).init().await?;
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    let (count, bytes) = (count.parse()?, bytes.parse()?);
    let bench = Bench { client, producer, topic: Topic::new("orders")?, count, bytes, ids };
    let figures = match row.as_str() {
        "put_bulk" => bench.put_bulk().await?,
        "put_single" => bench.put_single().await?,
        "memory" => bench.memory().await?,
        "storm" => bench.with_timer(bench.storm()).await?,
        "lateness" => bench.with_timer(bench.lateness()).await?,
        "take" => bench.take().await?,
        other => return Err(format!("there is no row {other}").into()),
    };
    println!("{figures}");
    Ok(())
}

// === impl Bench ===

impl Bench {
    fn message(&self, n: usize, due_ms: u64) -> Result<Message> {
        let head = format!("{{\"order\":{n},\"text\":\"");
        let body = format!("{head}{}\"}}", "x".repeat(self.bytes - 2 - head.len()));
        let message = Message::new(self.topic.clone(), body).at(UnixMillis::new(due_ms));
        Ok(match self.ids {
            Ids::Own => message.id(format!("order-{n}"))?,
            Ids::Grouped => message.id(format!("order-{n}"))?.group(format!("customer-{n}"))?,
            Ids::Generated => message,
        })
    }

    /// Batches of 100, eight at a time.
    async fn fill(&self, due_ms: impl Fn(usize) -> u64 + Copy) -> Result<()> {
        let next = &AtomicUsize::new(0);
        try_join_all((0..8).map(|_| async move {
            loop {
                let first = next.fetch_add(100, Ordering::Relaxed);
                if first >= self.count {
                    return Ok(());
                }
                let last = self.count.min(first + 100);
                let messages = (first..last).map(|n| self.message(n, due_ms(n))).collect::<Result<_>>()?;
                for put in self.producer.put_many(messages).await {
                    put?;
                }
            }
        }))
        .await
        .map(drop)
    }

    async fn put_bulk(&self) -> Result<Value> {
        let (start, due) = (Instant::now(), now_ms() as u64 + HOUR_MS);
        self.fill(|_| due).await?;
        Ok(json!({ "put_bulk": rate(self.count, start) }))
    }

    async fn put_single(&self) -> Result<Value> {
        let (start, due, next) = (Instant::now(), now_ms() as u64 + HOUR_MS, &AtomicUsize::new(0));
        try_join_all((0..64).map(|_| async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= self.count {
                    return Ok::<_, Box<dyn Error + Send + Sync>>(());
                }
                self.producer.put(self.message(n, due)?).await?;
            }
        }))
        .await?;
        Ok(json!({ "put_single": rate(self.count, start) }))
    }

    async fn memory(&self) -> Result<Value> {
        let start = now_ms() as u64 + HOUR_MS;
        self.fill(|n| start + n as u64 * 10).await?;
        Ok(json!({}))
    }

    async fn storm(&self) -> Result<Value> {
        let due = now_ms() as u64 + 10_000;
        self.fill(|_| due).await?;
        let left_ms = due as f64 - now_ms();
        if left_ms < 0.0 {
            return Err("too slow to put them in 10 s".into());
        }
        sleep(Duration::from_secs_f64(left_ms / 1000.0)).await;
        let admin = Admin::new(self.client.clone());
        while admin.topic(&self.topic).count().await?.ready < self.count as u64 {
            sleep(Duration::from_millis(2)).await;
        }
        Ok(json!({ "storm": (now_ms() - due as f64) / 1000.0 }))
    }

    async fn lateness(&self) -> Result<Value> {
        let start = now_ms() as u64 + 8000;
        let dues: Arc<[u64]> = (0..self.count).map(|_| start + fastrand::u64(..self.count as u64)).collect();
        self.fill(|n| dues[n]).await?;
        if now_ms() > start as f64 {
            return Err("too slow to put them in 8 s".into());
        }
        let mut consumer = self.consumer(64);
        let (mut late, mut orders) = (Vec::new(), HashSet::new());
        while late.len() < self.count {
            let delivery = consumer.next().await.ok_or("the consumer ended")?;
            late.push(now_ms() - delivery.envelope.due.get() as f64);
            orders.insert(order_of(&delivery));
            tokio::spawn(async move { delivery.ack().await });
        }
        late.sort_by(f64::total_cmp);
        let at = |part: f64| late[((late.len() as f64 * part) as usize).min(late.len() - 1)];
        let early = late.iter().filter(|&&ms| ms < 0.0).count();
        let distinct = orders.len();
        Ok(json!({ "p50": at(0.5), "p99": at(0.99), "max": at(1.0), "early": early, "distinct": distinct }))
    }

    /// One message at a time in each of 64 workers.
    async fn take(&self) -> Result<Value> {
        self.fill(|_| 1).await?;
        let start = Instant::now();
        let mut consumer = self.consumer(64);
        let (mut acks, mut orders) = (JoinSet::new(), HashSet::new());
        for _ in 0..self.count {
            let delivery = consumer.next().await.ok_or("the consumer ended")?;
            orders.insert(order_of(&delivery));
            acks.spawn(delivery.ack());
        }
        while let Some(acked) = acks.join_next().await {
            acked??;
        }
        Ok(json!({ "take": rate(self.count, start), "distinct": orders.len() }))
    }

    fn consumer(&self, concurrency: usize) -> Consumer {
        let mut options = ConsumerOptions::new([self.topic.clone()]);
        options.concurrency = concurrency;
        Consumer::start(self.client.clone(), options).expect("the options are in their ranges")
    }

    async fn with_timer(&self, work: impl Future<Output = Result<Value>>) -> Result<Value> {
        let timer = async {
            let deps = Deps {
                client: self.client.clone(),
                metrics: Metrics::new(),
                readiness: Readiness::default(),
                membership: Membership::single("peer"),
                sweep: SweepConfig::default(),
            };
            match delayq_timer::build(TimerConfig::default(), deps).await {
                Ok(timer) => timer.run(Shutdown::default()).await,
                Err(fault) => Err(fault),
            }
        };
        tokio::select! {
            figures = work => figures,
            ended = timer => Err(format!("the timer ended: {ended:?}").into()),
        }
    }
}

/// This host's clock, as for the other peers.
#[allow(
    clippy::disallowed_methods,
    reason = "every peer is measured by the host's clock, so that they compare"
)]
fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs_f64() * 1000.0
}

/// The number at the head of the payload.
fn order_of(delivery: &Delivery) -> u64 {
    let from_digit = delivery.payload().iter().skip_while(|byte| !byte.is_ascii_digit());
    from_digit
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

fn rate(count: usize, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}
