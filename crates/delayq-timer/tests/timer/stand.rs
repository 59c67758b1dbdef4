//! A deployment on a private Redis, a timer in this process, and the messages that became ready.

use delayq::protocol::ShardId;
use delayq::{Admin, Client, Group, Message, ShardCount, Topic, UnixMillis};
use delayq_service::config::HumanDuration;
use delayq_service::{Fault, Metrics, Readiness, Shutdown};
use delayq_tests::deadline::{SHORT, wait_for, wait_until, within};
use delayq_tests::deployment::{Deployment, settings};
use delayq_tests::redis_server::RedisServer;
use delayq_timer::{Deps, Membership, SweepConfig, TimerConfig, build};
use std::ops::Deref;
use std::time::Duration;
use tokio::task::JoinHandle;

pub(crate) struct Stand {
    pub(crate) deployment: Deployment<RedisServer>,
    pub(crate) shards: u16,
}

impl Deref for Stand {
    type Target = Deployment<RedisServer>;

    fn deref(&self) -> &Deployment<RedisServer> {
        &self.deployment
    }
}

pub(crate) struct Running {
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), Fault>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Became {
    pub(crate) id: String,
    pub(crate) due_ms: u64,
    /// By Redis's clock.
    pub(crate) ready_us: u64,
}

// === impl Stand ===

impl Stand {
    pub(crate) async fn on(server: RedisServer, shards: u16) -> Self {
        Self { deployment: Deployment::on(server, shards).await, shards }
    }

    pub(crate) async fn new(shards: u16) -> Self {
        Self::on(RedisServer::private().await, shards).await
    }

    pub(crate) async fn timer(&self) -> Running {
        self.timer_with(TimerConfig::default(), "one").await
    }

    pub(crate) async fn timer_with(&self, config: TimerConfig, owner: &str) -> Running {
        let membership = Membership::Single { owner: owner.to_owned() };
        let running = start(config, self.client.clone(), membership).await.unwrap();
        running.owns(self.shards).await;
        running
    }

    pub(crate) async fn now_ms(&self) -> u64 {
        self.deployment.now().await.get()
    }

    /// The id of each message contains the due time and a number.
    pub(crate) async fn put(&self, due: impl IntoIterator<Item = u64>) -> usize {
        let message = |(n, due): (usize, u64)| {
            let message = Message::new(Topic::new("notices").unwrap(), "x").at(UnixMillis::new(due));
            message.id(format!("{due}-{n}")).unwrap()
        };
        self.put_all(due.into_iter().enumerate().map(message).collect()).await
    }

    /// Puts a message for each due time into one shard, by a group.
    pub(crate) async fn put_into(&self, shard: ShardId, due: impl IntoIterator<Item = u64>) -> usize {
        let group = (0..)
            .map(|n| format!("group-{n}"))
            .find(|name| ShardCount::new(self.shards).unwrap().shard_of_name(name) == shard);
        let group = Group::new(group.unwrap()).unwrap();
        let message = |(n, due): (usize, u64)| {
            let message = Message::new(Topic::new("notices").unwrap(), "x").at(UnixMillis::new(due));
            message.id(format!("{due}-{n}")).unwrap().with_group(group.clone())
        };
        self.put_all(due.into_iter().enumerate().map(message).collect()).await
    }

    async fn put_all(&self, messages: Vec<Message>) -> usize {
        let count = messages.len();
        self.deployment.put(messages).await;
        count
    }

    pub(crate) async fn became(&self) -> Vec<Became> {
        let mut became = Vec::new();
        for shard in 0..self.shards {
            let key = format!("{{dq:{shard}}}:r:1");
            let entries: Vec<Vec<u8>> = self.server.command(&["LRANGE", &key, "0", "-1"]).await;
            became.extend(entries.iter().map(|entry| read(entry)));
        }
        became
    }

    pub(crate) async fn ready(&self) -> usize {
        let mut ready = 0;
        for shard in 0..self.shards {
            ready += self.server.command::<usize>(&["LLEN", &format!("{{dq:{shard}}}:r:1")]).await;
        }
        ready
    }

    pub(crate) async fn all_held(&self, held: bool) {
        let admin = Admin::new(self.client.clone());
        let shards: Vec<_> = self.client.shards().shards().collect();
        wait_until(&format!("every shard's hold to be {held}"), SHORT, async || {
            admin.shards().overview_of(&shards).await.into_iter().all(|seen| seen.unwrap().held == held)
        })
        .await;
    }

