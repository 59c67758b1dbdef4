//! A Redis of its own, spoken to directly, that says what each call cost inside it.

use delayq::protocol::Envelope;
use delayq::{State, UnixMillis};
use delayq_tests::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use std::collections::BTreeMap;

/// The bytes of the JSON order that every message carries.
pub(crate) const PAYLOAD_BYTES: usize = 200;
/// Over how many hours the pending messages are spread.
pub(crate) const HOURS: u64 = 5;
pub(crate) const HOUR_MS: u64 = 3_600_000;
/// How long the first messages wait, so that none becomes due while all is measured.
const HEADROOM_MS: u64 = 240_000;

/// How long ago what is due became so.
const PAST_MS: u64 = 50_000;

/// The cost is the server's, so that the client's does not matter.
pub(crate) struct Server {
    redis: RedisServer,
    connection: MultiplexedConnection,
    /// In-server µs for each message (or call), by the row of the table.
    laps: BTreeMap<&'static str, Vec<f64>>,
    next_id: u64,
    /// The first of the hours.
    first_hour_ms: u64,
    /// No pending message of the first hour is due before.
    soonest_ms: u64,
    pub(crate) now_ms: u64,
    /// What it used when it was empty.
    empty_bytes: f64,
}

// === impl Server ===

impl Server {
    pub(crate) async fn start() -> Self {
        let redis = RedisServer::private().await;
        let mut connection = redis.connect().await;
        let (seconds, _): (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await.expect("TIME");
        let now_ms = seconds * 1000;
        let soonest_ms = now_ms + HEADROOM_MS;
        let first_hour_ms = soonest_ms - soonest_ms % HOUR_MS;
        let mut server = Self {
            redis,
            connection,
            laps: BTreeMap::new(),
            next_id: 0,
            first_hour_ms,
            soonest_ms,
            now_ms,
            empty_bytes: 0.0,
        };
        server.empty_bytes = server.used_bytes().await;
        server
    }

    /// A due time in that hour (of [`HOURS`]), as if by chance, but for every server the same.
    pub(crate) fn due_ms(&self, hour: u64, n: usize) -> u64 {
        let start = (self.first_hour_ms + hour % HOURS * HOUR_MS).max(self.soonest_ms);
        let end = self.first_hour_ms + (hour % HOURS + 1) * HOUR_MS;
        start + spread(n as u64) % (end - start)
    }

    /// A due time that is past: of the last 50 seconds before the start, or before the hour began.
    pub(crate) fn past_ms(&self, n: usize) -> u64 {
        let hour = self.now_ms - self.now_ms % HOUR_MS;
        let last = if self.now_ms - hour > PAST_MS { self.now_ms } else { hour };
        last - 1 - spread(n as u64) % PAST_MS
    }

    /// An id as the client makes them, spread like those of many clients.
    pub(crate) fn id(&mut self) -> Vec<u8> {
        [&[1, 2, 3, 4, 5, 6, 0x70, 0][..], &spread(self.number()).to_be_bytes()].concat()
    }

    /// A number that was not given before.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Makes a script known; its name in EVALSHA.
    pub(crate) async fn load(&mut self, source: &str) -> String {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(source);
        command.query_async(&mut self.connection).await.expect("a script loads")
    }

    /// Runs a command.
    pub(crate) async fn run(&mut self, command: &Cmd) -> Value {
        command.query_async(&mut self.connection).await.expect("a command is answered")
    }

    /// Runs a call of a script that handles `count` messages, and notes what it cost under `row`.
    pub(crate) async fn measure(&mut self, row: &'static str, count: usize, call: &Cmd) -> Value {
        let (spent, mut answers) = self.timed(std::slice::from_ref(call)).await;
        self.laps.entry(row).or_default().push(spent / count as f64);
        answers.remove(0)
    }

    /// Runs calls of scripts in one pipeline: the µs that they cost in the server, and their answers.
    pub(crate) async fn timed(&mut self, calls: &[Cmd]) -> (f64, Vec<Value>) {
        let mut pipeline = redis::pipe();
        for call in calls {
            pipeline.add_command(call.clone());
        }
        let before = self.spent_us().await;
        let answers = pipeline.query_async(&mut self.connection).await.expect("every call is answered");
        (self.spent_us().await - before, answers)
    }

    /// µs that the server spent in scripts since its start.
    async fn spent_us(&mut self) -> f64 {
        let info: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut self.connection).await.expect("INFO");
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
        let usec = line.and_then(|line| line.split(',').find_map(|part| part.strip_prefix("usec=")));
        usec.map_or(0.0, |usec| usec.parse().expect("usec is a number"))
    }

    /// Forgets what was measured so far.
    pub(crate) fn forget(&mut self) {
        self.laps.clear();
    }

    /// The median of what was measured, by row.
    pub(crate) fn medians(&self) -> BTreeMap<&'static str, f64> {
        let median = |laps: &Vec<f64>| {
            let mut laps = laps.clone();
            laps.sort_by(f64::total_cmp);
            laps[laps.len() / 2]
        };
        self.laps.iter().map(|(row, laps)| (*row, median(laps))).collect()
    }

    /// The bytes that Redis uses.
    pub(crate) async fn used_bytes(&self) -> f64 {
        let info: String = self.redis.command(&["INFO", "memory"]).await;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.and_then(|n| n.trim().parse().ok()).expect("INFO memory says used_memory")
    }

    /// The bytes of one of `pending` messages, where nothing else was stored since the start.
    pub(crate) async fn bytes_of(&self, pending: usize) -> f64 {
        (self.used_bytes().await - self.empty_bytes) / pending as f64
    }

    pub(crate) fn url(&self) -> String {
        self.redis.url()
    }
}

/// The numbers from 0, in an order as if by chance.
fn spread(n: u64) -> u64 {
    n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// A JSON order of [`PAYLOAD_BYTES`].
pub(crate) fn order(n: usize) -> Vec<u8> {
    let (order, sku) = (1_000_000 + n % 9_000_000, 10_000 + n * 7919 % 90_000);
    let body = format!(
        "{{\"order_id\":{order},\"user\":\"user-{:05}\",\"amount\":\"{}.{:02}\",\"currency\":\"EUR\",\"items\":\
         [{{\"sku\":\"{sku}\",\"count\":{},\"name\":\"item\"}}],\"created\":\"2026-11-21T10:{:02}:{:02}Z\",\"note\":\"",
        n * 104_729 % 100_000,
        100 + n % 900,
        n % 100,
        1 + n % 9,
        n / 60 % 60,
        n % 60,
    );
    let note = "please ring twice and leave it with the neighbour";
    let room = PAYLOAD_BYTES - body.len() - 2;
    format!("{body}{:.room$}\"}}", format!("{note:<room$}")).into_bytes()
}

/// An order as it is stored.
pub(crate) fn envelope() -> Envelope {
    Envelope {
        state: State::Delayed,
        generation: 0,
        due: UnixMillis::new(0),
        at: UnixMillis::new(0),
        delivery: 0,
        attempt: 0,
        max_attempts: 0,
        doomed: false,
        relative: false,
        hash: None,
        expires: None,
        backoff: None,
        group: None,
        headers: Vec::new(),
        payload: order(17),
        zstd: false,
        reason: None,
    }
}
