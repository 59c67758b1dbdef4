//! Timers come, go and die while messages become due.

use crate::bounds::{DRAINED, JOINED, KILLED, KILLED_TOGETHER, STOPPED};
use crate::drill::Drill;
use crate::fleet::{Fleet, Route};
use crate::stand::Became;
use crate::witness::{Witness, another_text};
use delayq::Client;
use delayq::protocol::ShardId;
use delayq_cluster::DrainOutcome;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::deployment::settings;
use delayq_tests::stall::Stall;
use delayq_tests::timing::conclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_third_timer_that_joins_a_loaded_pair_makes_nothing_late() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with_quick_etcd(256).await).await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        let third = drill.timer("third").await;
        drill.settled(&[&one, &other, &third]).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&JOINED).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_stops_hands_256_shards_over_within_a_second_and_nothing_is_late() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with_quick_etcd(512).await).await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        let asked = Instant::now();
        one.stop().await;
        let took = asked.elapsed();
        other.owns(512).await;
        drill.flows().await;
        load.stop().await;
        println!("256 shards handed over in {took:?}");
        let timing = drill.judge(&STOPPED).await.timing;
        timing.and(drill.within("handing 256 shards over", took, Duration::from_secs(1)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_is_drained_and_undrained_under_load_makes_nothing_late() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with_quick_etcd(512).await).await;
        let (one, other) = drill.pair().await;
        let operator = drill.fleet.operator();
        let load = drill.load().await;
        let asked = Instant::now();
        assert_eq!(operator.drain("one", "", false).await.unwrap(), DrainOutcome::Drained);
        other.owns(512).await;
        let took = asked.elapsed();
        println!("256 shards of a drained timer taken over in {took:?}");
        one.reaches("delayq_timer_drained", 1.0).await;
        drill.flows().await;
        // The drained timer is a spare, and healthy.
        one.is_ready().await;
        operator.undrain("one").await.unwrap();
        drill.settled(&[&one, &other]).await;
        one.reaches("delayq_timer_drained", 0.0).await;
        drill.flows().await;
        load.stop().await;
        let timing = drill.judge(&DRAINED).await.timing;
        timing.and(drill.within("taking 256 shards over", took, Duration::from_secs(1)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_timer_leads_and_another_when_it_is_gone() {
    let fleet = Fleet::with(4).await;
    let (one, other) = (fleet.timer("one").await, fleet.timer("other").await);
    one.reaches("delayq_timer_leader", 1.0).await;
    fleet.share(&[&one, &other]).await;
    assert!(other.metric("delayq_timer_leader") < 0.5, "the oldest leads");
    one.stop().await;
    other.reaches("delayq_timer_leader", 1.0).await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_overdue_in_a_shard_that_was_found_empty_is_seen_by_the_leader() {
    let mut fleet = Fleet::with(16).await;
    // Long enough that the leader stays in office on a busy machine.
    fleet.times.lease = Duration::from_secs(20);
    let leader = fleet.timer("leader").await;
    leader.reaches("delayq_timer_leader", 1.0).await;
    let mut idlers = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        idlers.push(fleet.idler(name).await);
    }
    leader.owns(2).await;
    let witness = Witness::start(&fleet.stand).await;
    // The check of shard 0 asks a node for its clock, and says nothing about other shards.
    let checked = async || witness.checked(&fleet.stand).await.into_iter().filter(|&shard| shard > 0);
    wait_until("each shard of others to be checked", SHORT, async || checked().await.count() >= 13).await;
    let shard = checked().await.next().unwrap();
    // Late enough for a slow put: a due message would be ready at once.
    let due = fleet.stand.now_ms().await + 2_000;
    fleet.stand.put_into(ShardId::new(shard as u16), [due]).await;
    // One of eight timers that does not lead would check the shard again after 105 s.
    wait_until("the leader to see what is overdue, or to rescue it", SHORT, async || {
        let seen = leader.metric("delayq_timer_oldest_overdue_seconds") > 0.0;
        seen || leader.metric("delayq_timer_rescued_total") > 0.0
    })
    .await;
    idlers.iter().for_each(tokio::task::JoinHandle::abort);
    leader.owns(16).await;
    leader.reaches("delayq_timer_oldest_overdue_seconds", 0.0).await;
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_whose_owner_lives_and_pumps_nothing_is_adopted_and_on_time_from_then_on() {
    conclusive(async || {
        let mut fleet = Fleet::with(4).await;
        fleet.times.lease = Duration::from_secs(20);
        let timer = fleet.timer("timer").await;
        timer.owns(4).await;
        let idler = fleet.idler("idler").await;
        timer.owns(2).await;
        let pumped = timer.metric("delayq_timer_moved_total");
        let count = fleet.stand.put(vec![fleet.stand.now_ms().await + 100; 40]).await;
        fleet.stand.all_ready(count).await;
        assert!(timer.metric("delayq_timer_moved_total") - pumped > 0.0);
        timer.owns(4).await;
        assert!((timer.metric("delayq_timer_adopted_total") - 2.0).abs() < 0.5);
        let stall = Stall::watch();
        let due = fleet.stand.now_ms().await + 100;
        let all = count + fleet.stand.put(vec![due; 40]).await;
        fleet.stand.all_ready(all).await;
        let became = fleet.stand.became().await;
        let late = became.iter().filter(|became| became.due_ms == due).map(Became::late_us).max();
        idler.abort();
        timer.stop().await;
        stall.judge("an adopted shard", Duration::from_micros(late.unwrap()), Duration::from_secs(1))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_while_every_timer_is_drained_is_rescued_by_one_of_them() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(8).await).await;
        let one = drill.timer("one").await;
        one.owns(8).await;
        let operator = drill.fleet.operator();
        assert_eq!(operator.drain("one", "", false).await.unwrap(), DrainOutcome::NobodyLeft);
        assert_eq!(operator.drain("one", "", true).await.unwrap(), DrainOutcome::Drained);
        one.owns(0).await;
        let now = drill.stand().now_ms().await;
        drill.put((0..20).map(|n| now + 1_000 + n * 5)).await;
        one.exceeds("delayq_timer_rescued_total", 0.0).await;
        // Overdue by 10 s, found 5 s later by the next check of another timer's shard, which happens at a poll.
        let late = Duration::from_secs(16) + drill.fleet.times.poll;
        drill.judge_within("every timer is drained", late).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_timers_shards_are_pumped_elsewhere_within_the_lease_and_two_seconds() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(16).await).await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        one.kill().await;
        other.owns(16).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&KILLED).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_upgrade_to_another_version_of_the_scripts_makes_nothing_late() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(16).await).await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        let settings = settings(drill.stand().server.url(), 16);
        let client = Client::with_scripts(settings, Arc::new(another_text()));
        let mut upgraded = Vec::new();
        for (old, name) in [(one, "one-new"), (other, "other-new")] {
            let route = Route { client: client.clone(), ..drill.fleet.direct() };
            upgraded.push(drill.timer_by(name, route).await);
            upgraded.last().unwrap().exceeds("delayq_timer_moved_total", 0.0).await;
            old.stop().await;
        }
        drill.flows().await;
        load.stop().await;
        drill.judge(&STOPPED).await.timing
    })
    .await;
}

