//! How much the gateway takes and hands out, beside a Rust producer and, if its program is given, lmstfy.

use crate::lmstfy::Lmstfy;
use crate::stage::{PAGE, Stage};
use crate::wire::Connection;
use delayq::{Message, Producer, Topic};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

const CALLERS: usize = 64;
/// Callers with lines, or with batches.
const BATCHERS: usize = 4;
const LINES: usize = 500;
const TOPIC: &str = "rates";
const CONSUMED: &str = "consumed";

/// What was done, and the processor time of the server for one.
#[derive(Clone, Copy)]
struct Rate {
    a_second: f64,
    cpu_us: f64,
}

/// A work, and the rates of its runs.
struct Row {
    work: &'static str,
    rates: Vec<Rate>,
}

/// A turn of all works in each run, so that the machine's moods meet all of them.
pub(crate) async fn print(seconds: u64, runs: usize, lmstfy: Option<&Path>) -> io::Result<()> {
    let time = Duration::from_secs(seconds);
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..runs {
        let stage = Stage::start().await;
        let producer = stage.producer();
        let mut noted = |work: &'static str, rate: Rate| match rows.iter_mut().find(|row| row.work == work) {
            Some(row) => row.rates.push(rate),
            None => rows.push(Row { work, rates: vec![rate] }),
        };
        let own = std::process::id();
        noted("put, Rust producer, 64 callers", measured(own, time, |of| puts_of(&producer, of)).await?);
        let gateway = stage.gateway.id();
        noted("put, JSON, 64 connections", measured(gateway, time, |of| puts(&stage, of)).await?);
        noted(
            "put, Rust producer, 4 batches of 500",
            measured(own, time, |of| batches(&producer, of)).await?,
        );
        noted(
            "put, NDJSON, 4 connections, 500 lines",
            measured(gateway, time, |of| lines(&stage, of)).await?,
        );
        seed(&producer, time).await?;
        noted("reserve and ack, 64 connections", measured(gateway, time, |of| consumes(&stage, of)).await?);
        if let Some(program) = lmstfy {
            let lmstfy = Lmstfy::start(program).await;
            let id = lmstfy.id();
            noted("put, lmstfy, 64 connections", measured(id, time, |of| lmstfy.puts(of)).await?);
            noted(
                "consume and ack, lmstfy, 64 connections",
                measured(id, time, |of| lmstfy.consumes(of)).await?,
            );
        }
    }
    println!("| work | a second, median | lowest to highest | CPU of the server, each |");
    println!("| --- | ---: | ---: | ---: |");
    rows.iter_mut().for_each(|row| println!("{}", row.line()));
    Ok(())
}

/// A work of many callers, until its time is up.
#[derive(Clone)]
pub(crate) struct Course {
    done: Arc<AtomicU64>,
    until: Instant,
}

async fn measured<F: Future<Output = io::Result<()>>>(
    process: u32,
    time: Duration,
    work: impl FnOnce(Course) -> F,
) -> io::Result<Rate> {
    let course = Course { done: Arc::default(), until: Instant::now() + time };
    let (began, worked) = (Instant::now(), cpu(process)?);
    work(course.clone()).await?;
    let (took, worked) = (began.elapsed(), cpu(process)?.saturating_sub(worked));
    let done = course.done.load(Ordering::Relaxed) as f64;
    Ok(Rate { a_second: done / took.as_secs_f64(), cpu_us: worked.as_secs_f64() * 1e6 / done })
}

// === impl Course ===

impl Course {
    pub(crate) fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    pub(crate) fn did(&self, count: usize) {
        self.done.fetch_add(count as u64, Ordering::Relaxed);
    }
}

// === impl Row ===

impl Row {
    fn line(&mut self) -> String {
        self.rates.sort_by(|one, other| one.a_second.total_cmp(&other.a_second));
        let (first, last) = (self.rates[0], self.rates[self.rates.len() - 1]);
        let mut times: Vec<f64> = self.rates.iter().map(|rate| rate.cpu_us).collect();
        times.sort_by(f64::total_cmp);
        let (median, cpu) = (self.rates[self.rates.len() / 2], times[times.len() / 2]);
        let range = format!("{:.0} to {:.0}", first.a_second, last.a_second);
        format!("| {} | {:.0} | {range} | {cpu:.1} µs |", self.work, median.a_second)
    }
}

