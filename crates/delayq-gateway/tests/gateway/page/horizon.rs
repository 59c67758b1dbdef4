//! The horizon of a topic.

use crate::stage::{Stage, topic};
use delayq::{Message, UnixMillis};
use serde_json::{Value, json};
use std::time::Duration;

fn counts(horizon: &Value) -> Vec<Option<u64>> {
    horizon["intervals"].as_array().unwrap().iter().map(|interval| interval["count"].as_u64()).collect()
}

#[tokio::test]
async fn the_whole_horizon_counts_each_message_once_from_overdue_to_years_ahead() {
    let stage = Stage::start("").await;
    let after = |seconds: u64| Message::new(topic("orders"), "x").after(Duration::from_secs(seconds));
    let (minute, hour, day) = (60, 3600, 86_400);
    let ahead =
        [0, 0, 30, 5 * minute, 5 * minute, 3 * hour, 12 * hour, 3 * day, 20 * day, 100 * day, 800 * day];
    stage.deployment.put(ahead.map(after)).await;
    let horizon = stage.gateway.get("/v1/topics/orders/horizon").await.with(200);
    // No timer runs here: due messages stay delayed, except messages that were put ready.
    let found: Vec<u64> = counts(&horizon).into_iter().map(Option::unwrap).collect();
    assert_eq!(found.iter().sum::<u64>() + ready(&stage).await, 11);
    assert_eq!(found[3..], [1, 2, 0, 1, 1, 1, 1, 1, 1], "{horizon}");
    assert_eq!(horizon["delayed"].as_u64(), Some(found.iter().sum()));
    let intervals = horizon["intervals"].as_array().unwrap();
    assert!(intervals.windows(2).all(|pair| pair[0]["to_ms"] == pair[1]["from_ms"]), "{horizon}");
    assert_eq!(intervals[0]["to_ms"], horizon["now_ms"]);
}

/// A message of the topic and the group that is due in these hours.
fn grouped(of: &str, group: &str, hours: u64) -> Message {
    let id = format!("{of}-{group}-{hours}");
    let message = Message::new(topic(of), "x").after(Duration::from_secs(hours * 3600));
    message.id(id).unwrap().group(group).unwrap()
}

