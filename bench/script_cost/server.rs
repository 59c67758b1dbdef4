//! A private Redis, addressed directly, that reports the cost of each call inside the server.

use delayq::protocol::Envelope;
use delayq::{State, UnixMillis};
use delayq_tests::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use std::collections::BTreeMap;

pub(crate) const PAYLOAD_BYTES: usize = 200;
pub(crate) const HOURS: u64 = 5;
pub(crate) const HOUR_MS: u64 = 3_600_000;
/// Delay of the first messages, so that none becomes due during the measurement.
const HEADROOM_MS: u64 = 240_000;

/// How long past due times lie in the past.
const PAST_MS: u64 = 50_000;

/// Measures the server's cost, independent of the client's.
pub(crate) struct Server {
    redis: RedisServer,
    connection: MultiplexedConnection,
    laps: BTreeMap<&'static str, Vec<f64>>,
    next_id: u64,
    first_hour_ms: u64,
    /// No pending message of the first hour is due before this.
    soonest_ms: u64,
    pub(crate) now_ms: u64,
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

    /// A pseudo-random due time in this hour (of [`HOURS`]), equal for every server.
    pub(crate) fn due_ms(&self, hour: u64, n: usize) -> u64 {
        let start = (self.first_hour_ms + hour % HOURS * HOUR_MS).max(self.soonest_ms);
        let end = self.first_hour_ms + (hour % HOURS + 1) * HOUR_MS;
        start + spread(n as u64) % (end - start)
    }

    /// A past due time: within 50 seconds before the start, or before the hour began.
    pub(crate) fn past_ms(&self, n: usize) -> u64 {
        let hour = self.now_ms - self.now_ms % HOUR_MS;
        let last = if self.now_ms - hour > PAST_MS { self.now_ms } else { hour };
        last - 1 - spread(n as u64) % PAST_MS
    }

    /// An id in the client's format, spread like the ids of many clients.
    pub(crate) fn id(&mut self) -> Vec<u8> {
        [&[1, 2, 3, 4, 5, 6, 0x70, 0][..], &spread(self.number()).to_be_bytes()].concat()
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) async fn load(&mut self, source: &str) -> String {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(source);
        command.query_async(&mut self.connection).await.expect("a script loads")
    }

    pub(crate) async fn run(&mut self, command: &Cmd) -> Value {
        command.query_async(&mut self.connection).await.expect("a command is answered")
    }

    /// Runs a script call that handles `count` messages, and records the cost under `row`.
    pub(crate) async fn measure(&mut self, row: &'static str, count: usize, call: &Cmd) -> Value {
        let (spent, mut answers) = self.timed(std::slice::from_ref(call)).await;
        self.laps.entry(row).or_default().push(spent / count as f64);
        answers.remove(0)
    }

    /// In one pipeline; returns the µs spent in the server, and the answers.
    pub(crate) async fn timed(&mut self, calls: &[Cmd]) -> (f64, Vec<Value>) {
        let mut pipeline = redis::pipe();
        for call in calls {
            pipeline.add_command(call.clone());
        }
        let before = self.spent_us().await;
        let answers = pipeline.query_async(&mut self.connection).await.expect("every call is answered");
        (self.spent_us().await - before, answers)
    }

    /// Since the server's start.
    async fn spent_us(&mut self) -> f64 {
        let info: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut self.connection).await.expect("INFO");
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
        let usec = line.and_then(|line| line.split(',').find_map(|part| part.strip_prefix("usec=")));
        usec.map_or(0.0, |usec| usec.parse().expect("usec is a number"))
    }

    pub(crate) fn forget(&mut self) {
        self.laps.clear();
    }

    pub(crate) fn medians(&self) -> BTreeMap<&'static str, f64> {
        let median = |laps: &Vec<f64>| {
            let mut laps = laps.clone();
            laps.sort_by(f64::total_cmp);
            laps[laps.len() / 2]
        };
        self.laps.iter().map(|(row, laps)| (*row, median(laps))).collect()
    }

    pub(crate) async fn used_bytes(&self) -> f64 {
        let info: String = self.redis.command(&["INFO", "memory"]).await;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.and_then(|n| n.trim().parse().ok()).expect("INFO memory says used_memory")
    }

    /// Bytes per message of `pending`, if nothing else was stored since the start.
    pub(crate) async fn bytes_of(&self, pending: usize) -> f64 {
        (self.used_bytes().await - self.empty_bytes) / pending as f64
    }

    pub(crate) async fn connect(&self) -> MultiplexedConnection {
        self.redis.connect().await
    }

    pub(crate) fn url(&self) -> String {
        self.redis.url()
    }
}

/// A pseudo-random permutation.
fn spread(n: u64) -> u64 {
    n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

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
        lifetime: None,
        hash: None,
        expires: None,
        backoff: None,
        group: None,
        first: None,
        headers: Vec::new(),
        payload: order(17),
        zstd: false,
        blocks: false,
        held: false,
        has_successor: false,
        paused: false,
        blocked: false,
        reason: None,
    }
}
