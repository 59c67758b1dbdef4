//! What each script costs inside the server: µs a message from `INFO commandstats`, the lower quartile of 30 batches, with few and with many pending,
//! beside the bare commands that do the least of the same, and the bytes of a pending message.
//!
//! `cargo run --release -p delayq-core --example script_cost [pending]`; `pending` is 1,000,000 unless given.

use delayq_core::{Envelope, Scripts, State, UnixMillis, Verb};
use delayq_tests::redis_server::RedisServer;
use redis::{Value, aio::MultiplexedConnection};

const BATCH: usize = 100;
const PUMP_BATCH: usize = 500;
const ROUNDS: usize = 30;
const PAYLOAD_BYTES: usize = 200;
const META: &str = "{dq:0}:meta";
const NEVER: &str = "{dq:0}:never";

/// Spoken to directly: the cost is the server's, so that the client's does not matter.
struct Bench {
    connection: MultiplexedConnection,
    scripts: Scripts,
    next_id: u64,
    now_ms: u64,
    /// What the server had spent when the last lap began, in µs.
    lap_us: f64,
    laps: Vec<f64>,
}

/// In-server µs a message of each script.
#[derive(Clone, Copy, Default)]
struct Costs {
    put: f64,
    pump: f64,
    reserve: f64,
    ack: f64,
    extend: f64,
    release: f64,
    reschedule: f64,
    cancel: f64,
    peek: f64,
}

#[tokio::main]
async fn main() {
    let pending = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().expect("a number of messages"));
    let few = costs(1000).await;
    let many = costs(pending).await;
    let bare = bare_costs(pending).await;
    println!(
        "| script | µs a message, 1,000 pending | {pending} pending | ratio |\n| --- | --- | --- | --- |"
    );
    for ((name, one), (_, two)) in few.rows().into_iter().zip(many.rows()) {
        println!("| {name} | {one:.2} | {two:.2} | {:.2} |", two / one);
    }
    println!(
        "\n| script | µs a message | bare commands | bare | ratio | target |\n| --- | --- | --- | --- | --- | --- |"
    );
    let rows = [
        ("put", many.put, "SET NX + ZADD", bare.put, 1.6),
        ("pump", many.pump, "ZRANGEBYSCORE + RPUSH + ZREM", bare.pump, 1.5),
        ("reserve", many.reserve, "LPOP + MGET + ZADD", bare.reserve, 2.0),
        ("ack", many.ack, "ZREM + UNLINK", bare.ack, 2.6),
    ];
    for (name, cost, commands, least, target) in rows {
        println!("| {name} | {cost:.2} | {commands} | {least:.2} | {:.2} | {target} |", cost / least);
    }
    let all = |costs: &Costs| costs.put + costs.pump + costs.reserve + costs.ack;
    let (sum, least) = (all(&many), all(&bare));
    println!("| all four | {sum:.2} | | {least:.2} | {:.2} | 1.75 |", sum / least);
    println!("\nBytes a pending message with a {PAYLOAD_BYTES}-byte payload: {:.0}", bytes_a_message().await);
}

// === impl Costs ===

impl Costs {
    fn rows(&self) -> [(&'static str, f64); 9] {
        [
            ("put", self.put),
            ("pump", self.pump),
            ("reserve", self.reserve),
            ("ack", self.ack),
            ("extend", self.extend),
            ("release", self.release),
            ("reschedule", self.reschedule),
            ("cancel", self.cancel),
            ("peek", self.peek),
        ]
    }
}

// === impl Bench ===

impl Bench {
    async fn start(server: &RedisServer) -> Self {
        let mut connection = server.connect().await;
        let scripts = Scripts::published();
        for &verb in Verb::ALL {
            let source = &scripts.get(verb).source;
            let _: String = redis::cmd("SCRIPT")
                .arg("LOAD")
                .arg(source)
                .query_async(&mut connection)
                .await
                .expect("a script loads");
        }
        let (seconds, _): (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await.expect("TIME");
        let mut bench =
            Self { connection, scripts, next_id: 0, now_ms: seconds * 1000, lap_us: 0.0, laps: Vec::new() };
        bench.call(Verb::Init, vec![b"0".to_vec(), b"1".to_vec()]).await;
        bench
    }

    async fn call(&mut self, verb: Verb, args: Vec<Vec<u8>>) -> Value {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.scripts.get(verb).sha).arg(2).arg(META).arg(NEVER).arg(1).arg(args);
        command.query_async(&mut self.connection).await.unwrap_or_else(|e| panic!("{}: {e}", verb.name()))
    }

