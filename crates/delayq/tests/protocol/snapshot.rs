//! Every key of a shard, parsed.

use delayq::protocol::Envelope;
use std::collections::BTreeMap;

/// The mark of every stale entry that a test puts into a shard.
pub(crate) const POISON: &str = "POISON";

/// A message's topic number and raw id.
pub(crate) type Name = (u32, Vec<u8>);

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) keys: Vec<String>,
    /// Stored bytes of every message and marker.
    pub(crate) bodies: BTreeMap<Name, Vec<u8>>,
    /// Entries of buckets: topic number, hour, id‖gen, due.
    pub(crate) buckets: Vec<(u32, u64, Vec<u8>, u64)>,
    /// Entries of ready queues by topic number, in their order.
    pub(crate) ready: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Parked entries by topic number and group, in their order.
    pub(crate) parked: BTreeMap<(u32, String), Vec<Vec<u8>>>,
    /// Dead letters: topic number, id‖gen, time of death.
    pub(crate) dead: Vec<(u32, Vec<u8>, u64)>,
    /// Groups: group, `no:id`, due.
    pub(crate) groups: Vec<(String, Vec<u8>, u64)>,
    /// The indexes `leases`, `expiries`, `markers`, `ends`, `alarms`, and those of groups with a limit or a pause: `k:…`, `n:…`,
    /// `f:…`, `q:…`, `x:…`, `v:…`, `y:…`.
    pub(crate) indexes: BTreeMap<String, BTreeMap<Vec<u8>, u64>>,
    /// Receipts of markers, by the time at which the marker is forgotten.
    pub(crate) ends: BTreeMap<u64, Vec<Vec<u8>>>,
    pub(crate) hashes: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// Histories by topic number: raw id and text of each event, in order.
    pub(crate) histories: BTreeMap<u32, Vec<(Vec<u8>, String)>>,
    pub(crate) reasons: BTreeMap<Name, String>,
    pub(crate) said: Vec<String>,
    /// The key of each stale entry. Lists other than the ready queues hold no stale entries.
    pub(crate) poison: Vec<String>,
    pub(crate) strangers: Vec<String>,
}

// === impl Snapshot ===

impl Snapshot {
    pub(crate) fn read(mut dump: &[u8]) -> Self {
        let mut snapshot = Self::default();
        while !dump.is_empty() {
            let (name, kind) = (part(&mut dump), part(&mut dump));
            let count = number(&mut dump);
            let held = (0..count).map(|_| part(&mut dump).to_vec()).collect();
            snapshot.take(name, kind, held);
        }
        // Redis lists keys in a changing order; the entries of each key keep theirs.
        snapshot.keys.sort();
        snapshot.buckets.sort_by_key(|(no, hour, ..)| (*no, *hour));
        snapshot.dead.sort_by_key(|(no, ..)| *no);
        snapshot.groups.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        snapshot
    }

    fn take(&mut self, name: &[u8], kind: &[u8], held: Vec<Vec<u8>>) {
        let (text, kind) = (lossy(name), lossy(kind));
        let (head, tail) = text.split_once(':').unwrap_or((&text, ""));
        if text != "clock" {
            self.keys.push(text.clone());
        }
        match (head, kind.as_str()) {
            ("clock", _) => {}
            ("said", "list") => self.said = held.iter().map(|line| lossy(line)).collect(),
            ("m", "string") => {
                let name = parse_name(&name[2..]).expect("a body's key has a topic number");
                self.bodies.insert(name, held.into_iter().next().unwrap_or_default());
            }
            ("b", "zset") => {
                let (no, hour) = tail.split_once(':').expect("a bucket has a topic number and an hour");
                let (no, hour) = (no.parse().unwrap(), hour.parse().unwrap());
                let entries = self.healthy(&text, held);
                self.buckets.extend(entries.into_iter().map(|(member, due)| (no, hour, member, due)));
            }
            ("r", "list") => {
                self.ready.insert(tail.parse().unwrap(), held);
            }
            ("p", "list") => {
                let (no, group) =
                    tail.split_once(':').expect("a list of parked entries has a topic and a group");
                self.parked.insert((no.parse().unwrap(), group.to_owned()), held);
            }
            ("e", "list") => {
                self.ends.insert(tail.parse().unwrap(), held);
            }
            ("d", "zset") => {
                let no = tail.parse().unwrap();
                let entries = self.healthy(&text, held);
                self.dead.extend(entries.into_iter().map(|(member, at)| (no, member, at)));
            }
            ("g", "zset") => {
                let entries = self.healthy(&text, held);
                self.groups.extend(entries.into_iter().map(|(member, due)| (tail.to_owned(), member, due)));
            }
            (
                "leases" | "expiries" | "markers" | "ends" | "alarms" | "k" | "n" | "f" | "q" | "x" | "v"
                | "y",
                "zset",
            ) => {
                let entries = self.healthy(&text, held);
                self.indexes.insert(text, entries.into_iter().collect());
            }
            ("w", "hash") => {
                let no = tail.parse().unwrap();
                self.reasons.extend(held.chunks(2).map(|pair| ((no, pair[0].clone()), lossy(&pair[1]))));
            }
            ("h", "stream") => {
                let event = |event: &[Vec<u8>]| (event[1].clone(), lossy(&event[2]));
                self.histories.insert(tail.parse().unwrap(), held.chunks(3).map(event).collect());
            }
            ("meta" | "stats" | "dictionaries" | "gateway" | "operations" | "t" | "shift", "hash") => {
                let pairs = held.chunks(2).map(|pair| (lossy(&pair[0]), pair[1].clone())).collect();
                self.hashes.insert(text, pairs);
            }
            _ => self.strangers.push(format!("{text} ({kind})")),
        }
    }

