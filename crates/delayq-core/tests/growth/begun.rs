//! Growths that are interrupted, come together, or cannot be.

use crate::ground::{Ground, Party, count, settings};
use delayq_core::{Admin, Client, Error, GrowthStep, Policy, PutOutcome, State};
use delayq_tests::proxy::{AfterLoss, Proxy};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_growth_tells_its_steps_and_every_shard_has_followed_at_its_end() {
    let ground = Ground::new().await;
    let mut steps = Vec::new();
    let report = ground.admin().grow(count(7), |step| steps.push(step)).await.unwrap();
    assert_eq!((report.layout.to_string().as_str(), report.added, report.raised), ("4,7", 3, 4));
    let (added, raised) =
        (|done| GrowthStep::Added { done, of: 3 }, |done| GrowthStep::Raised { done, of: 4 });
    assert_eq!(steps, [added(1), added(3), raised(4)]);
    assert_eq!(ground.layouts(8).await, ["4,7", "4,7", "4,7", "4,7", "4,7", "4,7", "4,7", ""]);
    let again = ground.grow(7).await;
    assert_eq!((again.added, again.raised), (0, 0));
    assert_eq!(Client::new(settings(&ground.server.url(), 4)).init().await.unwrap(), 0);
}

/// The answer that is lost is another one each time, until the growth needs no more of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_growth_is_finished_by_repeating_it() {
    let mut lost = 0;
    while is_interrupted_at(lost).await {
        lost += 1;
    }
    assert!(lost > 10, "{lost} answers were lost");
}

