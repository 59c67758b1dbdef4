//! A timer over several independent Redises.

use crate::stand::{Became, Running, read, start};
use delayq::{Admin, Client, Message, Producer, Settings, ShardCount, Topic, UnixMillis};
use delayq_service::Fault;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::created;
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::redis_nodes::{RedisNodes, settings};
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use delayq_timer::{Membership, TimerConfig};
use std::ops::Range;
use std::time::Duration;

const SLOW: Duration = Duration::from_millis(400);
/// Messages due in a run, one in each 2 ms; for each five of them, one more at the slow node.
const DUE: u64 = 1_000;
const AT_SLOW: u64 = 5;
const RUNS: usize = 3;

async fn single(settings: Settings) -> Result<Running, Fault> {
    start(TimerConfig::default(), Client::new(settings), Membership::single("one")).await
}

async fn says(timer: &Running, why: &str) {
    let is_said = async || timer.readiness.unready().iter().any(|unready| unready.reason.contains(why));
    wait_until(why, LONG, is_said).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_timer_begins_without_the_shards_of_an_emptied_node_and_takes_them_once_they_are_created() {
    let nodes = RedisNodes::start(2).await;
    let (_, admin, _) = created(nodes.settings()).await;
    nodes.servers[0].command::<()>(&["FLUSHALL"]).await;
    let timer = single(nodes.settings()).await.unwrap();
    timer.owns(4).await;
    says(&timer, "shard 0 does not exist").await;
    assert_eq!(admin.init().await.unwrap(), 2);
    timer.owns(6).await;
    timer.is_ready().await;
    timer.stop().await;
    for server in &nodes.servers {
        server.command::<()>(&["FLUSHALL"]).await;
    }
    let refused = single(nodes.settings()).await.err().unwrap().to_string();
    assert!(refused.starts_with("DQ-R002"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_timer_without_the_node_of_a_growth_begins_with_the_shards_of_the_others() {
    let nodes = RedisNodes::start(2).await;
    let old = settings(&nodes.rows()[..2], 4);
    let _ = created(old.clone()).await;
    let prepared = Admin::new(Client::new(settings(&nodes.rows(), 4)));
    prepared.shards().grow(ShardCount::new(6).unwrap(), |_| ()).await.unwrap();
    let timer = single(old).await.unwrap();
    timer.owns(4).await;
    says(&timer, "shard 4 has no node").await;
    timer.stop().await;
}

/// Returns the range of due times.
async fn put_due(nodes: &RedisNodes, producer: &Producer) -> Range<u64> {
    let count = ShardCount::new(nodes.shards()).unwrap();
    let start = nodes.servers[0].now_ms().await + 2_000;
    let message = |due: u64, slow: bool| {
        let at = |id: &String| nodes.shards_of(2).contains(&count.shard_of_name(id).get()) == slow;
        let id = (0..).map(|n| format!("{due}-{n}")).find(at).unwrap();
        Message::new(Topic::new("notices").unwrap(), "x").at(UnixMillis::new(due)).id(id).unwrap()
    };
    let due = |n: u64| start + 2 * n;
    let others = (0..DUE).map(|n| message(due(n), false));
    let slow = (0..DUE).step_by(AT_SLOW as usize).map(|n| message(due(n), true));
    for put in producer.put_many(others.chain(slow).collect()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
    assert!(nodes.servers[0].now_ms().await < start, "the puts took too long to be out of the way");
    start..due(DUE)
}

async fn became(nodes: &RedisNodes, node: usize, due: &Range<u64>) -> Vec<Became> {
    let mut became = Vec::new();
    for shard in nodes.shards_of(node) {
        let key = format!("{{dq:{shard}}}:r:1");
        let entries: Vec<Vec<u8>> = nodes.servers[node].command(&["LRANGE", &key, "0", "-1"]).await;
        became.extend(entries.iter().map(|entry| read(entry)).filter(|became| due.contains(&became.due_ms)));
    }
    became
}

async fn lateness(nodes: &RedisNodes, producer: &Producer, proxy: &Proxy, flow: Flow) -> Vec<u64> {
    let due = put_due(nodes, producer).await;
    proxy.set_both(flow);
    wait_until("the last to be due", LONG, async || nodes.servers[0].now_ms().await > due.end).await;
    let ready = async |node| became(nodes, node, &due).await;
    let mut late = Vec::new();
    wait_until("all to be ready", LONG, async || {
        ready(0).await.len() + ready(1).await.len() >= DUE as usize
            && ready(2).await.len() as u64 >= DUE / AT_SLOW
    })
    .await;
    for node in [0, 1] {
        late.extend(ready(node).await.iter().map(Became::late_us));
    }
    proxy.set_both(Flow::Pass);
    late
}

fn p99(mut late: Vec<u64>) -> Duration {
    late.sort_unstable();
    Duration::from_micros(late[(late.len() - 1) * 99 / 100])
}

/// Compares with the same messages beside a sound node.
async fn beside_a_slow_node() -> Timing {
    let nodes = RedisNodes::start(4).await;
    let (_, _, producer) = created(nodes.settings()).await;
    let proxy = Proxy::start_for_redis(&nodes.servers[2].address());
    let mut rows = nodes.rows();
    rows[2][1] = nodes.servers[2].url_through(&proxy.address());
    let timer = single(settings(&rows, nodes.shards())).await.unwrap();
    timer.owns(nodes.shards()).await;
    timer.is_ready().await;
    let (stall, mut alone, mut beside) = (Stall::watch(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        alone.extend(lateness(&nodes, &producer, &proxy, Flow::Pass).await);
        beside.extend(lateness(&nodes, &producer, &proxy, Flow::Delay(SLOW)).await);
    }
    timer.stop().await;
    let (alone, beside) = (p99(alone), p99(beside));
    let times = beside.as_secs_f64() / alone.as_secs_f64();
    println!("p99 of the lateness alone {alone:?}, beside a slow node {beside:?}: {times:.2} x");
    stall.judge("p99 beside a slow node", beside, alone * 3 / 2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_slow_node_makes_the_messages_of_the_others_no_later() {
    conclusive(beside_a_slow_node).await;
}