    fn healthy(&mut self, key: &str, held: Vec<Vec<u8>>) -> Vec<(Vec<u8>, u64)> {
        let (poison, healthy): (Vec<_>, Vec<_>) = scored(held).partition(|(member, _)| is_poison(member));
        self.poison.extend(poison.iter().map(|_| key.to_owned()));
        healthy
    }

    /// The time at which a marker is forgotten, by the list that holds the marker.
    pub(crate) fn forgotten(&self, name: &Name) -> Option<u64> {
        let generation = self.bodies.get(name)?.get(4..8)?;
        let entry = [format!("{}:", name.0).as_bytes(), &name.1, generation].concat();
        self.ends.iter().find(|(_, list)| list.contains(&entry)).map(|(ms, _)| *ms)
    }

    pub(crate) fn index(&self, name: &str) -> &BTreeMap<Vec<u8>, u64> {
        static NOTHING: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        self.indexes.get(name).unwrap_or(&NOTHING)
    }

    pub(crate) fn number(&self, hash: &str, field: &str) -> i64 {
        let value = self.hashes.get(hash).and_then(|fields| fields.get(field));
        value.map_or(0, |value| lossy(value).parse().unwrap())
    }

    pub(crate) fn envelope(&self, name: &Name) -> Option<Envelope> {
        let bytes = self.bodies.get(name)?;
        let mut envelope = Envelope::decode(&parts(bytes).0).unwrap_or_else(|e| panic!("{name:?}: {e}"));
        assert_eq!(envelope.reason, None, "a stored message has its reason elsewhere");
        envelope.reason = self.reasons.get(name).cloned();
        Some(envelope)
    }

    /// The successor of a leased message.
    pub(crate) fn successor(&self, name: &Name) -> Option<Envelope> {
        let (_, successor) = parts(self.bodies.get(name)?);
        successor.map(|bytes| Envelope::decode(bytes).unwrap_or_else(|e| panic!("{name:?}: {e}")))
    }

    pub(crate) fn in_bucket(&self, no: u32, member: &[u8]) -> bool {
        self.buckets.iter().any(|(n, _, m, _)| *n == no && m == member)
    }

    /// Everything but the registry, which alone may remain of a drained shard.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut left = self.strangers.clone();
        left.extend(self.bodies.keys().map(|(no, id)| format!("m:{no}:{}", lossy(id))));
        left.extend(self.buckets.iter().map(|(no, hour, ..)| format!("b:{no}:{hour}")));
        left.extend(self.ready.keys().map(|no| format!("r:{no}")));
        left.extend(self.parked.keys().map(|(no, group)| format!("p:{no}:{group}")));
        left.extend(self.dead.iter().map(|(no, ..)| format!("d:{no}")));
        left.extend(self.reasons.keys().map(|(no, id)| format!("w:{no} {}", lossy(id))));
        left.extend(self.groups.iter().map(|(group, ..)| format!("g:{group}")));
        left.extend(
            self.indexes.iter().filter(|(_, entries)| !entries.is_empty()).map(|(name, _)| name.clone()),
        );
        // No entry remains in an index that time works through; a group's index is not read without its group.
        left.extend(
            self.poison.iter().filter(|key| !key.starts_with("g:") && !key.starts_with("d:")).cloned(),
        );
        left.extend(self.hashes.keys().filter(|name| name.starts_with("shift:")).cloned());
        left.extend(self.ends.keys().map(|ms| format!("e:{ms}")));
        left.extend(self.histories.keys().map(|no| format!("h:{no}")));
        left
    }
}

/// A stored message, and its successor: format 2 has both in one string.
pub(crate) fn parts(bytes: &[u8]) -> (Vec<u8>, Option<&[u8]>) {
    if bytes.first() != Some(&2) {
        return (bytes.to_vec(), None);
    }
    let (rest, length) = bytes.split_last_chunk::<4>().expect("format 2 ends in a length");
    let (own, successor) = rest.split_at(rest.len() - u32::from_be_bytes(*length) as usize);
    ([&[1], &own[1..]].concat(), Some(successor))
}

pub(crate) fn parse_name(text: &[u8]) -> Option<Name> {
    let colon = text.iter().position(|&byte| byte == b':')?;
    Some((lossy(&text[..colon]).parse().ok()?, text[colon + 1..].to_vec()))
}

fn is_poison(member: &[u8]) -> bool {
    member.windows(POISON.len()).any(|window| window == POISON.as_bytes())
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

fn number(dump: &mut &[u8]) -> usize {
    let (head, tail) = dump.split_first_chunk::<4>().expect("a number has four bytes");
    *dump = tail;
    u32::from_be_bytes(*head) as usize
}

fn part<'a>(dump: &mut &'a [u8]) -> &'a [u8] {
    let length = number(dump);
    let (head, tail) = dump.split_at(length);
    *dump = tail;
    head
}
