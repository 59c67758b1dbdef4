//! Acting on many messages: dry runs, frozen selections, aborts, and another gateway that continues.

use super::stage::{Answer, Running, Stage};
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::process::Signal;
use delayq_tests::redis_server::RedisServer;
use reqwest::Method;
use serde_json::{Value, json};

const FAR: u64 = 4_000_000_000_000;

async fn put(stage: &Stage<RedisServer>, topic: &str, count: usize, due: u64) {
    let line = |n: usize| {
        let user = n % 10;
        json!({ "topic": topic, "id": format!("{topic}-{n}"), "due": due + n as u64, "headers": { "user": user.to_string() } })
    };
    let lines: Vec<String> = (0..count).map(|n| line(n).to_string()).collect();
    let answer = stage.gateway.post_lines("/v1/messages", &lines.join("\n")).await;
    assert_eq!(answer.lines().last().unwrap()["outcomes"]["stored"], count);
}

fn cancel(topic: &str) -> Value {
    json!({ "action": "cancel", "filter": { "topics": [topic] }, "reason": "ordered twice" })
}

async fn begin(gateway: &Running, body: &Value) -> String {
    let begun = gateway.post("/v1/operations", body).await;
    let id = begun.with(202)["id"].as_str().unwrap().to_owned();
    assert_eq!(begun.header("location"), format!("/v1/operations/{id}"));
    id
}

async fn shown(gateway: &Running, id: &str) -> Value {
    gateway.get(&format!("/v1/operations/{id}")).await.with(200)
}

async fn ended(gateway: &Running, id: &str) -> Value {
    let is_over = async || !shown(gateway, id).await["ended_ms"].is_null();
    wait_until("the end of the operation", LONG, is_over).await;
    shown(gateway, id).await
}

async fn counts(gateway: &Running, topic: &str) -> [u64; 4] {
    let topic = gateway.get(&format!("/v1/topics/{topic}")).await.with(200);
    ["delayed", "ready", "dead", "cancelled"].map(|state| topic[state].as_u64().unwrap())
}

#[tokio::test]
async fn an_operation_counts_first_and_then_acts_on_what_its_filter_matches_alone() {
    let stage = Stage::private("").await;
    put(&stage, "orders", 300, FAR).await;
    put(&stage, "mails", 50, FAR).await;
    let filter = json!({ "topics": ["orders"], "headers": { "user": "3" }, "from": FAR + 100, "to": "2999-01-01T00:00:00Z" });
    let dry = json!({ "action": "cancel", "filter": filter, "dry_run": true });
    let counted = stage.gateway.post("/v1/operations", &dry).await.with(200);
    assert_eq!((&counted["count"], &counted["exact"]), (&json!(20), &json!(true)), "{counted}");
    assert_eq!(counted["sample"].as_array().unwrap().len(), 10);
    assert_eq!(counts(&stage.gateway, "orders").await, [300, 0, 0, 0], "a dry run changes nothing");
    let id = begin(&stage.gateway, &json!({ "action": "cancel", "filter": filter, "reason": "wrong price" }))
        .await;
    let done = ended(&stage.gateway, &id).await;
    assert_eq!(
        (&done["state"], &done["done"], &done["total"]),
        (&json!("done"), &json!(20), &json!(20)),
        "{done}"
    );
    assert_eq!((&done["outcomes"], &done["reason"]), (&json!({ "cancelled": 20 }), &json!("wrong price")));
    assert_eq!(counts(&stage.gateway, "orders").await, [280, 0, 0, 20]);
    assert_eq!(counts(&stage.gateway, "mails").await, [50, 0, 0, 0]);
    let listed = stage.gateway.get("/v1/operations").await.with(200);
    assert_eq!(listed["operations"][0], done);
    let (_, metrics) = stage.gateway.endpoint.get("/metrics").await;
    assert!(metrics.contains("delayq_gateway_operated_total{outcome=\"cancelled\"} 20\n"), "{metrics}");
}