    /// Waits for `count` ready messages, asserts that none is early or doubled, and returns the latenesses in
    /// µs, sorted.
    pub(crate) async fn all_ready(&self, count: usize) -> Vec<u64> {
        wait_until("the messages to be ready", SHORT, || async { self.ready().await >= count }).await;
        let mut became = self.became().await;
        became.sort();
        assert_eq!(became.len(), count, "more became ready than was put");
        assert!(became.windows(2).all(|pair| pair[0].id != pair[1].id), "a message became ready twice");
        let mut late: Vec<u64> = became.iter().map(Became::late_us).collect();
        late.sort_unstable();
        late
    }
}

// === impl Running ===

impl Running {
    /// The sum of a metric over its labels; a name with labels selects one series.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.encode();
        let is_of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let values = text.lines().filter(is_of);
        values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    pub(crate) async fn owns(&self, shards: u16) {
        self.reaches("delayq_timer_shards", f64::from(shards)).await;
    }

    pub(crate) async fn reaches(&self, name: &str, value: f64) {
        let what = format!("{name} to be {value}");
        wait_until(&what, SHORT, || async { (self.metric(name) - value).abs() < 0.5 }).await;
    }

    pub(crate) async fn exceeds(&self, name: &str, value: f64) {
        wait_until(&format!("{name} to rise above {value}"), SHORT, || async { self.metric(name) > value })
            .await;
    }

    pub(crate) async fn unready(&self) -> String {
        wait_for("the timer not to be ready", SHORT, || async { self.unready_now() }).await
    }

    pub(crate) async fn unready_for(&self, part: &str) -> String {
        let says = || self.unready_now().filter(|why| why.contains(part));
        wait_for(&format!("the timer to say {part}"), SHORT, async || says()).await
    }

    pub(crate) fn unready_now(&self) -> Option<String> {
        self.readiness.unready().first().map(|unready| unready.reason.clone())
    }

    pub(crate) async fn is_ready(&self) {
        wait_until("the timer to be ready", SHORT, || async { self.readiness.unready().is_empty() }).await;
    }

    pub(crate) fn ask_to_stop(&self) {
        self.shutdown.request();
    }

    pub(crate) async fn stop(self) {
        self.shutdown.request();
        within("the timer's end", SHORT, self.task).await.unwrap().unwrap();
    }

    /// Ends the timer at any point, like a kill.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

// === impl Became ===

impl Became {
    pub(crate) fn late_us(&self) -> u64 {
        let due_us = self.due_ms * 1000;
        assert!(self.ready_us >= due_us, "{} became ready {} µs early", self.id, due_us - self.ready_us);
        self.ready_us - due_us
    }
}

pub(crate) fn client(url: &str, shards: u16) -> Client {
    Client::new(settings(url, shards))
}

pub(crate) async fn start(
    config: TimerConfig,
    client: Client,
    membership: Membership,
) -> Result<Running, Fault> {
    start_sweeping(config, client, membership, SweepConfig::default()).await
}

pub(crate) async fn start_sweeping(
    config: TimerConfig,
    client: Client,
    membership: Membership,
    sweep: SweepConfig,
) -> Result<Running, Fault> {
    let (metrics, readiness, shutdown) = (Metrics::new(), Readiness::new(), Shutdown::new());
    let deps = Deps { client, metrics: metrics.clone(), readiness: readiness.clone(), membership, sweep };
    let timer = build(config, deps).await?;
    let task = tokio::spawn(timer.run(shutdown.clone()));
    Ok(Running { metrics, readiness, shutdown, task })
}

pub(crate) fn polling(every: Duration) -> TimerConfig {
    TimerConfig { poll_interval: HumanDuration::from(every), ..TimerConfig::default() }
}

/// An entry of a ready queue: id, gen (4 bytes), ready time (7 bytes, µs).
pub(crate) fn read(entry: &[u8]) -> Became {
    let (id, stamp) = entry.split_at(entry.len() - 11);
    let ready_us = stamp[4..].iter().fold(0_u64, |us, &byte| us << 8 | u64::from(byte));
    let id = String::from_utf8(id.to_vec()).unwrap();
    let due_ms = id.split('-').next().unwrap().parse().unwrap();
    Became { id, due_ms, ready_us }
}
