//! A fleet in one process against a real etcd: prints the cost of many members.
//!
//! `cargo run --release -p delayq-bench --bin fleet-bench -- [members] [shards] [to kill] [lease seconds]`
//! (defaults: 100, 1024, 10 and 10). Needs `etcd` in the PATH; starts and stops a private server.

#[path = "../../crates/delayq-cluster/tests/cluster/fleet.rs"]
#[allow(dead_code, clippy::unwrap_used, clippy::disallowed_methods)]
mod fleet;

use delayq_cluster::{Candidate, ClusterConfig, MemberId, ShardCount, ShardRanges, compute};
use delayq_tests::etcd_server::EtcdCluster;
use etcd_client::{Client, GetOptions, ResponseHeader};
use fleet::{Floor, Member, config};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|n| n.parse().expect("numbers only")).collect();
    let number = |place: usize, default: u64| numbers.get(place).copied().unwrap_or(default);
    let members = usize::try_from(number(0, 100)).expect("a number of members");
    let shards = u16::try_from(number(1, 1024)).expect("a number of shards");
    let doomed = usize::try_from(number(2, 10)).expect("how many die").min(members - 1);
    let lease = Duration::from_secs(number(3, 10));

    print_plan_times(members, usize::from(shards), doomed);
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let fleet = start(&etcd, &floor, members, shards, lease).await;
    print_keys(&etcd).await;
    print_steady_state(&etcd, members, fleet[0].handle.granted_ttl().unwrap_or(lease)).await;
    let fleet = kill(fleet, &floor, shards, doomed).await;
    let written = revision(&etcd).await;
    floor.forget_gaps();
    let fleet = drain_one(fleet, &floor, shards).await;
    print_cost(&etcd, &floor, written).await;
    let written = revision(&etcd).await;
    floor.forget_gaps();
    restart_in_turn(fleet, &floor, doomed, |name| config_of(&etcd, name, shards, lease)).await;
    print_cost(&etcd, &floor, written).await;
    let work = floor.work();
    println!("claims in Redis, and pumps fenced    {}, {}", work.claims, work.fenced);
}

fn config_of(etcd: &EtcdCluster, name: &str, shards: u16, lease: Duration) -> ClusterConfig {
    let mut config = config(&etcd.endpoints(), name, shards);
    config.etcd.lease_ttl = lease.into();
    config.etcd.call_deadline = Duration::from_secs(5).into();
    config
}

/// The pure function alone.
fn print_plan_times(members: usize, shards: usize, doomed: usize) {
    for (members, shards, doomed) in [(members, shards, doomed), (1000, 4096, 100)] {
        let candidate = |n: usize| Candidate {
            id: MemberId::from_text(&format!("m{n:04}")),
            name: format!("m{n}"),
            draining: false,
            hindered: ShardRanges::default(),
        };
        let all: Vec<Candidate> = (0..members).map(candidate).collect();
        let count = ShardCount::new(u16::try_from(shards).expect("few shards")).expect("not too many shards");
        let leader = &all[doomed].id;
        let mut first = Vec::new();
        let mut again = Vec::new();
        for _ in 0..9 {
            let started = Instant::now();
            let plan = compute(count, &all, None, leader);
            first.push(started.elapsed());
            let started = Instant::now();
            let next = compute(count, &all[doomed..], Some(&plan), leader);
            again.push(started.elapsed());
            assert_eq!(next.shard_count(), shards);
        }
        first.sort_unstable();
        again.sort_unstable();
        println!("plan {shards} shards on {members} members   {:?} (median of 9)", first[4]);
        println!("  and again without {doomed} of them       {:?}", again[4]);
    }
}

async fn start(
    etcd: &EtcdCluster,
    floor: &Floor,
    members: usize,
    shards: u16,
    lease: Duration,
) -> Vec<Member> {
    let started = Instant::now();
    let joining: Vec<_> = (0..members)
        .map(|n| {
            let config = config_of(etcd, &format!("m{n}"), shards, lease);
            let floor = floor.clone();
            tokio::spawn(async move { Member::join(config, &floor).await })
        })
        .collect();
    let mut fleet = Vec::new();
    for joined in joining {
        fleet.push(joined.await.expect("a member could not join"));
    }
    println!("{members} members joined                  {:?}", started.elapsed());
    wait_balanced(floor, &fleet, shards).await;
    println!("  every shard owned, balanced        {:?}", started.elapsed());
    fleet
}

