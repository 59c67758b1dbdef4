//! Finding messages by header and by reason: walks with a budget.

use super::stage::Stage;
use serde_json::{Value, json};

const FAR: u64 = 4_000_000_000_000;

#[tokio::test]
async fn a_walk_finds_each_message_with_the_header_once_and_says_how_many_it_looked_at() {
    let stage = Stage::start("").await;
    let line = |n: u64| json!({ "topic": "t", "id": format!("t-{n}"), "due": FAR + n, "headers": { "Customer": (n % 500).to_string() } });
    let lines: Vec<String> = (0..25_000).map(|n| line(n).to_string()).collect();
    stage.gateway.post_lines("/v1/messages", &lines.join("\n")).await;
    let (mut found, mut looked_at, mut walks, mut after) = (Vec::new(), 0, 0, String::new());
    loop {
        let page =
            stage.gateway.get(&format!("/v1/topics/t/messages?header=customer:17&limit=500{after}")).await;
        let page: Value = page.with(200);
        let one = page["looked_at"].as_u64().unwrap();
        assert!(one <= 20_500, "{one}");
        looked_at += one;
        walks += 1;
        found.extend(
            page["messages"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let expected: Vec<String> = (0..50).map(|n| format!("t-{}", 17 + 500 * n)).collect();
    assert_eq!((found, looked_at), (expected, 25_000));
    assert!(walks > 1, "the budget ends a walk");
    let few = stage.gateway.get("/v1/topics/t/messages?header=customer:1&limit=1").await.with(200);
    assert!(few["looked_at"].as_u64().unwrap() < 2_000, "{}", few["looked_at"]);
    let refused = stage.gateway.get("/v1/topics/t/messages?header=customer").await.with(422);
    assert_eq!(refused["errors"][0]["detail"], "header: write name:value");
}

#[tokio::test]
async fn a_walk_finds_messages_by_the_reason_of_the_last_failure() {
    let stage = Stage::start("").await;
    for (id, reason) in [("a", "HTTP 503"), ("b", "HTTP 404"), ("c", "HTTP 503 again")] {
        stage.gateway.put(&format!("/v1/topics/t/messages/{id}"), &json!({ "due": "now" })).await.with(201);
        let ask = json!({ "topics": ["t"], "wait": "10s" });
        let reserved = stage.gateway.post("/v1/reserve", &ask).await.with(200);
        let bury = json!([{ "receipt": reserved["messages"][0]["receipt"], "do": "bury", "reason": reason }]);
        stage.gateway.post("/v1/settle", &bury).await.with(200);
    }
    let page = stage.gateway.get("/v1/topics/t/messages?state=dead&reason=503").await.with(200);
    let ids: Vec<&str> =
        page["messages"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!((ids, &page["looked_at"], &page["next"]), (vec!["a", "c"], &json!(3), &Value::Null));
}
