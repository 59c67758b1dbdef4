//! Every script of delayq, on a shard with a given number of pending messages.

use crate::server::{HOUR_MS, HOURS, Server, envelope};
use delayq::Group;
use delayq::protocol::{Scripts, Verb};
use redis::{Cmd, Value};

pub(crate) const BATCH: usize = 100;
pub(crate) const PUMP_BATCH: usize = 500;
const META: &str = "{dq:0}:meta";
const NEVER: &str = "{dq:0}:never";
/// A deployment that has grown once, so that `grow` has work to do.
const LAYOUT: &str = "2";
const COUNTS: &str = "1,2";

pub(crate) struct Shard {
    pub(crate) server: Server,
    scripts: Scripts,
    envelope: Vec<u8>,
    grouped: Vec<u8>,
    pub(crate) epoch: i64,
}

// === impl Shard ===

impl Shard {
    /// With these scripts loaded.
    pub(crate) async fn created(verbs: &[Verb]) -> Self {
        let mut server = Server::start().await;
        let scripts = Scripts::published();
        for &verb in verbs {
            server.load(&scripts.get(verb).source).await;
        }
        let grouped = delayq::protocol::Envelope {
            group: Some(Group::new("user-5").expect("a plain name is a group's")),
            ..envelope()
        };
        let (envelope, grouped) = (envelope().encode(), grouped.encode());
        let mut shard = Self { server, scripts, envelope, grouped, epoch: 0 };
        shard.create().await;
        shard
    }

    pub(crate) async fn create(&mut self) {
        self.call(Verb::Init, words(["0", COUNTS])).await;
        // Cancelled messages must leave nothing, like delivered ones.
        self.call(Verb::Configure, words(["orders", "remember_cancelled_ms", "0"])).await;
    }

    /// A shard with `pending` messages: those for the rounds, put long ago and already due, and the rest, evenly spread
    /// over hours.
    pub(crate) async fn filled(pending: usize) -> Self {
        let mut shard = Self::created(Verb::ALL).await;
        for (batch, fill) in fill(pending).into_iter().enumerate() {
            match fill {
                None => shard.put_due(batch * BATCH, 1).await,
                Some(hour) => {
                    let dues = shard.hour_dues(hour, batch * BATCH);
                    let call = shard.put_call(&dues, false).0;
                    shard.server.run(&call).await;
                }
            }
        }
        shard
    }

    pub(crate) async fn put_later(&mut self, pending: usize) {
        for batch in 0..pending / BATCH {
            let dues = self.hour_dues(batch as u64, batch * BATCH);
            let call = self.put_call(&dues, false).0;
            self.server.run(&call).await;
        }
    }

    /// Keeps the number of pending messages.
    pub(crate) async fn round(&mut self, round: usize) {
        // The same order as the bare commands, for equal processor caches.
        for batch in 0..PUMP_BATCH / BATCH {
            self.put_and_take_out(round * PUMP_BATCH + batch * BATCH).await;
        }
        self.deliver().await;
        for batch in 0..PUMP_BATCH / BATCH {
            self.change_pending(round * PUMP_BATCH + batch * BATCH).await;
        }
        self.settle_otherwise().await;
        self.put_due(round * 2 * PUMP_BATCH, PUMP_BATCH / BATCH + 1).await;
        self.group(round).await;
        self.limited(round).await;
        self.in_turn(round).await;
        self.look(round as u64).await;
        self.own(round).await;
    }

    async fn put_and_take_out(&mut self, first: usize) {
        let dues = self.hour_dues(1, first);
        let (call, ids) = self.put_call(&dues, false);
        self.server.measure("put", BATCH, &call).await;
        self.call(Verb::Cancel, of_topic(&ids)).await;
    }