/// Processor time of a process so far.
pub(crate) fn cpu(process: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = behind.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    // The kernel counts in hundredths of a second.
    Ok(Duration::from_millis(10 * ticks.sum::<u64>()))
}

fn message(caller: usize, turn: usize) -> Message {
    let message = Message::new(Topic::new(TOPIC).expect("a name"), "x".repeat(200));
    let message = message.after(Duration::from_hours(1));
    message.id(format!("{caller}-{turn}-{}", fastrand::u32(..))).expect("a name")
}

async fn puts_of(producer: &Producer, course: Course) -> io::Result<()> {
    let caller = async |caller: usize| {
        for turn in 0.. {
            if !course.goes_on() {
                break;
            }
            producer.put(message(caller, turn)).await.map_err(io::Error::other)?;
            course.did(1);
        }
        Ok(())
    };
    all(CALLERS, caller).await
}

async fn batches(producer: &Producer, course: Course) -> io::Result<()> {
    let caller = async |caller: usize| {
        for turn in 0.. {
            if !course.goes_on() {
                break;
            }
            let messages = (0..LINES).map(|n| message(caller, turn * LINES + n)).collect();
            for put in producer.put_many(messages).await {
                put.map_err(io::Error::other)?;
            }
            course.did(LINES);
        }
        Ok(())
    };
    all(BATCHERS, caller).await
}

async fn puts(stage: &Stage, course: Course) -> io::Result<()> {
    let body = json!({ "due": "+1h", "payload": "x".repeat(200) }).to_string();
    let caller = async |caller: usize| {
        let mut connection = Connection::open(&stage.gateway.address, PAGE).await?;
        for turn in 0_u64.. {
            if !course.goes_on() {
                break;
            }
            let id = format!("{caller}-{turn}-{}", fastrand::u32(..));
            let answer = connection.json(&format!("PUT /v1/topics/{TOPIC}/messages/{id}"), &body).await?;
            assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
            course.did(1);
        }
        Ok(())
    };
    all(CALLERS, caller).await
}

async fn lines(stage: &Stage, course: Course) -> io::Result<()> {
    let caller = async |caller: usize| {
        let mut connection = Connection::open(&stage.gateway.address, PAGE).await?;
        while course.goes_on() {
            let body = crate::flood::lines(caller, fastrand::u64(..), LINES, "+1h");
            let answer = connection.lines("POST /v1/messages", &body).await?;
            let end = format!("\"stored\":{LINES}}}");
            assert!(String::from_utf8_lossy(&answer.body).contains(&end), "{}", answer.status);
            course.did(LINES);
        }
        Ok(())
    };
    all(BATCHERS, caller).await
}

/// Makes messages ready, more than the callers take in this time.
async fn seed(producer: &Producer, time: Duration) -> io::Result<()> {
    for batch in 0..time.as_secs().max(1) * 100 {
        let messages = (0..LINES).map(|n| {
            let topic = Topic::new(CONSUMED).expect("a name");
            Message::new(topic, "x".repeat(200)).id(format!("{batch}-{n}")).expect("a name")
        });
        for put in producer.put_many(messages.collect()).await {
            put.map_err(io::Error::other)?;
        }
    }
    Ok(())
}

async fn consumes(stage: &Stage, course: Course) -> io::Result<()> {
    let caller = async |_| {
        let mut connection = Connection::open(&stage.gateway.address, PAGE).await?;
        let reserve = json!({ "topics": [CONSUMED], "wait": "1s", "lease": "1m" }).to_string();
        while course.goes_on() {
            let taken = connection.json("POST /v1/reserve", &reserve).await?;
            let taken: Value = serde_json::from_slice(&taken.body).map_err(io::Error::other)?;
            let receipt = taken["messages"][0]["receipt"].as_str();
            let receipt = receipt.ok_or_else(|| io::Error::other("the callers took all that was ready"))?;
            let settled = connection.json(&format!("PUT /v1/leases/{receipt}/ack"), "{}").await?;
            assert_eq!(settled.status, 200, "{}", String::from_utf8_lossy(&settled.body));
            course.did(1);
        }
        Ok(())
    };
    all(CALLERS, caller).await
}

/// Callers side by side.
pub(crate) async fn all(count: usize, caller: impl AsyncFn(usize) -> io::Result<()>) -> io::Result<()> {
    try_join_all((0..count).map(|number| caller(number))).await.map(drop)
}