#[tokio::test]
async fn each_action_ends_where_it_says() {
    let stage = Stage::private("").await;
    for topic in ["a", "b", "c"] {
        put(&stage, topic, 250, FAR).await;
    }
    let act = async |action: &str, topic: &str, rest: Value| {
        let mut body = json!({ "action": action, "filter": { "topics": [topic] }, "reason": "maintenance" });
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        ended(&stage.gateway, &begin(&stage.gateway, &body).await).await
    };
    assert_eq!(act("promote", "a", json!({})).await["outcomes"], json!({ "ready": 250 }));
    assert_eq!(counts(&stage.gateway, "a").await, [0, 250, 0, 0]);
    assert_eq!(act("reschedule", "a", json!({ "due": "+1h" })).await["outcomes"], json!({ "delayed": 250 }));
    assert_eq!(counts(&stage.gateway, "a").await, [250, 0, 0, 0]);
    assert_eq!(act("bury", "b", json!({})).await["outcomes"], json!({ "buried": 250 }));
    assert_eq!(counts(&stage.gateway, "b").await, [0, 0, 250, 0]);
    let dead = stage.gateway.get("/v1/topics/b/messages?state=dead&limit=1").await.with(200);
    assert_eq!(dead["messages"][0]["reason"], "maintenance");
    let other = json!({ "filter": { "topics": ["b"], "reason": "another" } });
    assert_eq!(act("replay", "b", other).await["outcomes"], json!({}));
    assert_eq!(act("replay", "b", json!({})).await["outcomes"], json!({ "ready": 250 }));
    assert_eq!(counts(&stage.gateway, "b").await, [0, 250, 0, 0]);
    assert_eq!(act("reschedule", "c", json!({ "by": "10m" })).await["outcomes"], json!({ "delayed": 250 }));
    let first = stage.gateway.get("/v1/topics/c/messages?limit=1").await.with(200);
    assert_eq!(first["messages"][0]["due_ms"], FAR + 600_000);
}

#[tokio::test]
async fn what_is_moved_or_put_after_the_beginning_is_counted_as_changed_and_not_touched() {
    let stage = Stage::private("").await;
    put(&stage, "t", 3000, FAR).await;
    let id = begin(&stage.gateway, &cancel("t")).await;
    // The last of each shard, whose turn comes late; and one that is new.
    let late = json!({ "due": FAR + 500_000 });
    let moved = stage.gateway.post("/v1/topics/t/messages/t-2999/reschedule", &late).await;
    let new = json!({ "due": FAR + 600_000, "payload": "new" });
    stage.gateway.put("/v1/topics/t/messages/new", &new).await.with(201);
    let done = ended(&stage.gateway, &id).await;
    moved.with(200);
    assert_eq!(done["outcomes"], json!({ "cancelled": 2999, "changed": 2 }), "{done}");
    assert_eq!(counts(&stage.gateway, "t").await, [2, 0, 0, 2999]);
    let left = stage.gateway.get("/v1/topics/t/messages/t-2999").await.with(200);
    assert_eq!((&left["state"], &left["due_ms"]), (&json!("delayed"), &json!(FAR + 500_000)));
}

#[tokio::test]
async fn an_aborted_operation_stops_and_two_are_as_many_as_run_at_a_time() {
    let stage = Stage::private("").await;
    for topic in ["a", "b", "c"] {
        put(&stage, topic, 15_000, FAR).await;
    }
    let (first, second) =
        (begin(&stage.gateway, &cancel("a")).await, begin(&stage.gateway, &cancel("b")).await);
    let third = stage.gateway.post("/v1/operations", &cancel("c")).await;
    assert_eq!((&third.with(429)["code"], third.header("retry-after")), (&json!("DQ-G126"), "1"));
    stage.gateway.delete(&format!("/v1/operations/{first}")).await.with(202);
    let aborted = ended(&stage.gateway, &first).await;
    assert_eq!(aborted["state"], "aborted", "{aborted}");
    let [delayed, .., cancelled] = counts(&stage.gateway, "a").await;
    assert_eq!((json!(cancelled), delayed + cancelled), (aborted["done"].clone(), 15_000));
    assert!(delayed > 0, "aborted before its end");
    assert_eq!(stage.gateway.delete(&format!("/v1/operations/{first}")).await.with(200)["state"], "aborted");
    assert_eq!(ended(&stage.gateway, &second).await["done"], 15_000);
    let unknown = stage.gateway.delete("/v1/operations/0123456789abcdef").await.with(404);
    assert_eq!(unknown["code"], "DQ-G127");
}

#[tokio::test]
async fn another_gateway_continues_what_a_killed_one_began_and_counts_each_message_once() {
    let mut stage = Stage::private("").await;
    put(&stage, "t", 9000, FAR).await;
    let mut second = stage.another().await;
    let id = begin(&stage.gateway, &cancel("t")).await;
    let half = async || shown(&second, &id).await["done"].as_u64().unwrap() > 500;
    wait_until("some progress", LONG, half).await;
    stage.gateway.process.end_by(Signal::KILL, SHORT).await;
    second.process.end_by(Signal::KILL, SHORT).await;
    let third = stage.another().await;
    let done = ended(&third, &id).await;
    assert_eq!(
        (&done["state"], &done["outcomes"]),
        (&json!("done"), &json!({ "cancelled": 9000 })),
        "{done}"
    );
    assert!(done["takeovers"].as_u64().unwrap() >= 1, "{done}");
    assert_eq!(counts(&third, "t").await, [0, 0, 0, 9000]);
}

