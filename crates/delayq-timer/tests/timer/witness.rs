//! The independent reader: ready messages and pumps, from Redis alone and without any of delayq's code.

use crate::stand::Stand;
use delayq::protocol::{Scripts, Verb};
use delayq_tests::history::{Event, sha256_hex};
use delayq_tests::redis_monitor::{RedisMonitor, Seen};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Witness {
    monitor: RedisMonitor,
    pumps: [String; 2],
}

struct Call {
    shard: u32,
    /// `None` for a pump without an epoch, of a shard without an owner's pumps.
    epoch: Option<u64>,
    fenced: bool,
    moved: u64,
}

struct Stored {
    delivery: u32,
    payload: Vec<u8>,
}

// === impl Witness ===

impl Witness {
    pub(crate) async fn start(stand: &Stand) -> Self {
        // The names only, which tell a pump from other calls.
        let pumps = [Scripts::published(), another_text()].map(|scripts| scripts.get(Verb::Pump).sha.clone());
        Self { monitor: RedisMonitor::start(&stand.server).await, pumps }
    }

    pub(crate) async fn pumps(&self, stand: &Stand) -> Vec<Event> {
        pumps(&self.monitor.seen(&stand.server).await, &self.pumps)
    }

    /// The shards pumped without an epoch so far, by timers other than the owner.
    pub(crate) async fn checked(&self, stand: &Stand) -> BTreeSet<u32> {
        let seen = self.monitor.seen(&stand.server).await;
        let calls = seen.iter().filter(|seen| is_pump(seen, &self.pumps));
        let calls = calls.filter_map(|seen| Call::read(seen, &BTreeMap::new()));
        calls.filter(|call| call.epoch.is_none()).map(|call| call.shard).collect()
    }
}

/// The scripts of another version: the same behaviour under other names.
pub(crate) fn another_text() -> Scripts {
    Scripts::swapped(&|name, text| (!name.starts_with("lib/")).then(|| format!("{text}-- another version\n")))
}

/// Everything in the ready queues, as deliveries to the destination `ready`.
pub(crate) async fn deliveries(stand: &Stand) -> Vec<Event> {
    let mut deliveries = Vec::new();
    for shard in 0..stand.shards {
        let key = format!("{{dq:{shard}}}:r:1");
        let entries: Vec<Vec<u8>> = stand.server.command(&["LRANGE", &key, "0", "-1"]).await;
        for some in entries.chunks(500) {
            deliveries.extend(delivered(stand, shard, some).await);
        }
    }
    deliveries
}

async fn delivered(stand: &Stand, shard: u16, entries: &[Vec<u8>]) -> Vec<Event> {
    let entries: Vec<(String, u64)> = entries.iter().map(|entry| entry_parts(entry)).collect();
    let keys: Vec<String> = entries.iter().map(|(id, _)| format!("{{dq:{shard}}}:m:1:{id}")).collect();
    let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let stored: Vec<Option<Vec<u8>>> = stand.server.command(&words).await;
    let delivery = |((id, ready_us), stored): ((String, u64), Option<Vec<u8>>)| {
        let stored = stored.unwrap_or_else(|| panic!("{id} is ready and has no envelope"));
        let Stored { delivery, payload } = open(&stored);
        let sha256 = sha256_hex(&payload);
        Event::Delivery { destination: "ready".to_owned(), id, sha256, delivery, ready_ms: ready_us / 1000 }
    };
    entries.into_iter().zip(stored).map(delivery).collect()
}

/// An entry of a ready queue: id, gen (4 bytes), ready time (7 bytes, µs).
fn entry_parts(entry: &[u8]) -> (String, u64) {
    let (id, stamp) = entry.split_at(entry.len() - 11);
    let ready_us = stamp[4..].iter().fold(0_u64, |us, &byte| us << 8 | u64::from(byte));
    (String::from_utf8(id.to_vec()).unwrap(), ready_us)
}

fn open(envelope: &[u8]) -> Stored {
    let number = |at: usize, bytes: usize| {
        envelope[at..at + bytes].iter().fold(0_usize, |number, &byte| number << 8 | usize::from(byte))
    };
    let flags = number(2, 2);
    let mut at = 32;
    for (flag, fixed, length_bytes) in [(1, 8, 0), (2, 8, 0), (4, 0, 1), (8, 0, 1), (16, 0, 2)] {
        if flags & flag != 0 {
            at += fixed + if length_bytes == 0 { 0 } else { length_bytes + number(at, length_bytes) };
        }
    }
    Stored { delivery: u32::try_from(number(24, 4)).unwrap(), payload: envelope[at..].to_vec() }
}

/// The pumps among the commands of a Redis. The newest epoch comes from the claims seen.
fn pumps(seen: &[Seen], names: &[String]) -> Vec<Event> {
    let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
    let mut pumps = Vec::new();
    let mut open: Option<Call> = None;
    for seen in seen {
        if !seen.in_script {
            pumps.extend(open.take().and_then(Call::event));
            if is_pump(seen, names) {
                open = Call::read(seen, &newest);
            }
            continue;
        }
        let Some(shard) = seen.text(0).and_then(shard_of) else { continue };
        match (seen.name.as_str(), seen.text(1)) {
            ("rpush", _) => open.iter_mut().for_each(|call| call.moved += seen.args.len() as u64 - 1),
            ("hincrby", Some("epoch")) => *newest.entry(shard).or_default() += 1,
            ("hset", Some("epoch")) => {
                newest.insert(shard, seen.text(2).and_then(|epoch| epoch.parse().ok()).unwrap());
            }
            _ => {}
        }
    }
    pumps.extend(open.and_then(Call::event));
    pumps
}

fn is_pump(seen: &Seen, names: &[String]) -> bool {
    !seen.in_script && seen.name == "evalsha" && names.iter().any(|name| seen.text(0) == Some(name))
}

fn shard_of(key: &str) -> Option<u32> {
    key.strip_prefix("{dq:")?.split_once('}')?.0.parse().ok()
}

// === impl Call ===

impl Call {
    /// `EVALSHA <sha> 2 {dq:7}:meta {dq:7}:never <layout> <epoch> <limit> …`
    fn read(seen: &Seen, newest: &BTreeMap<u32, u64>) -> Option<Self> {
        let shard = shard_of(seen.text(2)?)?;
        let epoch = seen.text(5)?.parse().ok();
        let known = newest.get(&shard).copied().unwrap_or(0);
        Some(Self { shard, epoch, fenced: epoch.is_some_and(|epoch| epoch < known), moved: 0 })
    }

    fn event(self) -> Option<Event> {
        let Self { shard, epoch, fenced, moved } = self;
        Some(Event::Pump { shard, epoch: epoch?, fenced, moved })
    }
}
