//! A deployment, and readers of an outbox in any database.

use delayq::protocol::Envelope;
use delayq::{Admin, Group, MessageId, Target, Topic};
use delayq_compensator::{
    OutboxConfig, OutboxKeeper, SourceDeps, SourcesMetrics, build_outbox, outbox_keeper,
};
use delayq_service::config::{HumanDuration, Secret};
use delayq_service::{Fault, Metrics, Readiness, Shutdown};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use futures_util::future::join_all;
use std::ops::Range;
use std::sync::Mutex;
use tokio::task::JoinHandle;

pub(crate) struct Readers {
    pub(crate) deployment: Deployment<RedisServer>,
    pub(crate) config: OutboxConfig,
    reports: Mutex<Vec<(Metrics, Readiness)>>,
}

pub(crate) struct Reading {
    shutdown: Shutdown,
    running: JoinHandle<Result<(), Fault>>,
}

pub(crate) fn ms(ms: u64) -> HumanDuration {
    HumanDuration::from_millis(ms)
}

pub(crate) fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

const WRITERS: u64 = 6;
const EACH: u64 = 60;
pub(crate) const OVERLAPPING: u64 = WRITERS * EACH * 2 * 9 / 10;

/// Transactions of two rows each, over connections of their own, with other commits in between; a tenth is
/// rolled back.
pub(crate) async fn write_overlapping<R: AsyncFnMut(String)>(connect: impl AsyncFn() -> R) {
    let writing = (0..WRITERS).map(async |writer| {
        let (mut run, mut random) = (connect().await, fastrand::Rng::with_seed(writer));
        for n in 0..EACH {
            let row = |part: &str| {
                format!("INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'w{writer}-{n}-{part}')")
            };
            run(format!("BEGIN; {}", row("a"))).await;
            for _ in 0..random.u8(0..16) {
                tokio::task::yield_now().await;
                run("SELECT 1".to_owned()).await;
            }
            let end = if n % 10 == 9 { "ROLLBACK" } else { "COMMIT" };
            run(format!("{}; {end}", row("b"))).await;
        }
    });
    join_all(writing).await;
}

/// Resting rows of 200 kB come in pages of at most 8 MiB to an operator, and to a reader once they can be
/// carried out; the names come in one page. `insert` inserts a range of rows.
pub(crate) async fn pages_of_rows_that_rest(readers: &Readers, insert: impl AsyncFnOnce(Range<u64>)) {
    const ROWS: u64 = 240;
    let rename = async |from: &str, to: &str| {
        let _: String = readers.deployment.server.command(&["RENAME", from, to]).await;
    };
    rename("{dq:2}:meta", "{dq:2}:away").await;
    insert(0..ROWS).await;
    let reader = readers.read();
    let mut keeper = readers.keeper();
    wait_until("all but the missing shard's", LONG, async || {
        let resting = readers.keeper().books().await.unwrap().resting;
        resting > 42 && readers.done().await + resting == ROWS
    })
    .await;
    let names = keeper.aside_names(true, 0, 1000).await.unwrap();
    assert!(names.iter().all(|row| row.row.payload().is_none() && row.row.id().starts_with('m')));
    let (mut numbers, mut pages) = (Vec::new(), 0);
    loop {
        let page = keeper.aside(true, numbers.last().copied().unwrap_or(0), 1000).await.unwrap();
        let bytes: usize = page.iter().map(|row| row.row.payload().unwrap().len()).sum();
        assert!(bytes <= 8 << 20, "{bytes}");
        if page.is_empty() {
            break;
        }
        numbers.extend(page.iter().map(|row| row.number));
        pages += 1;
    }
    assert!(pages > 1);
    assert_eq!(numbers, names.iter().map(|row| row.number).collect::<Vec<_>>());
    rename("{dq:2}:away", "{dq:2}:meta").await;
    readers.is_all_settled().await;
    assert_eq!(readers.accepted().await, ROWS);
    reader.end().await;
}

// === impl Readers ===

impl Readers {
    pub(crate) async fn new(url: String, change: impl FnOnce(&mut OutboxConfig)) -> Self {
        let redis = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
        let mut config =
            OutboxConfig { url: Some(Secret::plain(url)), poll_interval: ms(20), ..OutboxConfig::default() };
        change(&mut config);
        let readers = Self { deployment: Deployment::on(redis, 4).await, config, reports: Mutex::default() };
        assert!(readers.keeper().init().await.unwrap());
        readers
    }

    pub(crate) fn keeper(&self) -> OutboxKeeper {
        outbox_keeper(&self.config).unwrap()
    }

