//! Growths that are interrupted, concurrent, or impossible.

use crate::growth::grown::{Grown, Party, count};
use delayq::admin::{GrowthStep, Policy};
use delayq::{Admin, Client, Error, PutOutcome, State};
use delayq_tests::deployment::settings;
use delayq_tests::proxy::{AfterLoss, Proxy};
use delayq_tests::redis_server::RedisServer;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_growth_tells_its_steps_and_every_shard_has_followed_at_its_end() {
    let grown = Grown::new().await;
    let mut steps = Vec::new();
    let report = grown.admin().shards().grow(count(7), |step| steps.push(step)).await.unwrap();
    assert_eq!((report.layout.to_string().as_str(), report.added, report.raised), ("4,7", 3, 4));
    let (added, raised) =
        (|done| GrowthStep::Added { done, of: 3 }, |done| GrowthStep::Raised { done, of: 4 });
    assert_eq!(steps, [added(1), added(3), raised(4)]);
    assert_eq!(grown.layouts(8).await, ["4,7", "4,7", "4,7", "4,7", "4,7", "4,7", "4,7", ""]);
    let again = grown.grow(7).await;
    assert_eq!((again.added, again.raised), (0, 0));
    assert_eq!(Admin::new(Client::new(settings(grown.server.url(), 4))).init().await.unwrap(), 0);
}

/// Loses another answer each time, until the growth needs no more answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_growth_is_finished_by_repeating_it() {
    let mut lost = 0;
    while is_interrupted_at(lost).await {
        lost += 1;
    }
    assert!(lost > 10, "{lost} answers were lost");
}

