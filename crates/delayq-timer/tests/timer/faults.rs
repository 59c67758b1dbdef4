//! The cost of each Redis fault for a single timer; nothing is lost or early meanwhile.

use crate::bounds::WAKE_LOST;
use crate::fleet::TIMES;
use crate::stand::{Stand, client, polling, start};
use delayq::Admin;
use delayq::protocol::ShardId;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::stall::Stall;
use delayq_tests::timing::conclusive;
use delayq_timer::{Membership, TimerConfig};
use std::time::{Duration, Instant};

fn single() -> Membership {
    Membership::Single { owner: "one".to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_killed_and_started_again_loses_nothing() {
    let server = RedisServer::private_with(RedisOptions::default().append_only("always")).await;
    let mut stand = Stand::on(server, 4).await;
    let timer = stand.timer().await;
    let start = stand.now_ms().await;
    let count = stand.put((0..2_000).map(|n| start + 500 + n)).await;
    wait_until("the middle of it", SHORT, || async { stand.ready().await > 200 }).await;
    stand.deployment.server.kill_and_resume().await;
    stand.all_ready(count).await;
    timer.is_ready().await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_wake_up_costs_at_most_a_look() {
    conclusive(async || {
        let (stand, stall) = (Stand::new(4).await, Stall::watch());
        let timer = stand.timer_with(polling(TIMES.poll), "one").await;
        let resyncs = timer.metric("delayq_timer_resyncs_total");
        let _: u64 = stand.server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        let count = stand.put([stand.now_ms().await + 20]).await;
        let late = Duration::from_micros(stand.all_ready(count).await[0]);
        timer.exceeds("delayq_timer_resyncs_total", resyncs).await;
        timer.stop().await;
        stall.judge(WAKE_LOST.fault, late, WAKE_LOST.late(TIMES))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_timer_of_many_shards_ends_soon_though_redis_is_frozen() {
    conclusive(async || {
        let (stand, stall) = (Stand::new(1_024).await, Stall::watch());
        let timer = stand.timer().await;
        stand.server.freeze();
        let asked = Instant::now();
        timer.stop().await;
        // Open calls have to run into their deadline, and each of three farewells takes half a second.
        stall.judge("ending", asked.elapsed(), Duration::from_secs(5))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_without_the_deployment_is_refused_by_name() {
    let server = RedisServer::private().await;
    let refused = start(TimerConfig::default(), client(&server.url(), 4), single()).await.err();
    let refused = refused.expect("there are no shards").to_string();
    assert!(refused.starts_with("DQ-R002"), "{refused}");
    assert_eq!(server.command::<u64>(&["DBSIZE"]).await, 0, "a timer creates no shards");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_evicts_is_refused_by_name() {
    let options = RedisOptions::default().set("maxmemory", "100mb").set("maxmemory-policy", "allkeys-lru");
    let stand = Stand::on(RedisServer::private_with(options).await, 4).await;
    let refused = start(TimerConfig::default(), stand.client.clone(), single()).await.err();
    let refused = refused.expect("it would delete messages").to_string();
    assert!(refused.starts_with("DQ-R005") && refused.contains("allkeys-lru"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_came_back_empty_is_not_served_and_not_filled() {
    let stand = Stand::new(4).await;
    let timer = stand.timer_with(polling(Duration::from_millis(200)), "one").await;
    let () = stand.server.command(&["FLUSHALL"]).await;
    timer.reaches("delayq_timer_shards", 0.0).await;
    assert!(timer.unready().await.contains("does not exist"));
    assert_eq!(stand.server.command::<u64>(&["DBSIZE"]).await, 0, "a timer creates no shards");
    Admin::new(stand.client.clone()).init().await.unwrap();
    timer.owns(4).await;
    timer.is_ready().await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_of_a_wrong_type_stops_no_other_shard_or_topic() {
    let stand = Stand::new(2).await;
    let timer = stand.timer().await;
    let due = stand.now_ms().await + 300;
    let whole = stand.put_into(ShardId::new(0), [due; 5]).await;
    stand.put_into(ShardId::new(1), [due + 1; 5]).await;
    let () = stand.server.command(&["SET", "{dq:1}:r:1", "no list"]).await;
    wait_until("the other shard", SHORT, || async {
        stand.server.command::<usize>(&["LLEN", "{dq:0}:r:1"]).await == whole
    })
    .await;
    timer.exceeds("delayq_timer_blocked_total", 0.0).await;
    let _: u64 = stand.server.command(&["DEL", "{dq:1}:r:1"]).await;
    stand.all_ready(2 * whole).await;
    timer.stop().await;
}
