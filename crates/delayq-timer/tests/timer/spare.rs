//! Timers without shards: more timers than shards, and a timer whose owners are gone.

use crate::bounds::NOBODY;
use crate::drill::Drill;
use crate::fleet::Fleet;
use crate::stand::{Running, Stand};
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::timing::conclusive;
use std::time::Duration;

pub(crate) async fn listeners(stand: &Stand) -> usize {
    let clients: String = stand.server.command(&["CLIENT", "LIST"]).await;
    clients.lines().filter(|client| client.contains(" ssub=") && !client.contains(" ssub=0 ")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_more_timers_than_shards_all_are_ready_and_a_spare_takes_over() {
    let fleet = Fleet::with(2).await;
    let mut timers = Vec::new();
    for name in ["a", "b", "c", "d"] {
        timers.push(fleet.timer(name).await);
        // Like a rollout, which waits for each timer.
        timers.last().unwrap().is_ready().await;
    }
    let owned = |timer: &Running| timer.metric("delayq_timer_shards");
    wait_until("two of them to own a shard each", SHORT, || async {
        let mut owned: Vec<f64> = timers.iter().map(owned).collect();
        owned.sort_by(f64::total_cmp);
        owned == [0.0, 0.0, 1.0, 1.0]
    })
    .await;
    timers.sort_by(|one, other| owned(one).total_cmp(&owned(other)));
    timers.pop().unwrap().stop().await;
    timers.pop().unwrap().kill().await;
    let due = fleet.stand.now_ms().await + 200;
    let count = fleet.stand.put((0..50).map(|n| due + n)).await;
    fleet.stand.all_ready(count).await;
    wait_until("the spares to own a shard each", SHORT, || async {
        timers.iter().all(|timer| (owned(timer) - 1.0).abs() < 0.5)
    })
    .await;
    for timer in timers {
        timer.is_ready().await;
        timer.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spare_that_never_owned_a_shard_rescues_those_of_two_owners_that_died_while_etcd_was_gone() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(2).await).await;
        let (one, other) = drill.pair().await;
        let spare = drill.timer("spare").await;
        spare.is_ready().await;
        drill.fleet.etcd.freeze();
        spare.reaches("delayq_timer_degraded", 1.0).await;
        let listening = listeners(drill.stand()).await;
        one.kill().await;
        other.kill().await;
        wait_until("the killed ones to be gone", SHORT, || async {
            listeners(drill.stand()).await + 2 <= listening
        })
        .await;
        drill.put(vec![drill.stand().now_ms().await + 3_000; 100]).await;
        let timing = drill.judge(&NOBODY).await.timing;
        spare.exceeds("delayq_timer_rescued_total", 0.0).await;
        drill.fleet.etcd.thaw();
        timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_are_refused_for_all_make_no_timer_change_its_mind_back_and_forth() {
    let fleet = Fleet::with(4).await;
    let (one, other) = (fleet.timer("one").await, fleet.timer("other").await);
    fleet.share(&[&one, &other]).await;
    let () = fleet.stand.server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    for timer in [&one, &other] {
        timer.reaches("delayq_timer_hindered", 1.0).await;
    }
    let changes = || {
        one.metric("delayq_timer_hindrance_changes_total")
            + other.metric("delayq_timer_hindrance_changes_total")
    };
    let before = changes();
    // Longer than the steadiness required before shards are taken again.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!((changes() - before).abs() < 0.5, "{} changes", changes() - before);
    let () = fleet.stand.server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    for timer in [&one, &other] {
        timer.reaches("delayq_timer_hindered", 0.0).await;
        timer.is_ready().await;
    }
    let count = fleet.stand.put([fleet.stand.now_ms().await + 50]).await;
    fleet.stand.all_ready(count).await;
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_starts_while_etcd_is_away_rescues_what_nobody_pumps_and_joins_later() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(4).await).await;
        drill.fleet.etcd.freeze();
        let late = drill.timer("late").await;
        wait_until("it to say that it has no shard", SHORT, || async {
            late.readiness.unready().iter().any(|unready| unready.reason.contains("no shards yet"))
        })
        .await;
        drill.put(vec![drill.stand().now_ms().await + 1_000; 100]).await;
        late.exceeds("delayq_timer_rescued_total", 99.0).await;
        drill.fleet.etcd.thaw();
        late.owns(4).await;
        late.is_ready().await;
        drill.load().await.stop().await;
        drill.judge(&NOBODY).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_is_not_ready_before_it_has_its_shards_or_is_known_to_be_spare() {
    let fleet = Fleet::with(1).await;
    let one = fleet.timer("one").await;
    one.is_ready().await;
    assert!(
        (one.metric("delayq_timer_shards") - 1.0).abs() < 0.5,
        "ready without the shard that it was to own"
    );
    let spare = fleet.timer("spare").await;
    spare.is_ready().await;
    assert!(spare.metric("delayq_timer_shards") < 0.5);
    spare.stop().await;
    one.stop().await;
}