    /// A script of bare commands, by its SHA once the server knows it.
    async fn bare(&mut self, source: &str, args: Vec<Vec<u8>>) -> Value {
        let script = redis::Script::new(source);
        let mut call = script.prepare_invoke();
        args.iter().for_each(|arg| {
            call.arg(arg.as_slice());
        });
        call.invoke_async(&mut self.connection).await.expect("a bare script runs")
    }

    /// An id as the client makes them, spread like those of many clients.
    fn id(&mut self) -> Vec<u8> {
        self.next_id += 1;
        let spread = self.next_id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        [&[1, 2, 3, 4, 5, 6, 0x70, 0][..], &spread.to_be_bytes()].concat()
    }

    /// Puts `count` messages that are due at what `due` says; their ids.
    async fn put(&mut self, count: usize, mut due: impl FnMut(usize) -> u64) -> Vec<Vec<u8>> {
        let envelope = envelope();
        let mut ids = Vec::with_capacity(count);
        for start in (0..count).step_by(BATCH) {
            let mut args = vec![b"orders".to_vec()];
            for n in start..count.min(start + BATCH) {
                let id = self.id();
                args.extend([id.clone(), due(n).to_string().into(), Vec::new(), envelope.clone()]);
                ids.push(id);
            }
            self.call(Verb::Put, args).await;
        }
        ids
    }

    /// Receipts of up to a batch of ready messages.
    async fn reserve(&mut self) -> Vec<Vec<u8>> {
        let args = vec![BATCH.to_string().into(), b"0".to_vec(), b"60000".to_vec(), b"orders".to_vec()];
        let Value::Array(items) = self.call(Verb::Reserve, args).await else {
            panic!("reserve answers a list")
        };
        let bytes = |value: &Value| match value {
            Value::BulkString(bytes) => bytes.clone(),
            other => panic!("a receipt is bytes, not {other:?}"),
        };
        items.get(9..).unwrap_or_default().chunks(3).map(|one| bytes(&one[1])).collect()
    }

    /// µs that the server spent in `commands` since its start.
    async fn spent_us(&mut self, commands: &[&str]) -> f64 {
        let info: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut self.connection).await.expect("INFO");
        let of = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let usec = rest.split(',').find_map(|part| part.strip_prefix("usec="))?;
            commands.contains(&name).then(|| usec.parse::<f64>().expect("usec is a number"))
        };
        info.lines().filter_map(of).sum()
    }

    /// Begins the laps of another measurement.
    async fn begin(&mut self, commands: &[&str]) {
        self.laps.clear();
        self.lap_us = self.spent_us(commands).await;
    }

    /// Ends a lap of `count` messages.
    async fn lap(&mut self, commands: &[&str], count: usize) {
        let spent = self.spent_us(commands).await;
        self.laps.push((spent - self.lap_us) / count as f64);
        self.lap_us = spent;
    }

    /// The lower quartile of the laps: whatever else runs on the machine only ever adds to them.
    fn quartile(&mut self) -> f64 {
        self.laps.sort_by(f64::total_cmp);
        self.laps[self.laps.len() / 4]
    }
}

const SCRIPTS: &[&str] = &["evalsha"];