#[tokio::test]
async fn a_group_has_a_horizon_a_histogram_and_lists_of_its_own() {
    let stage = Stage::start("").await;
    let of_user = [0, 2, 3, 30].map(|hours| grouped("orders", "user-5", hours));
    stage.deployment.put(of_user).await;
    stage.deployment.put([grouped("orders", "user-6", 2), grouped("mails", "user-5", 2)]).await;
    let get = async |path: &str| stage.gateway.get(&format!("/v1/topics/orders/{path}")).await.with(200);
    let horizon = get("horizon?group=user-5").await;
    let found: Vec<u64> = counts(&horizon).into_iter().map(Option::unwrap).collect();
    assert_eq!((found.iter().sum::<u64>(), &horizon["delayed"]), (3, &json!(3)), "{horizon}");
    assert_eq!(found[6..9], [2, 0, 1], "{horizon}");
    let now = horizon["now_ms"].as_u64().unwrap();
    let range = format!("from={}&to={}", now + 3_600_000, now + 4 * 3_600_000);
    let of_range: u64 =
        counts(&get(&format!("horizon?group=user-5&{range}")).await).into_iter().flatten().sum();
    assert_eq!(of_range, 2);
    let slots = get("histogram?group=user-5").await;
    let all: u64 = slots.as_array().unwrap().iter().map(|slot| slot["count"].as_u64().unwrap()).sum();
    assert_eq!(all, 3, "{slots}");
    let ids = async |query: &str| -> Vec<String> {
        let page = get(&format!("messages?group=user-5&{query}")).await;
        let messages = page["messages"].as_array().unwrap().iter();
        messages.map(|message| message["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&range).await, ["orders-user-5-2", "orders-user-5-3"]);
    assert_eq!(ids("state=ready").await, ["orders-user-5-0"]);
    let bury = json!([{ "topic": "orders", "id": "orders-user-5-30", "group": "user-5", "reason": "no" },
        { "topic": "orders", "id": "orders-user-6-2", "group": "user-6", "reason": "no" }]);
    stage.gateway.post("/v1/bury", &bury).await.with(200);
    assert_eq!(ids("state=dead").await, ["orders-user-5-30"]);
    let two = stage.gateway.get("/v1/topics/orders/messages?group=user-5&limit=1").await.with(200);
    assert_eq!(two["messages"].as_array().unwrap().len(), 1);
    assert!(two["next"].is_string(), "{two}");
}

async fn ready(stage: &Stage) -> u64 {
    stage.gateway.get("/v1/topics/orders").await.with(200)["ready"].as_u64().unwrap()
}

#[tokio::test]
async fn a_range_is_counted_exactly_whatever_its_width() {
    let stage = Stage::start("").await;
    // 2099-01-01T00:00:00Z
    let start = 4_070_908_800_000;
    let at = |ms: u64| Message::new(topic("orders"), "x").at(UnixMillis::new(start + ms));
    let offsets = [0, 999, 1000, 59_999, 60_000, 3_600_000, 3_600_001, 86_400_000, 90 * 86_400_000];
    stage.deployment.put(offsets.map(at)).await;
    for (from, length) in [
        (0, 2000),
        (1, 999),
        (500, 60_000),
        (0, 3_600_000),
        (7, 3_600_000),
        (0, 86_400_001),
        (1000, 9_000_000_000),
    ] {
        let path = format!("/v1/topics/orders/horizon?from={}&to={}", start + from, start + from + length);
        let horizon = stage.gateway.get(&path).await.with(200);
        for interval in horizon["intervals"].as_array().unwrap() {
            let edge = |name: &str| interval[name].as_u64().unwrap() - start;
            let inside = offsets.iter().filter(|ms| (edge("from_ms")..edge("to_ms")).contains(*ms)).count();
            assert_eq!(interval["count"], inside, "{path}: {interval}");
        }
        let total: u64 = counts(&horizon).into_iter().map(Option::unwrap).sum();
        assert_eq!(
            total as usize,
            offsets.iter().filter(|ms| (from..from + length).contains(*ms)).count(),
            "{path}"
        );
    }
    for odd in ["from=5", "from=2099-01-02T00:00:00Z&to=2099-01-01T00:00:00Z", "width=1h"] {
        let refused = stage.gateway.get(&format!("/v1/topics/orders/horizon?{odd}")).await;
        assert!([400, 422].contains(&refused.status), "{odd}: {refused:?}");
    }
    assert_eq!(stage.gateway.get("/v1/topics/nowhere/horizon").await.with(200)["delayed"], json!(0));
}

#[tokio::test]
async fn a_range_that_would_take_too_many_calls_is_counted_in_part_and_says_so() {
    let stage = Stage::start("").await;
    let start = 4_070_908_800_000;
    // 48 calls count 24 hours each: 1,152 of 1,300 hours. Own ids are spread over the shards, so that hardly
    // an hour is empty in a shard.
    let hours = (0..1300 * 16).map(|at| {
        let message = Message::new(topic("orders"), "x").at(UnixMillis::new(start + at / 16 * 3_600_000));
        message.id(format!("m{at}")).unwrap()
    });
    for chunk in hours.collect::<Vec<_>>().chunks(2000) {
        stage.deployment.put(chunk.to_vec()).await;
    }
    let path = format!("/v1/topics/orders/horizon?from={start}&to={}", start + 1300 * 3_600_000);
    let found = counts(&stage.gateway.get(&path).await.with(200));
    let counted: Vec<u64> = found.iter().map_while(|count| *count).collect();
    assert!(counted.len() > 20 && counted.len() < found.len(), "{found:?}");
    assert!(found[counted.len()..].iter().all(Option::is_none), "{found:?}");
    let width = 1300_u64.div_ceil(60).next_multiple_of(24);
    assert!(counted[1..].iter().all(|count| *count == width * 16), "{found:?}");
}
