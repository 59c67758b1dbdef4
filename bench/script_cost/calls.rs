//! Calls of one message and of a hundred, with each kind of id, inside one shard: the cost of a call, and the extra
//! cost of own ids and groups.

use crate::bare::Bare;
use crate::ids::{Ids, KINDS};
use crate::scripts::{BATCH, PUMP_BATCH, Shard, of_topic, receipts, text, words};
use crate::server::Server;
use delayq::protocol::Verb;
use redis::{Cmd, Value};
use std::collections::BTreeMap;
use std::time::Duration;

const VERBS: [Verb; 8] =
    [Verb::Init, Verb::Configure, Verb::Hold, Verb::Put, Verb::Cancel, Verb::Pump, Verb::Reserve, Verb::Ack];

/// How long finished ids are remembered: short, to clear the shard quickly.
const REMEMBER: Duration = Duration::from_millis(160);

/// Markers that expire together: a busy deployment's list holds the markers of several seconds.
const MARKERS: usize = 2 * PUMP_BATCH;

/// How long these are remembered: longer than creating them takes.
const REMEMBER_MARKERS: Duration = Duration::from_secs(1);
const MARKER_ROUNDS: usize = 10;

/// Kind of ids, messages per call, and step.
pub(crate) type Row = (Ids, usize, &'static str);

#[derive(Default)]
pub(crate) struct Laps(BTreeMap<Row, Vec<f64>>);

pub(crate) struct Calls {
    shard: Shard,
    bare: Bare,
    pub(crate) costs: Laps,
    pub(crate) least: Laps,
}

// === impl Calls ===

impl Calls {
    pub(crate) async fn start(pending: usize) -> Self {
        let shard = shard(pending, REMEMBER).await;
        Self { shard, bare: Bare::filled(pending).await, costs: Laps::default(), least: Laps::default() }
    }

    pub(crate) async fn round(&mut self) {
        // Each measurement follows an unmeasured run of the same kind: own ids follow the pause in which markers
        // expire, which cools the processor's caches, and generated ids do not.
        for ids in KINDS {
            for each in [1, BATCH] {
                life(&mut self.shard, &mut Laps::default(), ids, each).await;
                life(&mut self.shard, &mut self.costs, ids, each).await;
                end_markers(&mut self.shard, REMEMBER).await;
            }
            bare_life(&mut self.bare, &mut Laps::default(), ids).await;
            bare_life(&mut self.bare, &mut self.least, ids).await;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.costs.0.clear();
        self.least.0.clear();
    }
}

// === impl Laps ===

impl Laps {
    pub(crate) fn median(&self, row: Row) -> Option<f64> {
        let mut laps = self.0.get(&row)?.clone();
        laps.sort_by(f64::total_cmp);
        Some(laps[laps.len() / 2])
    }

    async fn time(&mut self, server: &mut Server, row: Row, calls: &[Cmd]) -> Vec<Value> {
        let (spent, answers) = server.timed(calls).await;
        self.add(row, spent / BATCH as f64);
        answers
    }

    fn add(&mut self, row: Row, cost: f64) {
        self.0.entry(row).or_default().push(cost);
    }
}

/// Cost of expiring a marker among many, in full calls: µs by kind of ids.
pub(crate) async fn ends_of_markers(pending: usize) -> BTreeMap<Ids, f64> {
    let (mut shard, mut costs) = (shard(pending, REMEMBER_MARKERS).await, Laps::default());
    let row = |ids| (ids, PUMP_BATCH, "end of a marker");
    for _ in 0..MARKER_ROUNDS {
        for ids in [Ids::Own, Ids::Grouped] {
            for _ in 0..MARKERS / BATCH {
                life(&mut shard, &mut Laps::default(), ids, BATCH).await;
            }
            let (spent, ended) = end_markers(&mut shard, REMEMBER_MARKERS).await;
            assert_eq!(ended, MARKERS, "as many markers were left");
            costs.add(row(ids), spent / MARKERS as f64);
        }
    }
    KINDS.into_iter().filter_map(|ids| Some((ids, costs.median(row(ids))?))).collect()
}

/// A shard with pending messages that remembers own ids for this long.
async fn shard(pending: usize, remember: Duration) -> Shard {
    // Load only these scripts: each script known to Redis makes Lua's collector, and so every call, slower.
    let mut shard = Shard::created(&VERBS).await;
    shard.put_later(pending).await;
    let ms = remember.as_millis().to_string();
    shard.call(Verb::Configure, words(["orders", "remember_own_ms", &ms])).await;
    shard
}

/// A hundred messages, `each` per call; leaves only markers of own ids.
async fn life(shard: &mut Shard, laps: &mut Laps, ids: Ids, each: usize) {
    let row = |step| (ids, each, step);
    let (calls, names) = puts(shard, ids, each, |shard, n| shard.server.due_ms(1, n));
    laps.time(&mut shard.server, row("put"), &calls).await;
    shard.call(Verb::Cancel, of_topic(&names)).await;

    shard.hold("on").await;
    let (calls, _) = puts(shard, ids, each, |shard, n| shard.server.past_ms(n));
    shard.server.timed(&calls).await;
    shard.hold("off").await;
    let times = BATCH / each;
    let pump = shard.command(Verb::Pump, [text(shard.epoch), text(each)]);
    laps.time(&mut shard.server, row("pump"), &vec![pump; times]).await;
    let most = each.to_string();
    let reserve = shard.command(Verb::Reserve, words([&most, "0", "", "orders"]));
    let answers = laps.time(&mut shard.server, row("reserve"), &vec![reserve; times]).await;
    let acks: Vec<Cmd> =
        answers.iter().map(|answer| shard.command(Verb::Ack, receipts(answer, each))).collect();
    laps.time(&mut shard.server, row("ack"), &acks).await;
}

async fn bare_life(bare: &mut Bare, laps: &mut Laps, ids: Ids) {
    let row = |step| (ids, 1, step);
    let (calls, names) = bare.single_puts(ids, false);
    laps.time(&mut bare.server, row("put"), &calls).await;
    bare.remove(&names).await;
    let (calls, _) = bare.single_puts(ids, true);
    bare.server.timed(&calls).await;
    let pump = bare.single_pump();
    laps.time(&mut bare.server, row("pump"), &vec![pump; BATCH]).await;
    let reserve = bare.single_reserve();
    let taken = laps.time(&mut bare.server, row("reserve"), &vec![reserve; BATCH]).await;
    let acks: Vec<Cmd> = taken.into_iter().map(|answer| bare.single_ack(answer)).collect();
    laps.time(&mut bare.server, row("ack"), &acks).await;
}

fn puts(
    shard: &mut Shard,
    ids: Ids,
    each: usize,
    due: impl Fn(&Shard, usize) -> u64,
) -> (Vec<Cmd>, Vec<Vec<u8>>) {
    let names: Vec<Vec<u8>> = (0..BATCH).map(|_| ids.id(&mut shard.server)).collect();
    let one = |(n, id): (usize, &Vec<u8>)| [id.clone(), text(due(shard, n)), Vec::new(), ids.envelope(id)];
    let items: Vec<_> = names.iter().enumerate().map(one).collect();
    let calls = items.chunks(each).map(|items| shard.command(Verb::Put, of_topic(&items.concat()))).collect();
    (calls, names)
}

/// At most an eighth after the remembered time. Returns µs and their number.
async fn end_markers(shard: &mut Shard, remembered: Duration) -> (f64, usize) {
    let left = redis::cmd("ZCARD").arg("{dq:0}:ends").to_owned();
    if shard.server.run(&left).await == Value::Int(0) {
        return (0.0, 0);
    }
    tokio::time::sleep(remembered + remembered / 8).await;
    let pump = shard.command(Verb::Pump, [text(shard.epoch), text(PUMP_BATCH)]);
    let (spent, answers) = shard.server.timed(&vec![pump; MARKERS / PUMP_BATCH]).await;
    assert_eq!(shard.server.run(&left).await, Value::Int(0), "a marker is left");
    (spent, answers.iter().map(forgotten).sum())
}

fn forgotten(answer: &Value) -> usize {
    let Value::Array(items) = answer else { panic!("pump answers a list") };
    let Value::Int(ended) = items[7] else { panic!("pump says how many it has forgotten") };
    usize::try_from(ended).expect("a count is not negative")
}
