//! Sweeps: the timer that pumps the first shard finds and mends faults in shards under load.

use crate::load::Load;
use crate::stand::{Running, Stand, polling, start_sweeping};
use delayq::admin::{Policy, Sweep};
use delayq::protocol::{Holder, ReserveRequest, ShardId};
use delayq::{Group, Message, ShardCount, Topic};
use delayq_service::config::HumanDuration;
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::invariants::{Permit, check};
use delayq_timer::{Membership, SweepConfig, TimerConfig};
use std::time::Duration;

const SHARDS: u16 = 4;
const FAR: Duration = Duration::from_secs(3600);
const FINISHED: &str = "delayq_timer_sweeps_total{outcome=\"finished\"}";
const KINDS: [&str; 6] = ["no_place", "no_alarm", "no_lease", "no_group_entry", "stale_entry", "counter"];

const TAKE_OUT: &str = "local gone = 0
for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if string.find(entry, ARGV[1], 1, true) then gone = gone + redis.call('ZREM', KEYS[1], entry) end
end
return gone";

struct Faulty<'a> {
    stand: &'a Stand,
    topic: Topic,
    group: Group,
    shard: ShardId,
    base: String,
    number: String,
}

fn often() -> SweepConfig {
    SweepConfig { every: HumanDuration::from_millis(100), share: 0.5, dry_run: false }
}

async fn sweeper(stand: &Stand, owner: &str, sweep: SweepConfig) -> Running {
    let membership = Membership::Single { owner: owner.to_owned() };
    let timer =
        start_sweeping(TimerConfig::default(), stand.client.clone(), membership, sweep).await.unwrap();
    timer.owns(stand.shards).await;
    timer
}

fn of_kind(timer: &Running, what: &str, kind: &str) -> f64 {
    timer.metric(&format!("delayq_timer_sweep_{what}_total{{kind=\"{kind}\"}}"))
}

// === impl Faulty ===

impl<'a> Faulty<'a> {
    async fn new(stand: &'a Stand) -> Self {
        let (topic, group) = (Topic::new("planted").unwrap(), Group::new("planted").unwrap());
        let lease = Some(Duration::from_secs(1));
        stand.admin.topic(&topic).set_policy(&Policy { lease, ..Policy::default() }).await.unwrap();
        let shard = ShardCount::new(stand.shards).unwrap().shard_of_name("planted");
        let base = format!("{{dq:{shard}}}:");
        let number = stand.server.command(&["HGET", &format!("{base}meta"), "topic:planted"]).await;
        Self { stand, topic, group, shard, base, number }
    }

    async fn put(&self, id: &str, after: Duration) {
        let message = Message::new(self.topic.clone(), "x").id(id).unwrap().with_group(self.group.clone());
        self.stand.deployment.put([message.after(after)]).await;
    }

    /// Leases for longer than a test: a mended lease ends when a lease by the topic's policy would.
    async fn reserve(&self) -> usize {
        let topics = vec![self.topic.clone()];
        let request = ReserveRequest { topics, most: 10, max_bytes: 0, lease: Some(FAR) };
        let reserved = Holder::new(self.stand.client.clone()).reserve(&[(self.shard, request)]).await;
        reserved.into_iter().map(|report| report.unwrap().messages.len()).sum()
    }

    async fn take_out(&self, index: &str, id: &str) {
        let key = format!("{}{index}", self.base);
        let removed: usize = self.stand.server.command(&["EVAL", TAKE_OUT, "1", &key, id]).await;
        assert_eq!(removed, 1, "{id} in {index}");
    }

    async fn bucket_of(&self, id: &str) -> String {
        let pattern = format!("{}b:{}:*", self.base, self.number);
        let buckets: Vec<String> = self.stand.server.command(&["KEYS", &pattern]).await;
        for bucket in buckets {
            let entries: Vec<Vec<u8>> = self.stand.server.command(&["ZRANGE", &bucket, "0", "-1"]).await;
            if entries.iter().any(|entry| String::from_utf8_lossy(entry).contains(id)) {
                return bucket[self.base.len()..].to_owned();
            }
        }
        panic!("{id} is in no bucket");
    }

    /// One fault of each of [`KINDS`], in four messages that all stay.
    async fn plant(&self) {
        self.put("lost", FAR).await;
        self.put("silent", 4 * FAR).await;
        self.put("alone", 8 * FAR).await;
        self.put("unleased", Duration::ZERO).await;
        assert_eq!(self.reserve().await, 1);
        self.take_out("leases", "unleased").await;
        self.take_out(&self.bucket_of("lost").await, "lost").await;
        self.take_out("alarms", &self.bucket_of("silent").await).await;
        self.take_out("g:planted", "alone").await;
        let stale = [self.base.as_str(), &self.bucket_of("alone").await].concat();
        let () = self.stand.server.command(&["ZADD", &stale, "9999999999999", "nobody0000"]).await;
        self.miscount().await;
    }

    async fn miscount(&self) {
        let (stats, counter) = (format!("{}stats", self.base), format!("accepted:{}", self.number));
        let () = self.stand.server.command(&["HINCRBY", &stats, &counter, "9"]).await;
    }

