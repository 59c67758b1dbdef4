//! A deployment grows under load, with real timers: nothing is lost, doubled or early, and hardly late.

use crate::load::{self, Load};
use crate::stand::{Running, Stand, client, start};
use delayq::{Admin, Namespace, ShardCount};
use delayq_cluster::{ClusterConfig, EtcdConfig};
use delayq_service::config::DeploymentConfig;
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use delayq_tests::invariants::{Permit, check};
use delayq_tests::shared;
use delayq_timer::{Membership, TimerConfig};
use std::time::Duration;

const PUTS: usize = 1_500;

/// Puts, cancels, reschedules and delivers while the deployment grows from 4 shards to 8 and from 8 to 12.
async fn grows_under_load(stand: &Stand, timers: &[Running], late: Duration) {
    let admin = Admin::new(client(&stand.server.url(), 4));
    let load = Load::start(&stand.server).await;
    load.reaches(PUTS).await;
    for (shards, puts) in [(8, 2 * PUTS), (12, 3 * PUTS)] {
        let report = admin.shards().grow(count(shards), |_| {}).await.unwrap();
        assert_eq!(report.layout.shards(), count(shards));
        wait_until("the timers to own the new shards", SHORT, || async {
            timers.iter().map(owns).sum::<u16>() == shards
        })
        .await;
        load.reaches(puts).await;
    }
    let history = within("the end of the load", LONG, load.drain()).await;
    let violations = check(&history, &Permit { late: Some(late), ..Permit::default() });
    assert!(violations.is_empty(), "{violations:#?}");
    let numbers = admin.topic(&load::topic()).count().await.unwrap();
    assert!(numbers.balances() && numbers.pending() == 0, "{numbers:?}");
    assert!(numbers.cancelled > 0 && numbers.delivered > 3 * PUTS as u64 / 2, "{numbers:?}");
}

fn count(shards: u16) -> ShardCount {
    ShardCount::new(shards).unwrap()
}

fn owns(timer: &Running) -> u16 {
    timer.metric("delayq_timer_shards") as u16
}

async fn deployment() -> Stand {
    Stand::new(4).await
}

async fn member(stand: &Stand, fleet: &Namespace, name: &str) -> Running {
    let client = client(&stand.server.url(), 4);
    let etcd = EtcdConfig::at(shared::etcd_endpoints().await).unwrap();
    let deployment = DeploymentConfig { namespace: fleet.clone(), shards: client.shards() };
    let cluster = ClusterConfig::new(&etcd, &deployment, name);
    start(TimerConfig::default(), client, Membership::Etcd(Box::new(cluster))).await.unwrap()
}

fn fleet() -> Namespace {
    Namespace::new(shared::namespace()).unwrap()
}

async fn share(timers: &[Running; 2], each: u16) {
    wait_until("the shards to be shared", SHORT, || async { timers.iter().all(|timer| owns(timer) == each) })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_timer_follows_a_growth_under_load() {
    let stand = deployment().await;
    let timer = stand.timer().await;
    grows_under_load(&stand, std::slice::from_ref(&timer), Duration::from_secs(2)).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_of_a_fleet_share_the_shards_of_a_growth_under_load() {
    let (stand, fleet) = (deployment().await, fleet());
    let timers = [member(&stand, &fleet, "one").await, member(&stand, &fleet, "two").await];
    share(&timers, 2).await;
    grows_under_load(&stand, &timers, Duration::from_secs(5)).await;
    // Under a load the plan balances the load of the shards, not their number.
    wait_until("both to have a share", SHORT, || async {
        let owned: Vec<u16> = timers.iter().map(owns).collect();
        owned.iter().all(|&n| n >= 1) && owned.iter().sum::<u16>() == 12
    })
    .await;
    for timer in timers {
        timer.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_that_has_nothing_to_do_follows_as_well() {
    let stand = deployment().await;
    let timer = stand.timer().await;
    Admin::new(client(&stand.server.url(), 4)).shards().grow(count(9), |_| {}).await.unwrap();
    // Long before the timer's next poll, five seconds after the last.
    wait_until("the new shards to be owned", Duration::from_secs(3), || async { owns(&timer) == 9 }).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_whose_configuration_is_from_before_a_growth_owns_every_shard() {
    let stand = deployment().await;
    Admin::new(client(&stand.server.url(), 4)).shards().grow(count(9), |_| {}).await.unwrap();
    let alone = Membership::Single { owner: "one".to_owned() };
    let single = start(TimerConfig::default(), client(&stand.server.url(), 4), alone).await.unwrap();
    single.owns(9).await;
    single.stop().await;
    let member = member(&stand, &fleet(), "one").await;
    member.owns(9).await;
    member.stop().await;
}
