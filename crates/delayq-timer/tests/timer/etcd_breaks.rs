//! etcd breaks while messages become due: owners continue to pump, and no message is late.

use crate::bounds::{ETCD_GONE, ETCD_LEADER_LOST, ETCD_RESTARTED, KILLED_WITH_ETCD_LEADER, NOBODY};
use crate::drill::Drill;
use crate::fleet::Fleet;
use crate::spare::listeners;
use crate::stand::{Running, Stand};
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::etcd_server::{EtcdCluster, EtcdOptions};
use delayq_tests::timing::conclusive;

const SHARDS: u16 = 16;

async fn three() -> Drill {
    Drill::new(Fleet::with_three(SHARDS).await).await
}

async fn trusted(timers: &[&Running]) {
    for timer in timers {
        timer.reaches("delayq_timer_degraded", 0.0).await;
    }
}

async fn takes_in_a_third(drill: &Drill, one: &Running, other: &Running) {
    let third = drill.timer("third").await;
    drill.settled(&[one, other, &third]).await;
    drill.flows().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_etcd_leader_makes_nothing_late() {
    conclusive(async || {
        let mut drill = three().await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        let leader = drill.fleet.etcd.leader().await;
        drill.fleet.etcd.member(leader).kill().await;
        assert_ne!(drill.fleet.etcd.leader().await, leader);
        trusted(&[&one, &other]).await;
        takes_in_a_third(&drill, &one, &other).await;
        load.stop().await;
        drill.judge(&ETCD_LEADER_LOST).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_leader_cut_off_from_its_peers_makes_nothing_late() {
    conclusive(async || {
        let etcd = EtcdCluster::start_with(EtcdOptions::default().members(3).partitionable()).await;
        let drill = Drill::new(Fleet::on(Stand::new(SHARDS).await, etcd)).await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        let etcd = &drill.fleet.etcd;
        let leader = etcd.leader().await;
        // The isolated leader still accepts its clients, and cannot answer: the clients must find the other servers.
        etcd.isolate(leader);
        wait_until("another leader", SHORT, || async { etcd.leaders().await.iter().any(|&n| n != leader) })
            .await;
        trusted(&[&one, &other]).await;
        takes_in_a_third(&drill, &one, &other).await;
        etcd.reunite().await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&ETCD_LEADER_LOST).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_etcd_makes_nothing_late() {
    conclusive(async || {
        let mut drill = three().await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        for member in 0..3 {
            drill.fleet.etcd.member(member).stop().await;
            drill.fleet.etcd.member(member).resume().await;
        }
        trusted(&[&one, &other]).await;
        takes_in_a_third(&drill, &one, &other).await;
        load.stop().await;
        drill.judge(&ETCD_RESTARTED).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_what_is_owned_is_pumped_on_time() {
    conclusive(async || {
        let mut drill = three().await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        for member in [1, 2] {
            drill.fleet.etcd.member(member).kill().await;
        }
        for timer in [&one, &other] {
            timer.reaches("delayq_timer_degraded", 1.0).await;
        }
        drill.flows().await;
        for member in [1, 2] {
            drill.fleet.etcd.member(member).launch();
        }
        drill.fleet.etcd.wait_healthy().await;
        trusted(&[&one, &other]).await;
        takes_in_a_third(&drill, &one, &other).await;
        load.stop().await;
        drill.judge(&ETCD_GONE).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_every_etcd_member_frozen_what_is_owned_is_pumped_on_time() {
    conclusive(async || {
        let drill = three().await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        drill.fleet.etcd.freeze();
        for timer in [&one, &other] {
            timer.reaches("delayq_timer_degraded", 1.0).await;
        }
        drill.flows().await;
        drill.fleet.etcd.thaw();
        trusted(&[&one, &other]).await;
        // The leases may have run out in etcd meanwhile, or still be alive: in both cases two timers share in the end.
        drill.settled(&[&one, &other]).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&ETCD_GONE).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_loses_its_owner_while_etcd_is_gone_is_pumped_by_a_timer_that_sees_it() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(SHARDS).await).await;
        let (one, other) = drill.pair().await;
        drill.fleet.etcd.freeze();
        one.reaches("delayq_timer_degraded", 1.0).await;
        let listening = listeners(drill.stand()).await;
        other.kill().await;
        // The thread of the killed timer ends in its wait, with its last connection.
        wait_until("the killed timer to be gone", SHORT, || async {
            listeners(drill.stand()).await < listening
        })
        .await;
        // Late enough that a slow put still comes before the due time: a due message needs no pump.
        drill.put(vec![drill.stand().now_ms().await + 5_000; 200]).await;
        let timing = drill.judge(&NOBODY).await.timing;
        one.exceeds("delayq_timer_rescued_total", 0.0).await;
        drill.fleet.etcd.thaw();
        timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_killed_while_etcd_changes_its_leader_is_replaced_after_two_leases() {
    conclusive(async || {
        let mut drill = three().await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        let leader = drill.fleet.etcd.leader().await;
        one.kill().await;
        drill.fleet.etcd.member(leader).kill().await;
        other.owns(SHARDS).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&KILLED_WITH_ETCD_LEADER).await.timing
    })
    .await;
}
