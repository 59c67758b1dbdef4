//! The right to pump: one lock, two owners, newer epochs, and released shards.

use crate::bounds::KILLED_ALONE;
use crate::fleet::TIMES;
use crate::stand::{Stand, polling, start};
use delayq::Topic;
use delayq::protocol::{Claimed, Holder, Owner, ReserveRequest, ShardId};
use delayq_service::config::HumanDuration;
use delayq_tests::stall::Stall;
use delayq_tests::timing::conclusive;
use delayq_timer::{Membership, TimerConfig};
use std::time::Duration;

const ONLY: ShardId = ShardId::new(0);

fn short_lock() -> TimerConfig {
    TimerConfig { lock: HumanDuration::from(TIMES.lock), ..polling(TIMES.poll) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_single_mode_refuses_a_second_timer() {
    let stand = Stand::new(4).await;
    let first = stand.timer_with(short_lock(), "first").await;
    let refused = start(short_lock(), stand.client.clone(), Membership::single("second")).await;
    let refused = refused.err().expect("the lock is renewed as long as the first one runs").to_string();
    assert!(refused.starts_with("DQ-T003: first holds the lock"), "{refused}");
    first.stop().await;
    let second = stand.timer_with(short_lock(), "second").await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_killed_timer_ends_and_the_next_one_takes_over() {
    conclusive(async || {
        let (stand, stall) = (Stand::new(4).await, Stall::watch());
        stand.timer_with(short_lock(), "first").await.kill().await;
        let count = stand.put([stand.now_ms().await + 50]).await;
        let second = stand.timer_with(short_lock(), "second").await;
        let late = Duration::from_micros(stand.all_ready(count).await[0]);
        second.stop().await;
        stall.judge(KILLED_ALONE.fault, late, KILLED_ALONE.late(TIMES))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_timers_on_one_shard_deliver_nothing_twice() {
    let stand = Stand::new(1).await;
    // The same owner twice: the lock admits both.
    let one = stand.timer_with(TimerConfig::default(), "twin").await;
    let other = stand.timer_with(TimerConfig::default(), "twin").await;
    let start = stand.now_ms().await + 1_000;
    let count = stand.put((0..5_000).map(|n| start + n % 500)).await;
    stand.all_ready(count).await;
    let moved = one.metric("delayq_timer_moved_total") + other.metric("delayq_timer_moved_total");
    assert!((moved - count as f64).abs() < 0.5, "{moved} moves for {count} messages");
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_timer_moves_nothing() {
    let stand = Stand::new(1).await;
    let timer = stand.timer().await;
    let usurper = Owner::new(stand.client.clone());
    let claim = async |lock| usurper.claim(&[ONLY], "usurper", lock).await.remove(0).unwrap();
    // Another owner claims without the lock, and then holds the lock, unless the timer takes the shard back
    // in between.
    loop {
        let claimed = claim(Duration::ZERO).await;
        assert!(matches!(claimed, Claimed::Mine { .. }), "{claimed:?}");
        if matches!(claim(Duration::from_secs(60)).await, Claimed::Mine { .. }) {
            break;
        }
    }
    stand.put([stand.now_ms().await + 50]).await;
    timer.exceeds("delayq_timer_fenced_total", 0.0).await;
    timer.reaches("delayq_timer_shards", 0.0).await;
    assert!(timer.unready().await.contains("usurper"), "it says who keeps it out");
    assert_eq!(stand.ready().await, 0);
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_is_fenced_while_the_shard_is_its_own_takes_a_new_epoch() {
    let stand = Stand::new(1).await;
    let timer = stand.timer().await;
    let before = timer.metric("delayq_timer_epoch");
    Owner::new(stand.client.clone()).claim(&[ONLY], "passer-by", Duration::ZERO).await.remove(0).unwrap();
    let count = stand.put([stand.now_ms().await + 50]).await;
    stand.all_ready(count).await;
    timer.exceeds("delayq_timer_epoch", before).await;
    assert!(timer.metric("delayq_timer_fenced_total") >= 1.0);
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_is_taken_back() {
    let stand = Stand::new(1).await;
    let timer = stand.timer().await;
    let count = stand.put([stand.now_ms().await + 20]).await;
    stand.all_ready(count).await;
    let request = ReserveRequest {
        topics: vec![Topic::new("notices").unwrap()],
        most: 10,
        max_bytes: 0,
        lease: Some(Duration::from_millis(100)),
    };
    let reserved =
        Holder::new(stand.client.clone()).reserve(&[(ONLY, request.clone())]).await.remove(0).unwrap();
    assert_eq!(reserved.messages.len(), 1);
    timer.exceeds("delayq_timer_leases_returned_total", 0.0).await;
    timer.exceeds("delayq_timer_moved_total", 1.0).await;
    let again =
        Holder::new(stand.client.clone()).reserve(&[(ONLY, request.clone())]).await.remove(0).unwrap();
    assert_eq!(again.messages[0].id, reserved.messages[0].id);
    assert_eq!(again.messages[0].envelope.delivery, 2);
    timer.stop().await;
}