    async fn is_clean(&self) -> bool {
        self.stand.admin.audit().run(|_| {}).await.unwrap().is_clean()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_under_load_is_mended_by_the_timer_and_nothing_else_is_touched() {
    let stand = Stand::new(SHARDS).await;
    let timer = sweeper(&stand, "one", often()).await;
    let load = Load::start(&stand.server).await;
    load.reaches(200).await;
    let faulty = Faulty::new(&stand).await;
    faulty.plant().await;
    for kind in KINDS {
        wait_until(kind, LONG, || async { of_kind(&timer, "mended", kind) >= 1.0 }).await;
    }
    wait_until("the message without a lease", LONG, || async { faulty.reserve().await == 1 }).await;
    load.reaches(600).await;
    let history = within("the end of the load", LONG, load.drain()).await;
    let violations = check(&history, &Permit::default());
    assert!(violations.is_empty(), "{violations:#?}");
    wait_until("an audit to be clean", LONG, || async { faulty.is_clean().await }).await;
    for topic in [&faulty.topic, &crate::load::topic()] {
        let numbers = stand.admin.topic(topic).count().await.unwrap();
        let pending = if topic == &faulty.topic { 4 } else { 0 };
        assert_eq!((numbers.balances(), numbers.pending()), (true, pending), "{topic}: {numbers:?}");
    }
    let mended = Sweep::KINDS.map(|kind| (kind, of_kind(&timer, "mended", kind).round() as u64));
    // The counter of accepted messages, and the counter of ready messages: the message missing from its
    // bucket counted as ready.
    let planted = |kind| if kind == "counter" { 2 } else { u64::from(KINDS.contains(&kind)) };
    assert_eq!(mended, Sweep::KINDS.map(|kind| (kind, planted(kind))));
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_finds_what_is_wrong_and_mends_nothing() {
    let stand = Stand::new(SHARDS).await;
    let faulty = Faulty::new(&stand).await;
    faulty.plant().await;
    let before = stand.admin.audit().run(|_| {}).await.unwrap();
    let timer = sweeper(&stand, "one", SweepConfig { dry_run: true, ..often() }).await;
    timer.exceeds(FINISHED, 1.5).await;
    for kind in KINDS.into_iter().filter(|kind| *kind != "counter") {
        assert!(of_kind(&timer, "found", kind) >= 2.0, "{kind} is found by each sweep");
        assert!(of_kind(&timer, "mended", kind) < 0.5, "{kind}");
    }
    assert_eq!(stand.admin.audit().run(|_| {}).await.unwrap().findings, before.findings);
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_another_timer_takes_over_is_swept_by_that() {
    let stand = Stand::new(SHARDS).await;
    let far = stand.now_ms().await + 86_400_000;
    stand.put((0..5_000).map(|n| far + n)).await;
    // So slow that the sweep is still under way at the stop.
    let first = sweeper(&stand, "first", SweepConfig { share: 0.02, ..often() }).await;
    first.exceeds("delayq_timer_sweep_looked_at_total", 0.5).await;
    assert!(first.metric(FINISHED) < 0.5);
    first.stop().await;
    let faulty = Faulty::new(&stand).await;
    faulty.plant().await;
    let second = sweeper(&stand, "second", often()).await;
    wait_until("the second to mend it", LONG, || async { faulty.is_clean().await }).await;
    second.exceeds("delayq_timer_sweep_looked_at_total", 10_000.0).await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_two_walks_found_off_is_mended_though_redis_was_away_between_them() {
    let stand = Stand::new(SHARDS).await;
    let faulty = Faulty::new(&stand).await;
    faulty.put("counted", FAR).await;
    faulty.miscount().await;
    let seldom = SweepConfig { every: HumanDuration::from_secs(4), ..often() };
    let membership = Membership::Single { owner: "one".to_owned() };
    let config = polling(Duration::from_millis(250));
    let timer = start_sweeping(config, stand.client.clone(), membership, seldom).await.unwrap();
    timer.exceeds(FINISHED, 0.5).await;
    let () = stand.server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    timer.unready().await;
    let () = stand.server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    timer.is_ready().await;
    timer.exceeds(FINISHED, 1.5).await;
    assert!(of_kind(&timer, "mended", "counter") > 0.5, "the second walk knew of the first");
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_takes_no_more_of_redis_than_its_share() {
    const SHARE: f64 = 0.05;
    let stand = Stand::new(SHARDS).await;
    let far = stand.now_ms().await + 86_400_000;
    stand.put((0..5_000).map(|n| far + n)).await;
    let () = stand.server.command(&["CONFIG", "RESETSTAT"]).await;
    let began = std::time::Instant::now();
    let (mut sweep, mut looked_at) = (stand.admin.audit().sweep(SHARE, true), 0);
    while let Some(swept) = sweep.next().await.unwrap() {
        looked_at += swept.looked_at;
    }
    let took = began.elapsed().as_secs_f64();
    let info: String = stand.server.command(&["INFO", "commandstats"]).await;
    let seconds = |command: &str| -> f64 {
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
        let usec = line.and_then(|line| line.split("usec=").nth(1)?.split(',').next()?.parse::<f64>().ok());
        usec.expect("the command was called") / 1e6
    };
    let busy = ["evalsha", "scan"].map(seconds).iter().sum::<f64>();
    assert!(looked_at >= 10_000, "{looked_at} messages and entries");
    // The pause after each call is proportional to the call's duration, so a slow machine does not raise this share.
    assert!(busy / took <= SHARE, "{busy} s of {took} s");
}