/// Loses one answer of a growth, serves in between, and finishes it; false where it needs fewer answers.
async fn is_interrupted_at(lost: u64) -> bool {
    let ground = Ground::new().await;
    ground.admin().set_rate(&ground.topic, Some(120.0)).await.unwrap();
    let before = ground.party(4);
    before.put_all((0..50).map(|n| ground.message(n))).await;
    let proxy = Proxy::start_for_redis(&ground.server.address());
    let operator = Client::new(settings(&ground.server.url_through(&proxy.address()), 4));
    operator.layout().await.unwrap();
    proxy.lose_reply(lost, AfterLoss::Reset);
    let interrupted = Admin::new(operator).grow(count(8), |_| {}).await;
    if proxy.losses() == 0 {
        interrupted.unwrap();
        return false;
    }
    assert!(interrupted.is_err(), "answer {lost} of the growth was lost: {interrupted:?}");
    // Everything is served, whoever asks.
    for party in [&before, &ground.party(4)] {
        for outcome in party.put_all((0..50).map(|n| ground.message(n))).await {
            assert!(matches!(outcome, PutOutcome::Exists(State::Delayed, _)), "{outcome:?}");
        }
    }
    before.put_all((50..100).map(|n| ground.message(n))).await;
    ground.grow(8).await;
    assert_eq!(ground.layouts(8).await, ["4,8"; 8], "after answer {lost} was lost");
    for outcome in before.put_all((0..100).map(|n| ground.message(n))).await {
        assert!(matches!(outcome, PutOutcome::Exists(State::Delayed, _)), "{outcome:?}");
    }
    let numbers = ground.admin().count(&ground.topic).await.unwrap();
    assert_eq!((numbers.accepted, numbers.delayed), (100, 100));
    assert!(numbers.rate.is_some_and(|rate| (rate - 120.0).abs() < 0.001), "{numbers:?}");
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_with_the_reason_and_changes_nothing() {
    let ground = Ground::new().await;
    let refused = async |to| match ground.admin().grow(count(to), |_| {}).await {
        Err(Error::Growth(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(3).await.contains("do not become fewer"));
    // The lowest new shard is there: another growth has begun.
    let other: &[&str] =
        &["HSET", "{dq:4}:meta", "layout", "2", "shard", "4", "counts", "4,9", "shards", "9"];
    ground.server.command::<u32>(other).await;
    assert!(refused(8).await.contains("finish it first, by growing to 9"));
    assert!(refused(4).await.contains("finish it first, by growing to 9"));
    assert_eq!(ground.layouts(9).await, ["4", "4", "4", "4", "4,9", "", "", "", ""]);
    let finished = ground.grow(9).await;
    assert_eq!((finished.added, finished.raised), (4, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_growth_that_is_not_through_everywhere_keeps_the_next_one_out() {
    let ground = Ground::new().await;
    ground.grow(6).await;
    ground.server.command::<u32>(&["HSET", "{dq:2}:meta", "layout", "1", "counts", "4", "shards", "4"]).await;
    let error = ground.admin().grow(count(8), |_| {}).await.unwrap_err();
    assert!(matches!(&error, Error::Growth(why) if why.contains("by growing to 6")), "{error}");
    assert_eq!(ground.grow(6).await.raised, 1);
    assert_eq!(ground.grow(8).await.raised, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_shard_is_not_made_anew_by_a_growth() {
    let ground = Ground::new().await;
    ground.server.command::<u32>(&["DEL", "{dq:2}:meta"]).await;
    let error = ground.admin().grow(count(8), |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::Uninitialised(shard) if shard.get() == 2), "{error}");
    assert_eq!(ground.layouts(5).await, ["4", "4", "", "4", ""]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_growths_at_once_one_is_carried_out_whole() {
    for round in 0..10 {
        let ground = Ground::new().await;
        let (one, other) = (Admin::new(ground.party(4).client), Admin::new(ground.party(4).client));
        let to = if round % 2 == 0 { 9 } else { 8 };
        let (eight, second) = tokio::join!(one.grow(count(8), |_| {}), other.grow(count(to), |_| {}));
        let counts = match (&eight, &second) {
            (Ok(_), Ok(_)) if to == 8 => "4,8",
            // One after the other.
            (Ok(_), Ok(_)) => "4,8,9",
            (Ok(_), Err(_)) => "4,8",
            (Err(_), Ok(_)) => &format!("4,{to}"),
            (Err(_), Err(_)) => panic!("{eight:?} {second:?}"),
        };
        let layouts = ground.layouts(9).await;
        let there = layouts.iter().filter(|layout| !layout.is_empty());
        assert!(there.clone().all(|layout| layout == counts), "{counts}: {layouts:?}");
        assert!(counts.ends_with(&there.count().to_string()), "{counts}: {layouts:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_shards_have_the_topics_settings_and_the_rate_is_divided_anew() {
    let ground = Ground::new().await;
    let policy = Policy { max_attempts: Some(3), lease: Some(Duration::from_secs(7)), ..Policy::default() };
    ground.admin().set_policy(&ground.topic, &policy).await.unwrap();
    ground.admin().set_rate(&ground.topic, Some(12.0)).await.unwrap();
    ground.admin().pause(&ground.topic).await.unwrap();
    let stranger = delayq_core::Topic::new("plain").unwrap();
    Party::new(ground.client.clone()).put(delayq_core::Message::new(stranger, "x")).await;
    ground.grow(12).await;
    for shard in 0..12 {
        let key = format!("{{dq:{shard}}}:t:1");
        assert_eq!(ground.field(&key, "name").await.as_deref(), Some("orders"));
        assert_eq!(ground.field(&key, "max_attempts").await.as_deref(), Some("3"));
        assert_eq!(ground.field(&key, "lease_ms").await.as_deref(), Some("7000"));
        assert_eq!(ground.field(&key, "rate").await.as_deref(), Some("1.000000000"));
    }
    let numbers = ground.admin().count(&ground.topic).await.unwrap();
    assert_eq!((numbers.paused, numbers.rate), (12, Some(12.0)));
    ground.admin().set_rate(&ground.topic, Some(24.0)).await.unwrap();
    assert_eq!(ground.admin().count(&ground.topic).await.unwrap().rate, Some(24.0));
}