    async fn change_pending(&mut self, first: usize) {
        let dues = self.hour_dues(1, first);
        let (call, ids) = self.put_call(&dues, false);
        self.server.run(&call).await;
        self.measure("peek", BATCH, Verb::Peek, of_topic(&ids)).await;
        let moved = self.hour_dues(2, first);
        let changes = ids.iter().zip(moved).flat_map(|(id, due)| [id.clone(), text(due), Vec::new()]);
        self.measure("reschedule", BATCH, Verb::Reschedule, of_topic(&changes.collect::<Vec<_>>())).await;
        let names: Vec<Vec<u8>> = ids.iter().map(|id| [b"m:1:", id.as_slice()].concat()).collect();
        self.measure("audit", BATCH, Verb::Audit, names).await;
        self.measure("cancel", BATCH, Verb::Cancel, of_topic(&ids)).await;
        let hour = 3 + (first / BATCH) as u64 % (HOURS - 3);
        let from = self.server.due_ms(hour, 0) / HOUR_MS * HOUR_MS;
        let range = [text(from), text(from + HOUR_MS - 1)];
        let page = words(["orders", "delayed"]).into_iter().chain(range);
        self.measure("list", BATCH, Verb::List, page.clone().chain(words(["asc", "", "100"]))).await;
        let purged = self.measure("purge", BATCH, Verb::Purge, page.chain(words(["", "100"]))).await;
        let refill = self.hour_dues(hour, first);
        let call = self.put_call(&refill[..purged_count(&purged)], false).0;
        self.server.run(&call).await;
    }

    async fn deliver(&mut self) {
        let pump = [text(self.epoch), text(PUMP_BATCH)];
        self.measure("pump", PUMP_BATCH, Verb::Pump, pump).await;
        let mut batches = Vec::new();
        for _ in 0..PUMP_BATCH / BATCH {
            let answer = self.measure("reserve", BATCH, Verb::Reserve, reserve()).await;
            batches.push(receipts(&answer, BATCH));
        }
        for receipts in batches {
            self.measure("ack", BATCH, Verb::Ack, receipts).await;
        }
    }

    async fn settle_otherwise(&mut self) {
        self.call(Verb::Pump, [text(self.epoch), text(BATCH)]).await;
        let held = receipts(&self.call(Verb::Reserve, reserve()).await, BATCH);
        let extend = held.iter().flat_map(|receipt| [receipt.clone(), b"90000".to_vec()]);
        self.measure("extend", BATCH, Verb::Extend, extend).await;
        let give = |receipt: &Vec<u8>| [receipt.clone(), b"0".to_vec(), b"keep".to_vec(), Vec::new()];
        self.measure("release", BATCH, Verb::Release, held.iter().flat_map(give)).await;
        let held = receipts(&self.call(Verb::Reserve, reserve()).await, BATCH);
        let buried = held.iter().flat_map(|receipt| [receipt.clone(), b"no such order".to_vec()]);
        self.measure("bury", BATCH, Verb::Bury, buried).await;
        let ids: Vec<Vec<u8>> = held.iter().map(|r| r[2..r.len() - 4].to_vec()).collect();
        let replayed = words(["orders", "0"]).into_iter().chain(ids);
        self.measure("replay", BATCH, Verb::Replay, replayed).await;
        let held = receipts(&self.call(Verb::Reserve, reserve()).await, BATCH);
        let due = self.server.due_ms(1, 0);
        let next: Vec<[Vec<u8>; 4]> = held
            .iter()
            .map(|held| [self.server.id(), text(due), acks(held), self.envelope.clone()])
            .collect();
        self.measure("put (acks)", BATCH, Verb::Put, of_topic(&next.concat())).await;
        let ids: Vec<Vec<u8>> = next.into_iter().map(|[id, ..]| id).collect();
        self.call(Verb::Cancel, of_topic(&ids)).await;
    }

    async fn group(&mut self, round: usize) {
        let dues = self.hour_dues(1, round * BATCH);
        let call = self.put_call(&dues, true).0;
        self.server.measure("put (in a group)", BATCH, &call).await;
        self.measure("list_group", BATCH, Verb::ListGroup, words(["user-5", "0", "", "100"])).await;
        let token = format!("token-{round}");
        let shift = words(["user-5", "", &token, "60000", "500"]);
        self.measure("shift_group", BATCH, Verb::ShiftGroup, shift).await;
        self.measure("cancel_group", BATCH, Verb::CancelGroup, words(["user-5", "", "0", "", "500"])).await;
    }

