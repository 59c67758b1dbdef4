//! Timers come, go and die while messages become due.

use crate::bounds::{JOINED, KILLED, STOPPED};
use crate::drill::Drill;
use crate::group::{Group, Route};
use crate::stand::settings;
use crate::witness::another_text;
use delayq_core::Client;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_third_timer_that_joins_a_loaded_pair_makes_nothing_late() {
    let drill = Drill::new(Group::with(256).await).await;
    let (one, other) = drill.pair().await;
    let load = drill.load().await;
    let third = drill.timer("third").await;
    drill.settled(&[&one, &other, &third]).await;
    drill.flows().await;
    load.stop().await;
    drill.judge(&JOINED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_stops_hands_256_shards_over_within_a_second_and_nothing_is_late() {
    let drill = Drill::new(Group::with(512).await).await;
    let (one, other) = drill.pair().await;
    let load = drill.load().await;
    let asked = Instant::now();
    one.stop().await;
    let took = asked.elapsed();
    other.owns(512).await;
    drill.flows().await;
    load.stop().await;
    println!("256 shards handed over in {took:?}");
    drill.judge(&STOPPED).await;
    assert!(took < drill.allow(Duration::from_secs(1)), "the hand-over took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_timers_shards_are_pumped_elsewhere_within_the_lease_and_two_seconds() {
    let drill = Drill::new(Group::with(16).await).await;
    let (one, other) = drill.pair().await;
    let load = drill.load().await;
    one.kill().await;
    other.owns(16).await;
    drill.flows().await;
    load.stop().await;
    drill.judge(&KILLED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_upgrade_to_another_version_of_the_scripts_makes_nothing_late() {
    let drill = Drill::new(Group::with(16).await).await;
    let (one, other) = drill.pair().await;
    let load = drill.load().await;
    let settings = settings(&drill.stand().server.url(), 16);
    let client = Client::with_scripts(settings, Arc::new(another_text()));
    let mut upgraded = Vec::new();
    for (old, name) in [(one, "one-new"), (other, "other-new")] {
        let route = Route { client: client.clone(), ..drill.group.direct() };
        upgraded.push(drill.timer_by(name, route).await);
        upgraded.last().unwrap().exceeds("delayq_timer_moved_total", 0.0).await;
        old.stop().await;
    }
    drill.flows().await;
    load.stop().await;
    drill.judge(&STOPPED).await;
}
