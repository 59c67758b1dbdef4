//! A tenant that sends as much as the gateway takes, from a process of its own.

use crate::stage::NOISY;
use crate::wire::{Answer, Connection};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LINES: usize = 1_000;
const LARGE: usize = 200 * 1024;
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FloodKind {
    /// Single puts.
    Put,
    /// Single puts beyond a quota.
    LimitedPut,
    /// 1,000 lines a request.
    Lines,
    /// 1,000 lines a request, beyond a quota.
    LimitedLines,
    /// Reserves of 100 messages, and their acks.
    Consume,
    /// Single puts of 200 KiB.
    Large,
    /// Bodies that are no JSON.
    Refused,
}

/// The process of a flood, which ends with this value.
pub(crate) struct Flood(Child);

#[derive(Default)]
struct Sent {
    done: AtomicU64,
    refused: AtomicU64,
}

// === impl FloodKind ===

impl FloodKind {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Put => "single puts",
            Self::LimitedPut => "single puts, quota of 500 a second",
            Self::Lines => "1,000 lines a request",
            Self::LimitedLines => "1,000 lines a request, quota of 500 a second",
            Self::Consume => "reserves of 100, acks",
            Self::Large => "puts of 200 KiB",
            Self::Refused => "bodies that are no JSON",
        }
    }

    /// The puts a second that the tenant may take; `None`: as many as it can.
    pub(crate) const fn quota(self) -> Option<u64> {
        match self {
            Self::LimitedPut | Self::LimitedLines => Some(500),
            Self::Put | Self::Lines | Self::Consume | Self::Large | Self::Refused => None,
        }
    }
}

// === impl Flood ===

impl Flood {
    /// At the lowest priority: the flood comes from other machines, and must not take the processor from what is measured.
    pub(crate) fn start(address: &str, kind: FloodKind, connections: usize) -> Self {
        let own = std::env::current_exe().expect("a running program has a path");
        let kind = kind.to_possible_value().expect("no kind is skipped").get_name().to_owned();
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(own).args(["flood", address, &kind, &connections.to_string()]);
        Self(command.stdout(Stdio::inherit()).spawn().expect("nice is a program of every system"))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Floods until the process is killed.
pub(crate) async fn run(address: &str, kind: FloodKind, connections: usize) {
    let sent = Arc::new(Sent::default());
    for number in 0..connections {
        let (address, sent) = (address.to_owned(), Arc::clone(&sent));
        tokio::spawn(async move {
            loop {
                let _ = connection(&address, kind, number, &sent).await;
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let taken = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        eprintln!("  flood: {}/s done, {}/s refused", taken(&sent.done), taken(&sent.refused));
    }
}

async fn connection(address: &str, kind: FloodKind, number: usize, sent: &Sent) -> io::Result<()> {
    let mut connection = Connection::open(address, NOISY).await?;
    let (payload, large) = ("x".repeat(200), "x".repeat(LARGE));
    for turn in 0_u64.. {
        let path = format!("PUT /v1/topics/flood/messages/{number}-{turn}");
        let answer = match kind {
            FloodKind::Put | FloodKind::LimitedPut => {
                let body = json!({ "due": "+1h", "payload": payload }).to_string();
                connection.json(&path, &body).await?
            }
            FloodKind::Large => {
                let body = json!({ "due": "+1h", "payload": large }).to_string();
                connection.json(&path, &body).await?
            }
            FloodKind::Refused => connection.json(&path, &payload).await?,
            FloodKind::Lines | FloodKind::LimitedLines => {
                connection.lines("POST /v1/messages", &lines(number, turn, LINES, "+1h")).await?
            }
            FloodKind::Consume => consume(&mut connection, number, turn).await?,
        };
        let count = if answer.status < 400 { &sent.done } else { &sent.refused };
        count.fetch_add(1, Ordering::Relaxed);
        if answer.status == 429 {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

pub(crate) fn lines(number: usize, turn: u64, count: usize, due: &str) -> String {
    let payload = "x".repeat(100);
    let line = |n: usize| {
        let id = format!("{number}-{turn}-{n}");
        format!("{}\n", json!({ "topic": "flood", "id": id, "due": due, "payload": payload }))
    };
    (0..count).map(line).collect()
}

/// Acks what was reserved, or puts more.
async fn consume(connection: &mut Connection, number: usize, turn: u64) -> io::Result<Answer> {
    let body = json!({ "topics": ["flood"], "max": 100, "lease": "1m" }).to_string();
    let taken = connection.json("POST /v1/reserve", &body).await?;
    let value: Value = serde_json::from_slice(&taken.body).unwrap_or_default();
    let messages = value["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if taken.status >= 400 {
        return Ok(taken);
    }
    if messages.is_empty() {
        return connection.lines("POST /v1/messages", &lines(number, turn, 200, "now")).await;
    }
    let acks: Vec<Value> =
        messages.iter().map(|message| json!({ "receipt": message["receipt"], "do": "ack" })).collect();
    connection.json("POST /v1/settle", &Value::Array(acks).to_string()).await
}
