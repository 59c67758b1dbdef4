//! What the flood of one tenant does to the requests of another.

use crate::flood::{Flood, FloodKind};
use crate::stage::{NOISY, PAGE, QUIET, Stage};
use crate::wire::Connection;
use clap::ValueEnum as _;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// Between the starts of two rounds of the quiet tenant.
const EVERY: Duration = Duration::from_millis(4);
/// From the start of a flood to the first measurement.
const WARM_UP: Duration = Duration::from_secs(1);
const CONNECTIONS: [usize; 2] = [64, 512];

/// The times of one kind of request each.
struct Times([Histogram<u64>; 3]);

const KINDS: [&str; 3] = ["put", "reserve", "ack"];

/// Prints a row for each of these floods, or for all: p99 of the quiet tenant, and in relation to the p99 without a flood.
pub(crate) async fn print(seconds: u64, runs: usize, floods: &[FloodKind]) -> io::Result<()> {
    let floods = if floods.is_empty() { FloodKind::value_variants() } else { floods };
    println!("| flood of another tenant | connections | put, p99 | reserve, p99 | ack, p99 |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    let time = Duration::from_secs(seconds);
    for &kind in floods {
        let stage = &Stage::start().await;
        if let Some(puts) = kind.quota() {
            let mut connection = Connection::open(&stage.gateway.address, PAGE).await?;
            let quota = json!({ "puts_per_second": puts }).to_string();
            let answer = connection.json(&format!("PUT /v1/tenants/{NOISY}"), &quota).await?;
            assert!(answer.status < 300, "the quota is taken: {}", answer.status);
        }
        let mut quiet = Times::new();
        let mut flooded = CONNECTIONS.map(|_| Times::new());
        for _ in 0..runs {
            quiet.measure(stage, time).await?;
            for (times, connections) in flooded.iter_mut().zip(CONNECTIONS) {
                let flood = Flood::start(&stage.gateway.address, kind, connections);
                sleep(WARM_UP).await;
                times.measure(stage, time).await?;
                drop(flood);
                sleep(WARM_UP).await;
            }
        }
        println!("| none | 0 | {} |", quiet.cells(None));
        for (times, connections) in flooded.iter().zip(CONNECTIONS) {
            println!("| {} | {connections} | {} |", kind.text(), times.cells(Some(&quiet)));
        }
    }
    Ok(())
}

// === impl Times ===

impl Times {
    fn new() -> Self {
        Self(KINDS.map(|_| Histogram::new(3).expect("three digits")))
    }

    /// Puts, reserves and acks one message after the other.
    async fn measure(&mut self, stage: &Stage, time: Duration) -> io::Result<()> {
        let mut connection = Connection::open(&stage.gateway.address, QUIET).await?;
        let (mut ticks, until) = (interval(EVERY), Instant::now() + time);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let put = json!({ "payload": "x".repeat(200) }).to_string();
        let reserve = json!({ "topics": ["own"], "wait": "1s", "lease": "1m" }).to_string();
        while Instant::now() < until {
            ticks.tick().await;
            self.timed(0, &mut connection, "POST /v1/topics/own/messages", &put).await?;
            let taken = self.timed(1, &mut connection, "POST /v1/reserve", &reserve).await?;
            let receipt = &taken["messages"][0]["receipt"];
            let ack = json!([{ "receipt": receipt, "do": "ack" }]).to_string();
            self.timed(2, &mut connection, "POST /v1/settle", &ack).await?;
        }
        Ok(())
    }

    async fn timed(
        &mut self,
        kind: usize,
        connection: &mut Connection,
        line: &str,
        body: &str,
    ) -> io::Result<Value> {
        let began = Instant::now();
        let answer = connection.json(line, body).await?;
        let micros = began.elapsed().as_micros() as u64;
        self.0[kind].record(micros).expect("the histogram grows");
        assert!(answer.status < 300, "{line}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        serde_json::from_slice(&answer.body).map_err(io::Error::other)
    }

    fn p99_ms(&self, kind: usize) -> f64 {
        self.0[kind].value_at_quantile(0.99) as f64 / 1000.0
    }

    fn cells(&self, quiet: Option<&Self>) -> String {
        let cell = |kind| {
            let ratio = quiet.map(|quiet| format!(" ({:.1} ×)", self.p99_ms(kind) / quiet.p99_ms(kind)));
            format!("{:.2} ms{}", self.p99_ms(kind), ratio.unwrap_or_default())
        };
        (0..KINDS.len()).map(cell).collect::<Vec<_>>().join(" | ")
    }
}
