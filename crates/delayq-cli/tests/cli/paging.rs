//! Listings by page: every message once, despite ties at the ends of pages and messages that leave in between.

use super::{delayq, deployment, done, run};
use delayq::{Client, Consumer, ConsumerOptions, Settings, ShardCount, Topic};
use delayq_tests::deadline::{SHORT, within};
use delayq_tests::redis_server::SharedRedis;
use serde_json::Value;

const DUE: &str = "2100-01-01T00:00:00Z";

async fn page(redis: &SharedRedis, listing: &[&str], after: Option<&str>) -> (Vec<String>, Option<String>) {
    let after = after.map(|cursor| ["--after", cursor]);
    let args = [listing, &["--limit", "4", "--json"], after.as_ref().map_or(&[][..], |after| after)].concat();
    let page: Value = serde_json::from_str(&done(redis, &args).await).unwrap();
    let id = |message: &Value| {
        format!("{} {}", message["topic"].as_str().unwrap(), message["id"].as_str().unwrap())
    };
    let ids = page["messages"].as_array().unwrap().iter().map(id).collect();
    (ids, page["next"].as_str().map(str::to_owned))
}

async fn all_pages(redis: &SharedRedis, listing: &[&str]) -> Vec<String> {
    let (mut all, mut next) = page(redis, listing, None).await;
    while let Some(cursor) = next {
        let (ids, then) = page(redis, listing, Some(&cursor)).await;
        assert!(!ids.is_empty(), "{listing:?}: an empty page behind {cursor}");
        all.extend(ids);
        next = then;
    }
    all
}

/// Eleven messages of `orders`, nine of them due at the same millisecond, some ids prefixes of others; four
/// messages of another topic; every second message in a group.
async fn fill(redis: &SharedRedis, due: impl Fn(usize) -> String) {
    let mut lines = String::new();
    for n in 0..11 {
        let group = if n % 2 == 0 { ",\"group\":\"g\"" } else { "" };
        let (id, due) = (["a", "ab", "abc", "abcd"][n % 4].repeat(n / 4 + 1), due(n));
        lines.push_str(&format!("{{\"topic\":\"orders\",\"id\":\"{id}\",\"due\":\"{due}\"{group}}}\n"));
        if n < 4 {
            lines.push_str(&format!(
                "{{\"topic\":\"others\",\"id\":\"{id}\",\"due\":\"{due}\",\"group\":\"g\"}}\n"
            ));
        }
    }
    let put = delayq(redis).args(["put", "--from", "-"]).run(lines.as_bytes(), SHORT).await;
    assert_eq!(put.code, Some(0), "{put:?}");
}

fn each_once(mut ids: Vec<String>, count: usize, listing: &[&str]) {
    ids.sort_unstable();
    let before = ids.len();
    ids.dedup();
    assert_eq!((ids.len(), before), (count, count), "{listing:?}: {ids:?}");
}

#[tokio::test]
async fn pages_show_every_message_once_though_many_share_their_time() {
    let redis = deployment().await;
    fill(&redis, |n| if n < 9 { DUE.to_owned() } else { format!("2100-01-01T00:00:0{}Z", n - 8) }).await;
    for (listing, count) in [
        (&["list", "orders"][..], 11),
        (&["list", "orders", "--from", DUE, "--until", DUE], 9),
        (&["list", "orders", "--group", "g"], 6),
        (&["list", "--group", "g"], 10),
    ] {
        each_once(all_pages(&redis, listing).await, count, listing);
    }
    let text = run(&redis, &["list", "orders", "-n", "11"]).await;
    assert_eq!(text.stderr, "", "nothing was cut");
    let cut = run(&redis, &["list", "orders", "-n", "10"]).await;
    let cursor = cut.stderr.strip_prefix("more than these 10; next page: --after ").unwrap().trim();
    let rest = done(&redis, &["list", "orders", "-n", "10", "--after", cursor]).await;
    assert_eq!(rest.lines().count(), 2, "{rest}");
    assert_eq!(run(&redis, &["list", "orders", "--after", "yesterday"]).await.code, Some(64));
}

#[tokio::test]
async fn a_page_goes_on_behind_a_message_that_left_meanwhile() {
    let redis = deployment().await;
    fill(&redis, |_| DUE.to_owned()).await;
    let listing = ["list", "orders"];
    let (first, next) = page(&redis, &listing, None).await;
    for gone in &first {
        let id = gone.split_once(' ').unwrap().1;
        let plain = run(&redis, &["cancel", "orders", id]).await;
        if plain.code != Some(0) {
            done(&redis, &["cancel", "orders", id, "--group", "g"]).await;
        }
    }
    let (mut rest, mut next) = page(&redis, &listing, next.as_deref()).await;
    while let Some(cursor) = next {
        let (ids, then) = page(&redis, &listing, Some(&cursor)).await;
        rest.extend(ids);
        next = then;
    }
    assert!(rest.iter().all(|id| !first.contains(id)), "{first:?}, {rest:?}");
    each_once(rest, 7, &listing);
}

#[tokio::test]
async fn ready_leased_and_dead_messages_come_by_pages_too() {
    let redis = deployment().await;
    fill(&redis, |_| "now".to_owned()).await;
    let ready = ["list", "orders", "--state", "ready"];
    each_once(all_pages(&redis, &ready).await, 11, &ready);

    let settings = Settings::new(redis.url()).shards(ShardCount::new(4).unwrap());
    let options = ConsumerOptions::new([Topic::new("orders").unwrap()]).concurrency(11);
    let mut consumer = Consumer::start(Client::new(settings), options).unwrap();
    let mut held = Vec::new();
    while held.len() < 11 {
        held.push(within("a delivery", SHORT, consumer.next()).await.unwrap());
    }
    let leased = ["list", "orders", "--state", "leased"];
    each_once(all_pages(&redis, &leased).await, 11, &leased);
    assert!(done(&redis, &leased).await.contains("LEASE ENDS"));
    let (id, group) = (held[0].id.to_string(), held[0].envelope.group.as_ref().map(ToString::to_string));
    let group = group.map(|group| vec!["--group".to_owned(), group]).unwrap_or_default();
    let get: Vec<&str> = ["get", "orders", &id].into_iter().chain(group.iter().map(String::as_str)).collect();
    assert!(done(&redis, &get).await.contains("\nlease ends  20"));

    for delivery in held {
        delivery.bury("bad").await.unwrap();
    }
    consumer.stop().await;
    for dead in [&["dead", "list", "orders"][..], &["dead", "list", "orders", "--oldest-first"]] {
        each_once(all_pages(&redis, dead).await, 11, dead);
    }
}
