//! Waiting reserves: what they take, how soon the first is woken, and how late a message is in the hand of a client.

use crate::rates::cpu;
use crate::stage::{PAGE, Stage};
use crate::wire::Connection;
use delayq::{Consumer, ConsumerOptions, Message, Topic, UnixMillis};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// Reserves whose memory is not measured: what the first ones take is taken once.
const FIRST: usize = 200;
const SETTLE: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(5);
const WAKES: usize = 20;
/// Of the messages whose lateness is measured.
const EVERY: Duration = Duration::from_millis(1);
const CLIENTS: usize = 32;

pub(crate) async fn print(polls: usize, seconds: u64) -> io::Result<()> {
    idle(polls).await?;
    println!("| due → | p50 | p99 | latest |\n| --- | ---: | ---: | ---: |");
    let stage = Stage::start().await;
    println!("{}", row("in the hand of a worker in the process", &worker(&stage, seconds).await?));
    println!("{}", row("body on a waiting long poll", &clients(&stage, seconds).await?));
    Ok(())
}

fn row(what: &str, late: &Histogram<u64>) -> String {
    let ms = |micros: u64| micros as f64 / 1000.0;
    let at = |quantile| ms(late.value_at_quantile(quantile));
    format!("| {what} | {:.2} ms | {:.2} ms | {:.2} ms |", at(0.5), at(0.99), ms(late.max()))
}

async fn idle(polls: usize) -> io::Result<()> {
    let stage = Stage::start().await;
    let (woken, mut wakes) = mpsc::unbounded_channel();
    for _ in 0..FIRST {
        wait(&stage, woken.clone()).await?;
    }
    sleep(SETTLE).await;
    let before = stage.gateway.resident_kib();
    for _ in FIRST..polls {
        wait(&stage, woken.clone()).await?;
    }
    sleep(SETTLE).await;
    let each = (stage.gateway.resident_kib() - before) as f64 / (polls - FIRST) as f64;
    let worked = cpu(stage.gateway.id())?;
    sleep(IDLE).await;
    let share = (cpu(stage.gateway.id())? - worked).as_secs_f64() / IDLE.as_secs_f64();
    let producer = stage.producer();
    let mut wake = Histogram::<u64>::new(3).expect("three digits");
    for _ in 0..WAKES {
        let began = Instant::now();
        let message = Message::new(Topic::new("idle").expect("a name"), "x");
        producer.put(message).await.map_err(io::Error::other)?;
        let at: Instant = wakes.recv().await.expect("clients wait");
        wake.record((at - began).as_micros() as u64).expect("the histogram grows");
    }
    println!("{polls} waiting reserves: {each:.1} KiB each, {:.1} % of a core", 100.0 * share);
    println!("{}\n", row("from a put to the first client that is woken", &wake));
    Ok(())
}

/// A client that asks again once it has a message, and notes when.
async fn wait(stage: &Stage, woken: mpsc::UnboundedSender<Instant>) -> io::Result<()> {
    let mut connection = Connection::open(&stage.gateway.address, PAGE).await?;
    let reserve = json!({ "topics": ["idle"], "wait": "60s" }).to_string();
    connection.send("POST /v1/reserve", "application/json", &reserve).await?;
    tokio::spawn(async move {
        while let Ok(answer) = connection.answer().await {
            if answer.body.windows(9).any(|nine| nine == b"\"receipt\"") {
                let _ = woken.send(Instant::now());
            }
            if connection.send("POST /v1/reserve", "application/json", &reserve).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Puts what becomes due each millisecond, from a second on. Returns the number.
async fn fill(stage: &Stage, topic: &str, seconds: u64) -> io::Result<u64> {
    let count = seconds * 1000;
    let start = now_micros() / 1000 + 1000;
    let of = |n: u64| {
        let message = Message::new(Topic::new(topic).expect("a name"), "x".repeat(200));
        let due = UnixMillis::new(start + n * EVERY.as_millis() as u64);
        message.at(due).id(format!("late-{n}")).expect("a name")
    };
    let producer = stage.producer();
    for put in producer.put_many((0..count).map(of).collect()).await {
        put.map_err(io::Error::other)?;
    }
    Ok(count)
}

async fn worker(stage: &Stage, seconds: u64) -> io::Result<Histogram<u64>> {
    let count = fill(stage, "worked", seconds).await?;
    let mut options = ConsumerOptions::new([Topic::new("worked").expect("a name")]);
    options.concurrency = 1024;
    let mut consumer = Consumer::start(stage.client(), options).expect("the options are in their ranges");
    let mut late = Histogram::<u64>::new(3).expect("three digits");
    while late.len() < count {
        let Some(delivery) = consumer.next().await else { break };
        note(&mut late, delivery.due().get());
        delivery.ack_later();
    }
    Ok(late)
}

async fn clients(stage: &Stage, seconds: u64) -> io::Result<Histogram<u64>> {
    let count = fill(stage, "asked", seconds).await?;
    let (taken, mut takes) = mpsc::unbounded_channel();
    for _ in 0..CLIENTS {
        let (address, taken) = (stage.gateway.address.clone(), taken.clone());
        tokio::spawn(async move {
            let mut connection = Connection::open(&address, PAGE).await?;
            while let Some(took) = take(&mut connection).await? {
                for took in took {
                    taken.send(took).map_err(io::Error::other)?;
                }
            }
            Ok::<_, io::Error>(())
        });
    }
    let mut late = Histogram::<u64>::new(3).expect("three digits");
    while late.len() < count {
        let Ok(Some((at, due_ms))) = timeout(Duration::from_secs(30), takes.recv()).await else { break };
        late.record(at.saturating_sub(due_ms * 1000)).expect("the histogram grows");
    }
    Ok(late)
}

/// Takes and settles what is ready; returns when the answer came, with the due time. `None`: the wait ended.
async fn take(connection: &mut Connection) -> io::Result<Option<Vec<(u64, u64)>>> {
    let reserve = json!({ "topics": ["asked"], "wait": "60s" }).to_string();
    let answer = connection.json("POST /v1/reserve", &reserve).await?;
    let at = now_micros();
    let value: Value = serde_json::from_slice(&answer.body).map_err(io::Error::other)?;
    let mut took = Vec::new();
    for message in value["messages"].as_array().into_iter().flatten() {
        took.push((at, message["due_ms"].as_u64().unwrap_or_default()));
        let receipt = message["receipt"].as_str().unwrap_or_default();
        connection.json(&format!("PUT /v1/leases/{receipt}/ack"), "{}").await?;
    }
    Ok(Some(took).filter(|took| !took.is_empty()))
}

fn note(late: &mut Histogram<u64>, due_ms: u64) {
    late.record(now_micros().saturating_sub(due_ms * 1000)).expect("the histogram grows");
}

#[allow(clippy::disallowed_methods, reason = "Redis runs on this host, by the same clock")]
fn now_micros() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("the clock is past 1970").as_micros() as u64
}