/// Fills a shard with `pending` far-off messages, and measures every script on it.
async fn costs(pending: usize) -> Costs {
    let server = RedisServer::start().await;
    let mut bench = Bench::start(&server).await;
    let far = bench.now_ms + 3_600_000;
    bench.put(pending, |n| far + (n as u64 * 7919) % (24 * 3_600_000)).await;
    let mut costs = Costs::default();

    bench.begin(SCRIPTS).await;
    let mut ids = Vec::new();
    for round in 0..ROUNDS as u64 {
        ids.extend(bench.put(BATCH, |n| far + (n as u64 * 104_729 + round * 7919) % 3_600_000).await);
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.put = bench.quartile();

    bench.begin(SCRIPTS).await;
    for some in ids.chunks(BATCH) {
        let args = some.iter().flat_map(|id| [id.clone(), (far + 7_200_000).to_string().into(), Vec::new()]);
        bench.call(Verb::Reschedule, std::iter::once(b"orders".to_vec()).chain(args).collect()).await;
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.reschedule = bench.quartile();

    let with_topic =
        |some: &[Vec<u8>]| std::iter::once(b"orders".to_vec()).chain(some.iter().cloned()).collect();
    bench.begin(SCRIPTS).await;
    for some in ids.chunks(BATCH) {
        bench.call(Verb::Peek, with_topic(some)).await;
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.peek = bench.quartile();
    // What is cancelled is to leave nothing, as what is delivered does.
    bench
        .call(
            Verb::Configure,
            [b"orders".as_slice(), b"remember_cancelled_ms", b"0"].map(<[u8]>::to_vec).to_vec(),
        )
        .await;
    bench.begin(SCRIPTS).await;
    for some in ids.chunks(BATCH) {
        bench.call(Verb::Cancel, with_topic(some)).await;
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.cancel = bench.quartile();

    // Held while they are put, so that what is due already waits in its bucket.
    bench.call(Verb::Hold, vec![b"9".to_vec(), b"on".to_vec()]).await;
    let past = bench.now_ms - 60_000;
    bench.put(BATCH * ROUNDS, |n| past + (n as u64 * 7919) % 50_000).await;
    bench.call(Verb::Hold, vec![b"9".to_vec(), b"off".to_vec()]).await;
    bench.begin(SCRIPTS).await;
    for _ in 0..BATCH * ROUNDS / PUMP_BATCH {
        bench.call(Verb::Pump, vec![b"9".to_vec(), PUMP_BATCH.to_string().into()]).await;
        bench.lap(SCRIPTS, PUMP_BATCH).await;
    }
    costs.pump = bench.quartile();

    bench.begin(SCRIPTS).await;
    let mut receipts = Vec::new();
    for _ in 0..ROUNDS {
        receipts.push(bench.reserve().await);
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.reserve = bench.quartile();
    bench.begin(SCRIPTS).await;
    for some in &receipts {
        let args = some.iter().flat_map(|receipt| [receipt.clone(), b"90000".to_vec()]).collect();
        bench.call(Verb::Extend, args).await;
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.extend = bench.quartile();
    bench.begin(SCRIPTS).await;
    for some in &receipts {
        let give = |receipt: &Vec<u8>| [receipt.clone(), b"0".to_vec(), b"keep".to_vec(), Vec::new()];
        bench.call(Verb::Release, some.iter().flat_map(give).collect()).await;
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.release = bench.quartile();
    receipts.clear();
    for _ in 0..ROUNDS {
        receipts.push(bench.reserve().await);
    }
    bench.begin(SCRIPTS).await;
    for some in receipts {
        assert_eq!(some.len(), BATCH);
        bench.call(Verb::Ack, some).await;
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.ack = bench.quartile();
    costs
}

/// The least that any such queue does: the bare commands, each verb's in a script of nothing else.
const BARE_PUT: &str = "
local entries = {}
for i = 1, #ARGV, 3 do
  redis.call('SET', 'm:' .. ARGV[i], ARGV[i + 2], 'NX')
  entries[#entries + 1], entries[#entries + 2] = ARGV[i + 1], ARGV[i]
end
redis.call('ZADD', 'bucket', unpack(entries))
return 0";
const BARE_PUMP: &str = "
local due = redis.call('ZRANGEBYSCORE', 'bucket', '-inf', '+inf', 'LIMIT', 0, ARGV[1])
redis.call('RPUSH', 'ready', unpack(due))
redis.call('ZREM', 'bucket', unpack(due))
return #due";
const BARE_RESERVE: &str = "
local ids = redis.call('LPOP', 'ready', ARGV[1])
local keys, leases = {}, {}
for i = 1, #ids do
  keys[i] = 'm:' .. ids[i]
  leases[2 * i - 1], leases[2 * i] = ARGV[2], ids[i]
end
redis.call('ZADD', 'leases', unpack(leases))
return { ids, redis.call('MGET', unpack(keys)) }";
const BARE_ACK: &str = "
local keys = {}
for i = 1, #ARGV do keys[i] = 'm:' .. ARGV[i] end
redis.call('ZREM', 'leases', unpack(ARGV))
redis.call('UNLINK', unpack(keys))
return 0";

async fn bare_costs(pending: usize) -> Costs {
    let server = RedisServer::start().await;
    let mut bench = Bench::start(&server).await;
    let envelope = envelope();
    let mut costs = Costs::default();
    let due = |n: usize| 1_763_697_600_000 + (n as u64 * 7919) % 3_600_000;
    for start in (0..pending + BATCH * ROUNDS).step_by(BATCH) {
        if start == pending / BATCH * BATCH {
            bench.begin(SCRIPTS).await;
        }
        let mut args = Vec::new();
        for n in start..start + BATCH {
            args.extend([bench.id(), due(n).to_string().into(), envelope.clone()]);
        }
        bench.bare(BARE_PUT, args).await;
        if start >= pending {
            bench.lap(SCRIPTS, BATCH).await;
        }
    }
    costs.put = bench.quartile();

    bench.begin(SCRIPTS).await;
    for _ in 0..BATCH * ROUNDS / PUMP_BATCH {
        bench.bare(BARE_PUMP, vec![PUMP_BATCH.to_string().into()]).await;
        bench.lap(SCRIPTS, PUMP_BATCH).await;
    }
    costs.pump = bench.quartile();

    bench.begin(SCRIPTS).await;
    let mut leased = Vec::new();
    for _ in 0..ROUNDS {
        let args = vec![BATCH.to_string().into(), due(0).to_string().into()];
        leased.push(bench.bare(BARE_RESERVE, args).await);
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.reserve = bench.quartile();

    bench.begin(SCRIPTS).await;
    for answer in leased {
        let (ids, _): (Vec<Vec<u8>>, Value) = redis::from_redis_value(answer).expect("ids and bodies");
        bench.bare(BARE_ACK, ids).await;
        bench.lap(SCRIPTS, BATCH).await;
    }
    costs.ack = bench.quartile();
    costs
}

async fn bytes_a_message() -> f64 {
    const COUNT: usize = 100_000;
    let server = RedisServer::start().await;
    let mut bench = Bench::start(&server).await;
    let far = bench.now_ms + 3_600_000;
    bench.put(1000, |_| far).await;
    let before = used_memory(&server).await;
    bench.put(COUNT, |n| far + (n as u64 * 7919) % (24 * 3_600_000)).await;
    (used_memory(&server).await - before) / COUNT as f64
}

/// The dataset: without what connections and the tables' growth happen to hold just now.
async fn used_memory(server: &RedisServer) -> f64 {
    let info: String = server.command(&["INFO", "memory"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|n| n.trim().parse().ok()).expect("INFO memory says used_memory")
}

fn envelope() -> Vec<u8> {
    let order =
        "{\"order\":1234567,\"user\":\"user-9876\",\"amount\":\"129.90\",\"currency\":\"EUR\",\"items\":[";
    let mut payload = order.as_bytes().to_vec();
    while payload.len() < PAYLOAD_BYTES - 2 {
        payload.push(b'0' + (payload.len() % 10) as u8);
    }
    payload.extend(b"]}");
    Envelope {
        state: State::Delayed,
        generation: 0,
        due: UnixMillis::new(0),
        at: UnixMillis::new(0),
        delivery: 0,
        attempt: 0,
        max_attempts: 0,
        doomed: false,
        hash: None,
        expires: None,
        backoff: None,
        group: None,
        headers: Vec::new(),
        payload,
        zstd: false,
        reason: None,
    }
    .encode()
}