    fn deps(&self) -> SourceDeps {
        let (metrics, readiness) = (Metrics::new(), Readiness::new());
        self.reports.lock().unwrap().push((metrics.clone(), readiness.clone()));
        let metrics = SourcesMetrics::register(&metrics);
        SourceDeps { client: self.deployment.client.clone(), metrics, readiness }
    }

    pub(crate) async fn try_read(&self) -> Result<(), String> {
        build_outbox(self.config.clone(), self.deps()).await.map(drop).map_err(|fault| fault.to_string())
    }

    pub(crate) fn read(&self) -> Reading {
        let (config, deps, shutdown) = (self.config.clone(), self.deps(), Shutdown::new());
        let of = shutdown.clone();
        let running = tokio::spawn(async move { build_outbox(config, deps).await?.run(of).await });
        Reading { shutdown, running }
    }

    pub(crate) async fn stored(&self, id: &str, group: Option<&str>) -> Option<Envelope> {
        let group = group.map(|group| Group::new(group).unwrap());
        let target = Target { id: MessageId::own(id).unwrap(), group };
        let found = Admin::new(self.deployment.client.clone()).topic(&topic()).get(&target).await.unwrap();
        found.map(|found| found.envelope.unwrap())
    }

    pub(crate) async fn accepted(&self) -> u64 {
        Admin::new(self.deployment.client.clone()).topic(&topic()).count().await.unwrap().accepted
    }

    pub(crate) fn metrics(&self) -> String {
        self.reports.lock().unwrap().iter().map(|(metrics, _)| metrics.encode()).collect()
    }

    pub(crate) async fn is_unready(&self, why: &str) {
        wait_until(why, LONG, async || {
            let reports = self.reports.lock().unwrap();
            let mut unready = reports.iter().flat_map(|(_, readiness)| readiness.unready());
            unready.any(|unready| unready.reason.contains(why))
        })
        .await;
    }

    pub(crate) async fn done(&self) -> u64 {
        self.settled("done")
    }

    pub(crate) fn settled(&self, outcome: &str) -> u64 {
        self.sum(&format!("delayq_source_settled_total{{source=\"outbox\",outcome=\"{outcome}\"}} "))
    }

    fn sum(&self, series: &str) -> u64 {
        let text = self.metrics();
        text.lines()
            .filter_map(|line| line.strip_prefix(series))
            .map(|count| count.parse::<u64>().unwrap())
            .sum()
    }

    pub(crate) async fn is_settled(&self, rows: u64) {
        wait_until("rows to be carried out", LONG, async || self.done().await >= rows).await;
    }

    pub(crate) async fn is_all_settled(&self) {
        wait_until("an empty outbox", LONG, async || {
            self.keeper().books().await.is_ok_and(|books| books.oldest.is_none())
        })
        .await;
    }

    /// Reads to the end: the messages `ids` arrive, and `aside` rows are set aside, for `reasons` among others.
    pub(crate) async fn is_read(&self, ids: &[&str], aside: usize, reasons: [&str; 2]) {
        let reader = self.read();
        self.is_all_settled().await;
        for id in ids {
            assert!(self.stored(id, None).await.is_some(), "{id}");
        }
        let rows = self.keeper().aside(false, 0, 50).await.unwrap();
        let found: Vec<_> = rows.iter().map(|row| row.reason.as_str()).collect();
        assert_eq!((self.accepted().await, found.len()), (ids.len() as u64, aside), "{found:?}");
        assert!(reasons.iter().all(|reason| found.contains(reason)), "{found:?}");
        reader.end().await;
    }

    pub(crate) async fn waits_for_more_than(&self, accepted: u64) {
        wait_until("more messages", LONG, async || self.accepted().await > accepted).await;
    }

    pub(crate) fn held_turns(&self) -> u64 {
        self.sum("delayq_source_held_total{source=\"outbox\"} ")
    }

    pub(crate) async fn held(&self) {
        wait_until("a turn that is held", LONG, async || self.held_turns() > 0).await;
    }

    /// Waits until the tables take less room than their indexes alone did.
    pub(crate) async fn is_truncated(&self) {
        wait_until("truncated tables", LONG, async || self.keeper().books().await.unwrap().bytes < 100_000)
            .await;
    }
}

// === impl Reading ===

impl Reading {
    pub(crate) async fn end(self) {
        self.shutdown.request();
        within("the reader's end", LONG, self.running).await.unwrap().unwrap();
    }

    /// Ends the reader at any point, like a kill.
    pub(crate) async fn abort(self) {
        self.running.abort();
        assert!(self.running.await.unwrap_err().is_cancelled());
    }
}