/// Loses one answer of a growth, serves in between, and finishes the growth; false if the growth needs fewer answers.
async fn is_interrupted_at(lost: u64) -> bool {
    let grown = Grown::on(RedisServer::private().await.into()).await;
    grown.admin().topic(&grown.topic).set_rate(Some(120.0)).await.unwrap();
    let before = grown.party(4);
    before.put_all((0..50).map(|n| grown.message(n))).await;
    let proxy = Proxy::start_for_redis(&grown.server.address());
    let operator = Client::new(settings(grown.server.url_through(&proxy.address()), 4));
    Admin::new(operator.clone()).layout().await.unwrap();
    proxy.lose_reply(lost, AfterLoss::Reset);
    let interrupted = Admin::new(operator).shards().grow(count(8), |_| {}).await;
    if proxy.losses() == 0 {
        interrupted.unwrap();
        return false;
    }
    assert!(interrupted.is_err(), "answer {lost} of the growth was lost: {interrupted:?}");
    for party in [&before, &grown.party(4)] {
        for outcome in party.put_all((0..50).map(|n| grown.message(n))).await {
            assert!(matches!(outcome, PutOutcome::Exists(State::Delayed, _)), "{outcome:?}");
        }
    }
    before.put_all((50..100).map(|n| grown.message(n))).await;
    grown.grow(8).await;
    assert_eq!(grown.layouts(8).await, ["4,8"; 8], "after answer {lost} was lost");
    for outcome in before.put_all((0..100).map(|n| grown.message(n))).await {
        assert!(matches!(outcome, PutOutcome::Exists(State::Delayed, _)), "{outcome:?}");
    }
    let numbers = grown.admin().topic(&grown.topic).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.delayed), (100, 100));
    assert!(numbers.rate.is_some_and(|rate| (rate - 120.0).abs() < 0.001), "{numbers:?}");
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_with_the_reason_and_changes_nothing() {
    let grown = Grown::new().await;
    let refused = async |to| match grown.admin().shards().grow(count(to), |_| {}).await {
        Err(Error::Growth(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(3).await.contains("can only grow"));
    // The lowest new shard exists: another growth has begun.
    let other: &[&str] =
        &["HSET", "{dq:4}:meta", "layout", "2", "shard", "4", "counts", "4,9", "shards", "9"];
    grown.server.command::<u32>(other).await;
    assert!(refused(8).await.contains("finish it first, by growing to 9"));
    assert!(refused(4).await.contains("finish it first, by growing to 9"));
    assert_eq!(grown.layouts(9).await, ["4", "4", "4", "4", "4,9", "", "", "", ""]);
    let finished = grown.grow(9).await;
    assert_eq!((finished.added, finished.raised), (4, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_growth_that_is_not_through_everywhere_keeps_the_next_one_out() {
    let grown = Grown::new().await;
    grown.grow(6).await;
    grown.server.command::<u32>(&["HSET", "{dq:2}:meta", "layout", "1", "counts", "4", "shards", "4"]).await;
    let error = grown.admin().shards().grow(count(8), |_| {}).await.unwrap_err();
    assert!(matches!(&error, Error::Growth(why) if why.contains("by growing to 6")), "{error}");
    assert_eq!(grown.grow(6).await.raised, 1);
    assert_eq!(grown.grow(8).await.raised, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_shard_is_not_made_again_by_a_growth() {
    let grown = Grown::new().await;
    grown.server.command::<u32>(&["DEL", "{dq:2}:meta"]).await;
    let error = grown.admin().shards().grow(count(8), |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::Uninitialised(shard) if shard.get() == 2), "{error}");
    assert_eq!(grown.layouts(5).await, ["4", "4", "", "4", ""]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_growths_at_once_one_is_carried_out_whole() {
    for round in 0..10 {
        let grown = Grown::new().await;
        let (one, other) = (Admin::new(grown.party(4).client), Admin::new(grown.party(4).client));
        let to = if round % 2 == 0 { 9 } else { 8 };
        let (eight, second) =
            tokio::join!(one.shards().grow(count(8), |_| {}), other.shards().grow(count(to), |_| {}));
        let counts = match (&eight, &second) {
            (Ok(_), Ok(_)) if to == 8 => "4,8",
            (Ok(_), Ok(_)) => "4,8,9",
            (Ok(_), Err(_)) => "4,8",
            (Err(_), Ok(_)) => &format!("4,{to}"),
            (Err(_), Err(_)) => panic!("{eight:?} {second:?}"),
        };
        let layouts = grown.layouts(9).await;
        let there = layouts.iter().filter(|layout| !layout.is_empty());
        assert!(there.clone().all(|layout| layout == counts), "{counts}: {layouts:?}");
        assert!(counts.ends_with(&there.count().to_string()), "{counts}: {layouts:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_shards_have_the_topics_settings_and_the_rate_is_divided_again() {
    let grown = Grown::new().await;
    let policy = Policy { max_attempts: Some(3), lease: Some(Duration::from_secs(7)), ..Policy::default() };
    grown.admin().topic(&grown.topic).set_policy(&policy).await.unwrap();
    grown.admin().topic(&grown.topic).set_rate(Some(12.0)).await.unwrap();
    grown.admin().topic(&grown.topic).pause().await.unwrap();
    let stranger = delayq::Topic::new("plain").unwrap();
    Party::new(grown.client.clone()).put(delayq::Message::new(stranger, "x")).await;
    grown.grow(12).await;
    for shard in 0..12 {
        let key = format!("{{dq:{shard}}}:t:1");
        assert_eq!(grown.field(&key, "name").await.as_deref(), Some("orders"));
        assert_eq!(grown.field(&key, "max_attempts").await.as_deref(), Some("3"));
        assert_eq!(grown.field(&key, "lease_ms").await.as_deref(), Some("7000"));
        assert_eq!(grown.field(&key, "rate").await.as_deref(), Some("1.000000000"));
    }
    let numbers = grown.admin().topic(&grown.topic).count().await.unwrap();
    assert_eq!((numbers.paused, numbers.rate), (12, Some(12.0)));
    grown.admin().topic(&grown.topic).set_rate(Some(24.0)).await.unwrap();
    assert_eq!(grown.admin().topic(&grown.topic).count().await.unwrap().rate, Some(24.0));
}
