//! Calls of one message and of a hundred, with each kind of id, inside one shard: what a call costs, and what an own id
//! and a group add to a message.

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

/// How long finished ids are remembered.
const REMEMBER: Duration = Duration::from_millis(160);

/// Which ids, how many messages a call, and which step.
pub(crate) type Row = (Ids, usize, &'static str);

/// µs a message, by row.
#[derive(Default)]
pub(crate) struct Laps(BTreeMap<Row, Vec<f64>>);

/// A shard and a bare Redis with as many pending, and what they cost.
pub(crate) struct Calls {
    shard: Shard,
    bare: Bare,
    pub(crate) costs: Laps,
    pub(crate) least: Laps,
}

// === impl Calls ===

impl Calls {
    pub(crate) async fn start(pending: usize) -> Self {
        // A Redis knows the scripts that its clients call: each more makes Lua's collector slower, and so every call.
        let mut shard = Shard::created(&VERBS).await;
        shard.put_later(pending).await;
        // A short memory: a marker is made of each own id, and its end can be measured soon.
        let remember = REMEMBER.as_millis().to_string();
        shard.call(Verb::Configure, words(["orders", "remember_own_ms", &remember])).await;
        Self { shard, bare: Bare::filled(pending).await, costs: Laps::default(), least: Laps::default() }
    }

    pub(crate) async fn round(&mut self) {
        for ids in KINDS {
            for each in [1, BATCH] {
                life(&mut self.shard, &mut self.costs, ids, each).await;
            }
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
        self.0.entry(row).or_default().push(spent / BATCH as f64);
        answers
    }
}

/// Takes a hundred messages through their life, so many a call, and leaves nothing of them.
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
    forget_markers(shard, laps, row("end of a marker")).await;
}

/// The same by the bare commands.
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

/// Ends what the acks left, once its time is over: an eighth longer than it is remembered at most.
async fn forget_markers(shard: &mut Shard, laps: &mut Laps, row: Row) {
    let left = redis::cmd("ZCARD").arg("{dq:0}:ends").to_owned();
    if shard.server.run(&left).await == Value::Int(0) {
        return;
    }
    tokio::time::sleep(REMEMBER + REMEMBER / 8).await;
    let pump = shard.command(Verb::Pump, [text(shard.epoch), text(PUMP_BATCH)]);
    laps.time(&mut shard.server, row, &[pump]).await;
    assert_eq!(shard.server.run(&left).await, Value::Int(0), "a marker is left");
}