    /// A topic that limits its groups: with room for all messages of a group, then for one.
    async fn limited(&mut self, round: usize) {
        self.put_limited(round).await;
        self.limit("100").await;
        let answer = self.measure("reserve (groups limited)", BATCH, Verb::Reserve, reserve_limited()).await;
        let held = receipts(&answer, BATCH);
        self.measure("ack (groups limited)", BATCH, Verb::Ack, held).await;
        self.put_limited(round).await;
        self.limit("1").await;
        let answer = self.measure("reserve (parks a group)", BATCH, Verb::Reserve, reserve_limited()).await;
        let held = receipts(&answer, 1);
        self.limit("100").await;
        self.call(Verb::Ack, held).await;
        let answer =
            self.measure("reserve (parked messages)", BATCH - 1, Verb::Reserve, reserve_limited()).await;
        let held = receipts(&answer, BATCH - 1);
        self.call(Verb::Ack, held).await;
    }

    /// A topic in fair order, with a message of each of a hundred groups.
    async fn in_turn(&mut self, round: usize) {
        self.order("fair").await;
        let past = self.server.past_ms(round);
        let mut args = words(["limited"]).to_vec();
        for number in 0..BATCH {
            let group = Some(Group::new(format!("user-{number}")).expect("a plain name is a group's"));
            let grouped = delayq::protocol::Envelope { group, ..envelope() }.encode();
            args.extend([self.server.id(), text(past), Vec::new(), grouped]);
        }
        self.measure("put (groups in turn)", BATCH, Verb::Put, args).await;
        let answer = self.measure("reserve (groups in turn)", BATCH, Verb::Reserve, reserve_limited()).await;
        let held = receipts(&answer, BATCH);
        self.call(Verb::Ack, held).await;
        self.order("ready").await;
    }

    async fn order(&mut self, order: &str) {
        self.call(Verb::Configure, words(["limited", "group_order", order])).await;
    }

    async fn put_limited(&mut self, round: usize) {
        let past = self.server.past_ms(round);
        let ids: Vec<Vec<u8>> = (0..BATCH).map(|_| self.server.id()).collect();
        let one = |id: Vec<u8>| [id, text(past), Vec::new(), self.grouped.clone()];
        let args: Vec<Vec<u8>> =
            words(["limited"]).into_iter().chain(ids.into_iter().flat_map(one)).collect();
        self.call(Verb::Put, args).await;
    }

    async fn limit(&mut self, in_flight: &str) {
        self.call(Verb::Configure, words(["limited", "group_in_flight", in_flight])).await;
    }

    async fn look(&mut self, hour: u64) {
        self.measure("count", 1, Verb::Count, words(["orders", "0"])).await;
        self.measure("overview", 1, Verb::Overview, words(["1"])).await;
        self.measure("describe", 1, Verb::Describe, words(["orders"])).await;
        let from = self.server.due_ms(hour % HOURS, 0) / HOUR_MS * HOUR_MS;
        let range = [b"orders".to_vec(), text(from), text(from + HOUR_MS), b"60000".to_vec()];
        self.measure("histogram", 60, Verb::Histogram, range).await;
        self.measure("probe", 1, Verb::Probe, words(["RPUSHX"])).await;
    }

    async fn own(&mut self, round: usize) {
        self.measure("init", 1, Verb::Init, words(["0", COUNTS])).await;
        self.measure("grow", 1, Verb::Grow, words(["0", COUNTS])).await;
        self.measure("layout", 1, Verb::Layout, words::<0>([])).await;
        let claimed = self.measure("claim", 1, Verb::Claim, words(["bench", "0", ""])).await;
        let Value::Array(items) = claimed else { panic!("claim answers a list") };
        let Value::Int(epoch) = items[1] else { panic!("an epoch is a number") };
        self.epoch = epoch;
        self.measure("hold", 1, Verb::Hold, [text(self.epoch), b"off".to_vec()]).await;
        let attempts = text(10 + round % 2);
        let configure = [b"orders".to_vec(), b"max_attempts".to_vec(), attempts];
        self.measure("configure", 1, Verb::Configure, configure).await;
        self.measure("dictionary", 1, Verb::Dictionary, words(["7", "bytes"])).await;
    }

    /// Puts batches that are already due, and stay in their bucket because the shard is held.
    async fn put_due(&mut self, first: usize, batches: usize) {
        self.hold("on").await;
        for batch in 0..batches {
            let dues: Vec<u64> = (0..BATCH).map(|n| self.server.past_ms(first + batch * BATCH + n)).collect();
            let call = self.put_call(&dues, false).0;
            self.server.run(&call).await;
        }
        self.hold("off").await;
    }

