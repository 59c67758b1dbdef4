//! Every key of a shard, parsed.

use delayq_core::Envelope;
use redis::Value;
use std::collections::BTreeMap;

/// A message's topic number and raw id.
pub(crate) type Name = (u32, Vec<u8>);

/// A whole shard at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Stored bytes of every message and marker.
    pub(crate) bodies: BTreeMap<Name, Vec<u8>>,
    /// Entries of buckets: topic number, hour, id‖gen, due.
    pub(crate) buckets: Vec<(u32, u64, Vec<u8>, u64)>,
    /// Entries of ready queues by topic number, in their order.
    pub(crate) ready: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Dead letters: topic number, id‖gen, time of death.
    pub(crate) dead: Vec<(u32, Vec<u8>, u64)>,
    /// Groups: group, `no:id`, due.
    pub(crate) groups: Vec<(String, Vec<u8>, u64)>,
    /// The indexes `leases`, `expiries`, `markers`, `alarms`.
    pub(crate) indexes: BTreeMap<String, BTreeMap<Vec<u8>, u64>>,
    /// The hashes `meta`, `stats`, `t:<no>`, `shift:<group>`.
    pub(crate) hashes: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// What was published.
    pub(crate) said: Vec<String>,
    /// Keys that a shard does not have.
    pub(crate) strangers: Vec<String>,
}

// === impl Snapshot ===

impl Snapshot {
    pub(crate) fn read(dump: Value) -> Self {
        let mut snapshot = Self::default();
        let Value::Array(keys) = dump else { panic!("a dump is an array, not {dump:?}") };
        for key in keys {
            let Value::Array(parts) = key else { panic!("a key is an array") };
            let [name, kind, Value::Array(held)] = parts.as_slice() else { panic!("three parts a key") };
            let held: Vec<Vec<u8>> = held.iter().map(bytes).collect();
            snapshot.take(&bytes(name), &String::from_utf8(bytes(kind)).unwrap(), held);
        }
        snapshot
    }

    fn take(&mut self, name: &[u8], kind: &str, held: Vec<Vec<u8>>) {
        let text = String::from_utf8_lossy(name).into_owned();
        let (head, tail) = text.split_once(':').unwrap_or((&text, ""));
        match (head, kind) {
            ("clock", _) => {}
            ("said", "list") => self.said = held.iter().map(|line| lossy(line)).collect(),
            ("m", "string") => {
                let name = parse_name(&name[2..]).expect("a body's key has a topic number");
                self.bodies.insert(name, held.into_iter().next().unwrap_or_default());
            }
            ("b", "zset") => {
                let (no, hour) = tail.split_once(':').expect("a bucket has a topic number and an hour");
                let (no, hour) = (no.parse().unwrap(), hour.parse().unwrap());
                self.buckets.extend(scored(held).map(|(member, due)| (no, hour, member, due)));
            }
            ("r", "list") => {
                self.ready.insert(tail.parse().unwrap(), held);
            }
            ("d", "zset") => {
                let no = tail.parse().unwrap();
                self.dead.extend(scored(held).map(|(member, at)| (no, member, at)));
            }
            ("g", "zset") => {
                self.groups.extend(scored(held).map(|(member, due)| (tail.to_owned(), member, due)));
            }
            ("leases" | "expiries" | "markers" | "alarms", "zset") => {
                self.indexes.insert(text, scored(held).collect());
            }
            ("meta" | "stats" | "t" | "shift", "hash") => {
                let pairs = held.chunks(2).map(|pair| (lossy(&pair[0]), pair[1].clone())).collect();
                self.hashes.insert(text, pairs);
            }
            _ => self.strangers.push(format!("{text} ({kind})")),
        }
    }

    /// One of the four indexes; empty where the key is not there.
    pub(crate) fn index(&self, name: &str) -> &BTreeMap<Vec<u8>, u64> {
        static NOTHING: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        self.indexes.get(name).unwrap_or(&NOTHING)
    }

    /// A field of a hash, as a number; 0 where it is not there.
    pub(crate) fn number(&self, hash: &str, field: &str) -> i64 {
        let value = self.hashes.get(hash).and_then(|fields| fields.get(field));
        value.map_or(0, |value| lossy(value).parse().unwrap())
    }

    /// A message as it is stored.
    pub(crate) fn envelope(&self, name: &Name) -> Option<Envelope> {
        self.bodies.get(name).map(|bytes| Envelope::decode(bytes).unwrap_or_else(|e| panic!("{name:?}: {e}")))
    }

    /// Whether a bucket has this id‖gen.
    pub(crate) fn in_bucket(&self, no: u32, member: &[u8]) -> bool {
        self.buckets.iter().any(|(n, _, m, _)| *n == no && m == member)
    }

    /// What is left of a shard that was drained, and is too much: everything but the registry.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut left = self.strangers.clone();
        left.extend(self.bodies.keys().map(|(no, id)| format!("m:{no}:{}", lossy(id))));
        left.extend(self.buckets.iter().map(|(no, hour, ..)| format!("b:{no}:{hour}")));
        left.extend(self.ready.keys().map(|no| format!("r:{no}")));
        left.extend(self.dead.iter().map(|(no, ..)| format!("d:{no}")));
        left.extend(self.groups.iter().map(|(group, ..)| format!("g:{group}")));
        left.extend(self.indexes.keys().cloned());
        left.extend(self.hashes.keys().filter(|name| name.starts_with("shift:")).cloned());
        left
    }
}

/// `no:id` as indexes and keys write it.
pub(crate) fn parse_name(text: &[u8]) -> Option<Name> {
    let colon = text.iter().position(|&byte| byte == b':')?;
    Some((lossy(&text[..colon]).parse().ok()?, text[colon + 1..].to_vec()))
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scored(held: Vec<Vec<u8>>) -> impl Iterator<Item = (Vec<u8>, u64)> {
    let mut items = held.into_iter();
    std::iter::from_fn(move || {
        let member = items.next()?;
        let score = lossy(&items.next()?);
        Some((member, score.parse::<f64>().unwrap_or_else(|_| panic!("score {score}")) as u64))
    })
}

fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes.clone(),
        Value::SimpleString(text) => text.clone().into_bytes(),
        Value::Int(number) => number.to_string().into_bytes(),
        other => panic!("bytes, not {other:?}"),
    }
}
