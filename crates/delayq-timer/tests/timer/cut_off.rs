//! A timer cut off from etcd, Redis or both: another timer continues, and late calls move nothing.

use crate::bounds::{BLACK_HOLE, CUT_FROM_BOTH, CUT_FROM_ETCD, CUT_FROM_REDIS};
use crate::drill::Drill;
use crate::fleet::{Fleet, Route};
use crate::stand::Running;
use delayq_tests::deadline::LONG;
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::timing::conclusive;

const SHARDS: u16 = 16;

/// A timer behind proxies, another timer without proxies, and a way to cut the first off.
///
/// A field left out of a pattern is dropped with the statement, and a dropped proxy resets its connections:
/// name all fields.
struct Scene {
    drill: Drill,
    to_etcd: Proxy,
    to_redis: Proxy,
    cut: Running,
    well: Running,
}

async fn scene() -> Scene {
    let drill = Drill::new(Fleet::with(SHARDS).await).await;
    let to_etcd = Proxy::start(&drill.fleet.etcd.members()[0].address());
    let to_redis = Proxy::start_for_redis(&drill.stand().server.address());
    let etcd = vec![format!("http://{}", to_etcd.address())];
    let client = drill.fleet.client_at(&to_redis.address());
    let cut = drill.timer_by("cut", Route { etcd, client }).await;
    let well = drill.timer("well").await;
    drill.fleet.share(&[&cut, &well]).await;
    Scene { drill, to_etcd, to_redis, cut, well }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_cut_off_from_etcd_alone_goes_on_and_is_fenced_when_its_shards_are_taken() {
    conclusive(async || {
        let Scene { drill, to_etcd, to_redis: _open, cut, well } = scene().await;
        let load = drill.load().await;
        to_etcd.set_both(Flow::Hold);
        cut.reaches("delayq_timer_degraded", 1.0).await;
        // The lease runs out in etcd, and the other timer takes over; both consider themselves owners.
        well.owns(SHARDS).await;
        cut.exceeds("delayq_timer_fenced_total", 0.0).await;
        drill.flows().await;
        to_etcd.mend().await;
        drill.settled(&[&cut, &well]).await;
        drill.flows().await;
        load.stop().await;
        let seen = drill.judge(&CUT_FROM_ETCD).await;
        let fenced = ["delayq_timer_fenced_total", "delayq_timer_handed_over_total"];
        let counted: f64 = [&cut, &well].iter().flat_map(|one| fenced.map(|name| one.metric(name))).sum();
        assert!(
            seen.fenced > 0 && (counted - seen.fenced as f64).abs() < 0.5,
            "{counted} counted of {}",
            seen.fenced
        );
        seen.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_cut_off_from_redis_alone_lets_the_other_have_its_shards_until_it_is_back() {
    conclusive(async || {
        let Scene { drill, to_etcd: _open, to_redis, cut, well } = scene().await;
        let load = drill.load().await;
        to_redis.set_both(Flow::Hold);
        assert!(cut.unready().await.contains("Redis"));
        cut.reaches("delayq_timer_hindered", 1.0).await;
        well.owns(SHARDS).await;
        drill.flows().await;
        to_redis.mend().await;
        cut.is_ready().await;
        cut.reaches("delayq_timer_hindered", 0.0).await;
        drill.settled(&[&cut, &well]).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&CUT_FROM_REDIS).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_that_all_lost_redis_keep_their_shards_and_go_on_when_it_is_back() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(SHARDS).await).await;
        let (one, other) = drill.pair().await;
        let due = drill.stand().now_ms().await + 500;
        drill.put((0..500).map(|n| due + n)).await;
        drill.stand().server.freeze();
        for timer in [&one, &other] {
            timer.reaches("delayq_timer_hindered", 1.0).await;
        }
        drill.stand().server.thaw();
        for timer in [&one, &other] {
            timer.reaches("delayq_timer_hindered", 0.0).await;
            timer.is_ready().await;
        }
        drill.settled(&[&one, &other]).await;
        drill.judge_within("Redis is frozen, and goes on", LONG).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_cut_off_from_both_is_replaced_and_what_it_sent_late_moves_nothing() {
    conclusive(async || {
        let Scene { drill, to_etcd, to_redis, cut, well } = scene().await;
        let load = drill.load().await;
        to_redis.set_both(Flow::Hold);
        to_etcd.set_both(Flow::Hold);
        well.owns(SHARDS).await;
        drill.flows().await;
        // Now the held pumps arrive, with their old epochs.
        to_redis.mend().await;
        drill.flows().await;
        to_etcd.mend().await;
        drill.settled(&[&cut, &well]).await;
        drill.flows().await;
        load.stop().await;
        let seen = drill.judge(&CUT_FROM_BOTH).await;
        assert!(seen.fenced > 0, "nothing that was sent late arrived");
        seen.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_black_holed_connection_to_redis_is_replaced() {
    conclusive(async || {
        let Scene { drill, to_etcd: _open, to_redis, cut, well: _well } = scene().await;
        let load = drill.load().await;
        to_redis.strand_open();
        cut.exceeds("delayq_timer_pump_calls_total{outcome=\"failed\"}", 0.0).await;
        cut.is_ready().await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&BLACK_HOLE).await.timing
    })
    .await;
}