    pub(crate) async fn hold(&mut self, word: &str) {
        if word == "on" {
            // All leases were acked. Their alarm, a minute later, would take half of a measured pump.
            self.server.run(redis::cmd("ZREM").arg("{dq:0}:alarms").arg("leases")).await;
        }
        self.call(Verb::Hold, [text(self.epoch), word.as_bytes().to_vec()]).await;
    }

    fn hour_dues(&self, hour: u64, first: usize) -> Vec<u64> {
        (first..first + BATCH).map(|n| self.server.due_ms(hour, n)).collect()
    }

    fn put_call(&mut self, dues: &[u64], in_group: bool) -> (Cmd, Vec<Vec<u8>>) {
        let ids: Vec<Vec<u8>> = dues.iter().map(|_| self.server.id()).collect();
        let envelope = if in_group { &self.grouped } else { &self.envelope };
        let one = |(id, due): (&Vec<u8>, &u64)| [id.clone(), text(due), Vec::new(), envelope.clone()];
        let args: Vec<Vec<u8>> = ids.iter().zip(dues).flat_map(one).collect();
        (self.command(Verb::Put, of_topic(&args)), ids)
    }

    pub(crate) async fn call(&mut self, verb: Verb, args: impl IntoIterator<Item = Vec<u8>>) -> Value {
        let command = self.command(verb, args);
        self.server.run(&command).await
    }

    async fn measure(
        &mut self,
        row: &'static str,
        count: usize,
        verb: Verb,
        args: impl IntoIterator<Item = Vec<u8>>,
    ) -> Value {
        let command = self.command(verb, args);
        self.server.measure(row, count, &command).await
    }

    pub(crate) fn command(&self, verb: Verb, args: impl IntoIterator<Item = Vec<u8>>) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.scripts.get(verb).sha).arg(2).arg(META).arg(NEVER).arg(LAYOUT);
        args.into_iter().for_each(|arg| {
            command.arg(arg);
        });
        command
    }
}

/// The batches of a shard's filling: the hour of each, or `None` if already due. The latter, one set per round if
/// `pending` has room, are mixed among the others like messages that have waited long.
pub(crate) fn fill(pending: usize) -> Vec<Option<u64>> {
    let batches = pending / BATCH;
    let each_round = PUMP_BATCH / BATCH + 1;
    let due = (batches / 2 / each_round).clamp(1, crate::WARM_ROUNDS + crate::ROUNDS) * each_round;
    let mut hours = (1..).map(|n| n % HOURS);
    let is_due = |batch: usize| (batch + 1) * due / batches > batch * due / batches;
    (0..batches).map(|batch| if is_due(batch) { None } else { hours.next() }).collect()
}

/// The option of a put that acks this receipt.
fn acks(receipt: &[u8]) -> Vec<u8> {
    let hex: String = receipt.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("ack={hex}").into_bytes()
}

fn reserve() -> Vec<Vec<u8>> {
    words(["100", "0", "60000", "orders"])
}

fn reserve_limited() -> Vec<Vec<u8>> {
    words(["100", "0", "60000", "limited"])
}

pub(crate) fn receipts(answer: &Value, count: usize) -> Vec<Vec<u8>> {
    let Value::Array(items) = answer else { panic!("reserve answers a list") };
    let bytes = |value: &Value| match value {
        Value::BulkString(bytes) => bytes.clone(),
        other => panic!("a receipt is bytes, not {other:?}"),
    };
    let all: Vec<_> = items.get(9..).unwrap_or_default().chunks(3).map(|one| bytes(&one[1])).collect();
    assert_eq!(all.len(), count, "as many were ready");
    all
}

fn purged_count(answer: &Value) -> usize {
    let Value::Array(items) = answer else { panic!("purge answers a list") };
    let Value::Int(purged) = items[1] else { panic!("purge says how many went") };
    usize::try_from(purged).expect("a count is not negative")
}

pub(crate) fn words<const N: usize>(words: [&str; N]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

pub(crate) fn of_topic(args: &[Vec<u8>]) -> Vec<Vec<u8>> {
    std::iter::once(b"orders".to_vec()).chain(args.iter().cloned()).collect()
}

pub(crate) fn text(n: impl std::fmt::Display) -> Vec<u8> {
    n.to_string().into_bytes()
}
