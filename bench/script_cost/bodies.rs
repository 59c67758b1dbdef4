//! Measures calls of a hundred messages of 256 KiB: the time inside Redis, and the longest wait of a PING meanwhile.

use crate::ids::own;
use crate::scripts::{BATCH, Shard, of_topic, receipts, text, words};
use crate::server::{HOUR_MS, envelope};
use delayq::protocol::{ContentHash, Envelope, Verb};
use delayq::{Group, Target};
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BODY_BYTES: usize = 256 * 1024;
/// As many bytes as a client puts in one call.
const BODIES_A_PUT: usize = 4;
const ROUNDS: usize = 10;
const GROUP: &str = "user-5";
const LONGEST_CALL: Duration = Duration::from_millis(20);
const LONGEST_PING: Duration = Duration::from_millis(5);

#[derive(Clone, Copy)]
enum Found {
    Delayed,
    /// Due, and still in their bucket.
    Due,
    Ready,
    Leased,
    /// Leased for a millisecond, which is over, at their last attempt.
    RanOut,
    Dead,
}

struct Batch {
    ids: Vec<Vec<u8>>,
    receipts: Vec<Vec<u8>>,
    due_ms: u64,
    epoch: i64,
}

/// A row of the table: its name, the script, the state of the messages, and the arguments.
type Row = (&'static str, Verb, Found, fn(&Batch) -> Vec<Vec<u8>>);

const ROWS: [Row; 26] = [
    ("pump", Verb::Pump, Found::Due, |batch| vec![text(batch.epoch), text(500)]),
    ("pump, leases that ran out", Verb::Pump, Found::RanOut, |batch| vec![text(batch.epoch), text(500)]),
    ("reserve, 1 MiB", Verb::Reserve, Found::Ready, |_| words(["100", "1048576", "", "orders"])),
    ("extend", Verb::Extend, Found::Leased, |batch| each(&batch.receipts, &["90000"])),
    ("ack", Verb::Ack, Found::Leased, |batch| batch.receipts.clone()),
    ("release, ready", Verb::Release, Found::Leased, |batch| each(&batch.receipts, &["0", "keep", ""])),
    ("release, delayed", Verb::Release, Found::Leased, |batch| each(&batch.receipts, &["", "", "busy"])),
    ("bury", Verb::Bury, Found::Leased, |batch| each(&batch.receipts, &["no such order"])),
    ("replay", Verb::Replay, Found::Dead, |batch| {
        [words(["orders", "0"]).to_vec(), batch.ids.clone()].concat()
    }),
    ("cancel", Verb::Cancel, Found::Delayed, |batch| of_topic(&batch.ids)),
    ("cancel, ready", Verb::Cancel, Found::Ready, |batch| of_topic(&batch.ids)),
    ("cancel, leased", Verb::Cancel, Found::Leased, |batch| of_topic(&batch.ids)),
    ("cancel_group", Verb::CancelGroup, Found::Delayed, |_| words([GROUP, "", "0", "", "500"])),
    ("reschedule, later", Verb::Reschedule, Found::Delayed, |batch| {
        of_topic(&each(&batch.ids, &[&(batch.due_ms + HOUR_MS).to_string(), ""]))
    }),
    ("reschedule, now", Verb::Reschedule, Found::Delayed, |batch| of_topic(&each(&batch.ids, &["+0", ""]))),
    ("shift_group", Verb::ShiftGroup, Found::Delayed, |_| words([GROUP, "", "token", "60000", "500"])),
    ("get", Verb::Peek, Found::Delayed, |batch| of_topic(&batch.ids[..1])),
    ("peek", Verb::Peek, Found::Ready, |batch| of_topic(&batch.ids)),
    ("list, delayed", Verb::List, Found::Delayed, |batch| list(batch, "delayed")),
    ("list, ready", Verb::List, Found::Ready, |batch| list(batch, "ready")),
    ("list, leased", Verb::List, Found::Leased, |batch| list(batch, "leased")),
    ("list, dead", Verb::List, Found::Dead, |batch| list(batch, "dead")),
    ("list_group", Verb::ListGroup, Found::Delayed, |_| words([GROUP, "0", "", "100"])),
    ("audit", Verb::Audit, Found::Ready, |batch| {
        batch.ids.iter().map(|id| [b"m:1:", id.as_slice()].concat()).collect()
    }),
    ("purge, ready", Verb::Purge, Found::Ready, |_| words(["orders", "ready", "0", "0", "", "500"])),
    ("purge, dead", Verb::Purge, Found::Dead, |_| {
        words(["orders", "dead", "0", "9007199254740991", "", "500"])
    }),
];

/// Sends PINGs without a pause, and keeps the longest wait.
struct Pings(Arc<AtomicU64>);

// === impl Pings ===

impl Pings {
    fn start(mut connection: MultiplexedConnection) -> Self {
        let longest = Arc::new(AtomicU64::new(0));
        let noted = Arc::clone(&longest);
        tokio::spawn(async move {
            loop {
                let asked = Instant::now();
                let answer: Result<String, _> = redis::cmd("PING").query_async(&mut connection).await;
                if answer.is_err() {
                    break;
                }
                noted.fetch_max(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
        });
        Self(longest)
    }

    fn longest(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

// === impl Shard ===

impl Shard {
    /// Nothing else is in the shard.
    async fn batch(&mut self, state: Found) -> Batch {
        self.server.run(redis::cmd("FLUSHALL").arg("SYNC")).await;
        self.create().await;
        if let Found::RanOut = state {
            self.call(Verb::Configure, words(["orders", "max_attempts", "1"])).await;
        }
        let is_later = matches!(state, Found::Delayed);
        let due_ms = if is_later { self.server.due_ms(1, 0) } else { self.server.past_ms(0) };
        let target =
            |number| Target::in_group(own(number), Group::new(GROUP).expect("a plain name is a group's"));
        let ids: Vec<Vec<u8>> =
            (0..BATCH as u64).map(|number| target(number).stored().into_owned()).collect();
        self.hold("on").await;
        for ids in ids.chunks(BODIES_A_PUT) {
            let item = |id: &Vec<u8>| [id.clone(), text(due_ms), Vec::new(), large(id)];
            self.call(Verb::Put, of_topic(&ids.iter().flat_map(item).collect::<Vec<_>>())).await;
        }
        self.hold("off").await;
        let mut batch = Batch { ids, receipts: Vec::new(), due_ms, epoch: self.epoch };
        if !matches!(state, Found::Delayed | Found::Due) {
            self.call(Verb::Pump, [text(self.epoch), text(500)]).await;
        }
        if let Found::Leased | Found::RanOut | Found::Dead = state {
            let lease_ms = if let Found::RanOut = state { "1" } else { "60000" };
            let answer = self.call(Verb::Reserve, words(["100", "0", lease_ms, "orders"])).await;
            batch.receipts = receipts(&answer, BATCH);
        }
        match state {
            Found::RanOut => tokio::time::sleep(Duration::from_millis(5)).await,
            Found::Dead => {
                self.call(Verb::Bury, each(&batch.receipts, &["no such user, it seems"])).await;
            }
            _ => {}
        }
        batch
    }
}

pub(crate) async fn print() {
    let mut shard = Shard::created(Verb::ALL).await;
    let pings = Pings::start(shard.server.connect().await);
    println!(
        "\n1 shard, {BATCH} messages of {} KiB, own ids in one group, {ROUNDS} calls each:\n",
        BODY_BYTES / 1024
    );
    println!("| call | median, ms | longest, ms | longest PING, ms |");
    println!("| --- | ---: | ---: | ---: |");
    for (name, verb, state, args) in ROWS {
        let (mut calls, mut waits) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let batch = shard.batch(state).await;
            let call = shard.command(verb, args(&batch));
            pings.longest();
            let (spent, _) = shard.server.timed(std::slice::from_ref(&call)).await;
            waits.push(pings.longest());
            calls.push(spent);
        }
        calls.sort_by(f64::total_cmp);
        let longest = calls[ROUNDS - 1] / 1e3;
        let wait = waits.into_iter().max().unwrap_or(0) as f64 / 1e3;
        let late = crate::missed(longest, LONGEST_CALL.as_secs_f64() * 1e3);
        let slow = crate::missed(wait, LONGEST_PING.as_secs_f64() * 1e3);
        println!("| {name} | {:.1} | {longest:.1}{late} | {wait:.1}{slow} |", calls[ROUNDS / 2] / 1e3);
    }
    println!(
        "\nTargets: no call above {} ms, no PING above {} ms.",
        LONGEST_CALL.as_millis(),
        LONGEST_PING.as_millis()
    );
}

fn each(names: &[Vec<u8>], behind: &[&str]) -> Vec<Vec<u8>> {
    let words: Vec<Vec<u8>> = behind.iter().map(|word| word.as_bytes().to_vec()).collect();
    names.iter().flat_map(|name| [std::slice::from_ref(name), &words].concat()).collect()
}

fn list(batch: &Batch, state: &str) -> Vec<Vec<u8>> {
    let from = if state == "delayed" { batch.due_ms } else { 0 };
    words(["orders", state, &from.to_string(), "9007199254740991", "asc", "", "100"])
}

fn large(id: &[u8]) -> Vec<u8> {
    let group = Target::from_stored(id).group;
    Envelope { hash: Some(ContentHash([7; 8])), group, payload: vec![b'x'; BODY_BYTES], ..envelope() }
        .encode()
}