async fn overlapping(first: usize, second: usize, apart_ms: u64) {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(48).await).await;
        let mut timers = Vec::new();
        for name in ["oldest", "middle", "youngest"] {
            timers.push(Some(drill.timer(name).await));
        }
        let all: Vec<_> = timers.iter().flatten().collect();
        drill.fleet.share(&all).await;
        let load = drill.load().await;
        timers[first].take().unwrap().kill().await;
        // The time itself is under test: within the lease of the first.
        tokio::time::sleep(Duration::from_millis(apart_ms)).await;
        timers[second].take().unwrap().kill().await;
        let left = timers.iter().flatten().next().unwrap();
        left.owns(48).await;
        drill.flows().await;
        load.stop().await;
        println!(
            "{first} then {second}, {apart_ms} ms apart, rescued {}",
            left.metric("delayq_timer_rescued_total")
        );
        drill.judge(&KILLED_TOGETHER).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_timer_killed_before_the_first_ones_shards_are_placed_costs_a_second_lease() {
    for (first, second) in [(0, 1), (1, 0), (1, 2)] {
        for apart_ms in [100, 1_500, 2_200] {
            overlapping(first, second, apart_ms).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_older_data_gives_to_a_former_owner_is_claimed_again() {
    let fleet = Fleet::with(4).await;
    let timer = fleet.timer("present").await;
    fleet.share(&[&timer]).await;
    let key = "{dq:2}:meta";
    let said = async |field: &str| fleet.stand.server.command::<Option<String>>(&["HGET", key, field]).await;
    wait_until("a mark", SHORT, async || said("mark").await.is_some()).await;
    // As restored from a backup of the time before the last drain.
    let older = ["HSET", key, "owner", "former", "epoch", "0", "mark", "1000"];
    fleet.stand.server.command::<()>(&older).await;
    wait_until("the owner", SHORT, async || said("owner").await.as_deref() == Some("present")).await;
    assert_eq!(timer.metric("delayq_timer_older_data_total"), 1.0);
    timer.stop().await;
}