#[tokio::test]
async fn a_gateway_that_stops_hands_its_operation_over_at_once() {
    let mut stage = Stage::private("").await;
    put(&stage, "t", 9000, FAR).await;
    let id = begin(&stage.gateway, &cancel("t")).await;
    let begun = async || shown(&stage.gateway, &id).await["done"].as_u64().unwrap() > 200;
    wait_until("some progress", LONG, begun).await;
    stage.gateway.process.ends_well_by(Signal::TERM, SHORT).await;
    let second = stage.another().await;
    let done = ended(&second, &id).await;
    assert_eq!(done["outcomes"], json!({ "cancelled": 9000 }), "{done}");
}

#[tokio::test]
async fn an_order_that_means_nothing_is_refused_by_name() {
    let stage = Stage::private("").await;
    let topics = json!({ "topics": ["t"] });
    for (body, named) in [
        (json!({ "action": "cancel", "filter": {}, "reason": "x" }), "filter"),
        (json!({ "action": "cancel", "filter": { "state": "ready" }, "reason": "x" }), "filter"),
        (
            json!({ "action": "cancel", "filter": { "topics": ["t"], "state": "dead" }, "reason": "x" }),
            "filter.state",
        ),
        (
            json!({ "action": "cancel", "filter": { "topics": ["t"], "reason": "x" }, "reason": "x" }),
            "filter.reason",
        ),
        (
            json!({ "action": "cancel", "filter": { "topics": ["t"], "from": 7, "to": "x" }, "reason": "x" }),
            "filter.from",
        ),
        (json!({ "action": "replay", "filter": { "group": "g" }, "reason": "x" }), "filter.topics"),
        (json!({ "action": "cancel", "filter": topics }), "reason"),
        (json!({ "action": "cancel", "filter": topics, "due": "+1h", "reason": "x" }), "due"),
        (json!({ "action": "promote", "filter": topics, "delay": "1h", "reason": "x" }), "delay"),
        (json!({ "action": "reschedule", "filter": topics, "reason": "x" }), "due"),
        (json!({ "action": "delete", "filter": topics, "reason": "x" }), "action"),
    ] {
        let refused = stage.gateway.post("/v1/operations", &body).await.with(422);
        assert_eq!(refused["errors"][0]["pointer"], named, "{body}: {refused}");
    }
    let typo = json!({ "action": "cancel", "filter": { "topic": "t" }, "reason": "x" });
    let refused = stage.gateway.post("/v1/operations", &typo).await.with(422);
    assert!(refused["detail"].as_str().unwrap().contains("unknown field `topic`"), "{refused}");
}

#[tokio::test]
async fn if_match_changes_a_message_only_as_it_was_seen() {
    let stage = Stage::private("").await;
    put(&stage, "t", 3, FAR).await;
    let send = async |method: Method, path: &str, tag: &str, body: Value| {
        let request =
            stage.gateway.request(method, &format!("/v1/topics/t/messages/{path}")).header("if-match", tag);
        Answer::of(if body.is_null() { request } else { request.json(&body) }).await
    };
    let seen = stage.gateway.get("/v1/topics/t/messages/t-0").await;
    let (etag, tag) = (seen.header("etag").to_owned(), seen.with(200)["tag"].as_str().unwrap().to_owned());
    assert!(etag.starts_with(&format!("\"{tag}-")), "{etag} {tag}");
    let moved = send(Method::POST, "t-0/reschedule", &etag, json!({ "by": "1m" })).await.with(200);
    assert_eq!((&moved["outcome"], &moved["due_ms"]), (&json!("moved"), &json!(FAR + 60_000)));
    for (method, path, body) in [
        (Method::DELETE, "t-0", Value::Null),
        (Method::POST, "t-0/reschedule", json!({ "due": "+1h" })),
        (Method::POST, "t-0/replay", json!({})),
    ] {
        let stale = send(method, path, &etag, body).await.with(412);
        assert_eq!((&stale["code"], &stale["state"]), (&json!("DQ-G111"), &json!("delayed")), "{stale}");
        let now = stage.gateway.get("/v1/topics/t/messages/t-0").await.with(200);
        assert_eq!(stale["tag"], now["tag"]);
    }
    let tag =
        stage.gateway.get("/v1/topics/t/messages/t-0").await.with(200)["tag"].as_str().unwrap().to_owned();
    send(Method::POST, "t-0/replay", &format!("\"{tag}\""), json!({})).await.with(409);
    let cancelled = send(Method::DELETE, "t-0", &format!("\"{tag}\""), Value::Null).await.with(200);
    assert_eq!(cancelled["outcome"], "cancelled");
    assert_eq!(
        send(Method::DELETE, "t-1", "\"odd\"", Value::Null).await.with(422)["errors"][0]["pointer"],
        "if-match"
    );
    send(Method::DELETE, "t-1", "*", Value::Null).await.with(200);
    let both = json!({ "due": "+1h", "expected_due": FAR });
    assert_eq!(
        send(Method::POST, "t-2/reschedule", &etag, both).await.with(422)["errors"][0]["pointer"],
        "expected_due"
    );
    send(Method::DELETE, "nobody", &etag, Value::Null).await.with(404);
}