async fn wait_balanced(floor: &Floor, fleet: &[Member], shards: u16) {
    let names: Vec<&str> = fleet.iter().map(|member| member.name.as_str()).collect();
    floor.until("balanced", |work| work.balanced(shards, &names)).await;
}

async fn print_keys(etcd: &EtcdCluster) {
    let mut client = Client::connect(etcd.endpoints(), None).await.expect("etcd is up");
    let options = GetOptions::new().with_prefix();
    let all = client.get("/delayq/", Some(options)).await.expect("etcd answers");
    let bytes: usize = all.kvs().iter().map(|kv| kv.key().len() + kv.value().len()).sum();
    let plan = all.kvs().iter().find(|kv| kv.key().ends_with(b"/plan")).map_or(0, |kv| kv.value().len());
    println!("keys in etcd                         {} ({bytes} bytes, the plan {plan})", all.kvs().len());
}

async fn print_cost(etcd: &EtcdCluster, floor: &Floor, written: i64) {
    println!("  written to etcd                    {} times", revision(etcd).await - written);
    println!("  a shard without a worker           {:?} at most", floor.work().longest_gap);
}

async fn revision(etcd: &EtcdCluster) -> i64 {
    let mut client = Client::connect(etcd.endpoints(), None).await.expect("etcd is up");
    client.get("/", None).await.expect("etcd answers").header().map_or(0, ResponseHeader::revision)
}

async fn print_steady_state(etcd: &EtcdCluster, members: usize, lease: Duration) {
    let before = etcd.members()[0].received().await;
    tokio::time::sleep(lease).await;
    let grown: BTreeMap<String, f64> = etcd.members()[0]
        .received()
        .await
        .into_iter()
        .map(|(method, n)| (method.clone(), n - before.get(&method).copied().unwrap_or(0.0)))
        .filter(|(_, n)| *n > 0.0)
        .collect();
    let total: f64 = grown.values().sum();
    let thirds = f64::from(u32::try_from(members).expect("fits")) * 3.0;
    println!("messages to etcd in one lease time   {total} = {:.2} a member and third of it", total / thirds);
    println!("  a second                           {:.1} {grown:?}", total / lease.as_secs_f64());
}

async fn kill(mut fleet: Vec<Member>, floor: &Floor, shards: u16, doomed: usize) -> Vec<Member> {
    let left = fleet.split_off(doomed);
    let started = Instant::now();
    fleet.into_iter().for_each(Member::die);
    floor.until("every shard owned", |work| work.covers(shards)).await;
    println!("{doomed} members die at once, leader too   every shard owned after {:?}", started.elapsed());
    wait_balanced(floor, &left, shards).await;
    println!("  balanced                           {:?}", started.elapsed());
    left
}

async fn drain_one(mut fleet: Vec<Member>, floor: &Floor, shards: u16) -> Vec<Member> {
    let Some(leaving) = fleet.pop().filter(|_| !fleet.is_empty()) else { return fleet };
    let started = Instant::now();
    leaving.leave().await;
    println!("one member drains and leaves         {:?}", started.elapsed());
    wait_balanced(floor, &fleet, shards).await;
    println!("  balanced                           {:?}", started.elapsed());
    fleet
}

/// Restarts this many members one after the other, as a rolling upgrade does, each under its name.
async fn restart_in_turn(
    mut fleet: Vec<Member>,
    floor: &Floor,
    restarted: usize,
    config: impl Fn(&str) -> ClusterConfig,
) {
    let started = Instant::now();
    for _ in 0..restarted.min(fleet.len() - 1) {
        let leaving = fleet.remove(0);
        let config = config(&leaving.name);
        let shards = config.shards.get();
        leaving.leave().await;
        fleet.push(Member::join(config, floor).await);
        wait_balanced(floor, &fleet, shards).await;
    }
    println!("{restarted} members restart in turn, balanced   {:?}", started.elapsed());
}
