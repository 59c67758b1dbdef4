//! Changing messages, one or many, and groups.

use super::stage::{Answer, Stage, topic};
use delayq::{Message, UnixMillis};
use serde_json::{Value, json};

const FAR: u64 = 4_070_908_800_000;

fn far(id: &str) -> Message {
    Message::new(topic("orders"), "x").at(UnixMillis::new(FAR)).id(id).unwrap()
}

async fn bury(stage: &Stage, id: &str) {
    stage.deployment.put([Message::new(topic("dead"), "x").id(id).unwrap()]).await;
    let taken =
        stage.gateway.post("/v1/reserve", &json!({ "topics": ["dead"], "wait": "30s" })).await.with(200);
    let bury = json!([{ "receipt": taken["messages"][0]["receipt"], "do": "bury", "reason": "broken" }]);
    assert_eq!(stage.gateway.post("/v1/settle", &bury).await.with(200), json!([{ "outcome": "buried" }]));
}

#[tokio::test]
async fn a_cancel_answers_what_it_found() {
    let stage = Stage::start("").await;
    stage.deployment.put([far("a")]).await;
    let path = "/v1/topics/orders/messages/a";
    for _ in 0..2 {
        assert_eq!(stage.gateway.delete(path).await.with(200)["outcome"], "cancelled");
    }
    assert_eq!(stage.gateway.delete("/v1/topics/orders/messages/b").await.with(404)["code"], "DQ-G107");
    bury(&stage, "d").await;
    let dead = stage.gateway.delete("/v1/topics/dead/messages/d").await.with(409);
    assert_eq!((&dead["outcome"], &dead["fate"]), (&json!("dead"), &json!("not_applied")));
    stage.deployment.put([Message::new(topic("held"), "x").id("h").unwrap()]).await;
    stage.gateway.post("/v1/reserve", &json!({ "topics": ["held"], "wait": "30s" })).await.with(200);
    assert_eq!(stage.gateway.delete("/v1/topics/held/messages/h").await.with(202)["outcome"], "leased");
}

#[tokio::test]
async fn a_reschedule_moves_once_and_only_from_the_expected_time() {
    let stage = Stage::start("").await;
    stage.deployment.put([far("a")]).await;
    let path = "/v1/topics/orders/messages/a/reschedule";
    let by = json!({ "by": "10m", "expected_due": FAR });
    let moved = stage.gateway.post(path, &by).await.with(200);
    assert_eq!((&moved["old_due_ms"], &moved["due_ms"]), (&json!(FAR), &json!(FAR + 600_000)));
    let repeat = stage.gateway.post(path, &by).await.with(200);
    assert_eq!(repeat["due_ms"], FAR + 600_000, "a repeat moves nothing twice");
    let other = json!({ "by": "10m", "expected_due": FAR + 1 });
    let changed = stage.gateway.post(path, &other).await.with(412);
    assert_eq!((&changed["outcome"], &changed["due_ms"]), (&json!("changed"), &json!(FAR + 600_000)));
    stage.gateway.post(path, &json!({ "due": "2099-06-01T00:00:00Z" })).await.with(200);
    for odd in
        [json!({}), json!({ "by": "10m" }), json!({ "due": "+1m", "by": "1m" }), json!({ "to": "+1m" })]
    {
        stage.gateway.post(path, &odd).await.with(422);
    }
    stage.gateway.post("/v1/topics/orders/messages/b/reschedule", &json!({ "due": "+1m" })).await.with(404);
}

#[tokio::test]
async fn a_replay_needs_a_dead_letter() {
    let stage = Stage::start("").await;
    bury(&stage, "a").await;
    let dead = stage.gateway.get("/v1/topics/dead/messages?state=dead&order=desc").await.with(200);
    assert_eq!(dead["messages"][0]["reason"], "broken");
    let path = "/v1/topics/dead/messages/a/replay";
    assert_eq!(stage.gateway.post(path, &json!({ "delay": "1h" })).await.with(200)["outcome"], "delayed");
    let again = stage.gateway.post(path, &json!({})).await.with(409);
    assert_eq!((&again["outcome"], &again["state"]), (&json!("not dead"), &json!("delayed")));
    stage.gateway.post("/v1/topics/dead/messages/b/replay", &json!({})).await.with(404);
}

#[tokio::test]
async fn a_burial_needs_a_reason_and_a_pending_message_as_it_was_seen() {
    let stage = Stage::start("").await;
    stage.deployment.put([far("a"), far("b")]).await;
    let path = "/v1/topics/orders/messages/a/bury";
    for odd in [json!({}), json!({ "reason": " " }), json!({ "reason": "a\nb" }), json!({ "why": "x" })] {
        stage.gateway.post(path, &odd).await.with(422);
    }
    let with_tag = async |tag: &str| {
        let request = stage.gateway.request(reqwest::Method::POST, path).header("if-match", tag);
        Answer::of(request.json(&json!({ "reason": " the card is blocked " }))).await
    };
    let changed = with_tag("\"1-1\"").await.with(412);
    assert_eq!((&changed["outcome"], &changed["state"]), (&json!("changed"), &json!("delayed")));
    let tag = changed["tag"].as_str().unwrap().to_owned();
    assert_eq!(with_tag(&format!("\"{tag}\"")).await.with(200), json!({ "id": "a", "outcome": "buried" }));
    let dead = stage.gateway.get("/v1/topics/orders/messages/a").await.with(200);
    assert_eq!((&dead["state"], &dead["reason"]), (&json!("dead"), &json!("the card is blocked")));
    let again = stage.gateway.post(path, &json!({ "reason": "x" })).await.with(409);
    assert_eq!((&again["outcome"], &again["state"]), (&json!("dead"), &json!("dead")));
    stage.gateway.post("/v1/topics/orders/messages/c/bury", &json!({ "reason": "x" })).await.with(404);
    let bury = json!({ "reason": "of no use" });
    assert_eq!(
        stage.gateway.post("/v1/topics/orders/messages/b/bury", &bury).await.with(200)["outcome"],
        "buried"
    );
}

#[tokio::test]
async fn many_messages_are_changed_each_only_under_its_tag() {
    let stage = Stage::start("").await;
    stage.deployment.put(["a", "b", "c", "d"].map(far)).await;
    let seen = async |id: &str| {
        let message = stage.gateway.get(&format!("/v1/topics/orders/messages/{id}")).await.with(200);
        json!({ "topic": "orders", "id": id, "tag": message["tag"] })
    };
    let stale = |id: &str| json!({ "topic": "orders", "id": id, "tag": "1-1" });
    let unseen = json!({ "topic": "orders", "id": "c" });
    let words = async |verb: &str, items: Vec<Value>| {
        let answers = stage.gateway.post(&format!("/v1/{verb}"), &json!(items)).await.with(200);
        let word =
            |answer: &Value| answer["outcome"].as_str().or(answer["code"].as_str()).unwrap().to_owned();
        answers.as_array().unwrap().iter().map(word).collect::<Vec<_>>()
    };
    let cancelled = words("cancel", vec![stale("a"), unseen, seen("b").await, stale("nobody")]).await;
    assert_eq!(cancelled, ["changed", "cancelled", "cancelled", "DQ-G107"]);
    let because = |mut item: Value| {
        item["reason"] = "of no use".into();
        item
    };
    let items =
        vec![because(stale("d")), because(seen("a").await), because(json!({ "topic": "orders", "id": "d" }))];
    assert_eq!(words("bury", items).await, ["changed", "buried", "buried"]);
    assert_eq!(words("bury", vec![stale("a")]).await, ["DQ-G114"], "a reason is needed");
    assert_eq!(words("replay", vec![stale("a"), seen("d").await]).await, ["changed", "ready"]);
    assert_eq!(stage.gateway.get("/v1/topics/orders/messages/a").await.with(200)["state"], "dead");
}

#[tokio::test]
async fn many_changes_answer_each_in_order_and_names_may_be_dots() {
    let stage = Stage::start("").await;
    let dots = Message::new(topic(".."), "x").at(UnixMillis::new(FAR)).id(".").unwrap();
    let grouped = far("g").group("u").unwrap();
    stage.deployment.put([dots, far("a"), grouped]).await;
    let target = |topic: &str, id: &str| json!({ "topic": topic, "id": id });
    let items = json!([target("..", "."), target("orders", "a"), target("orders", "b"), { "topic": "orders" },
        { "topic": "orders", "id": "g", "group": "u" }]);
    let found = stage.gateway.post("/v1/get", &items).await.with(200);
    let states: Vec<&Value> = (0..5).map(|n| &found[n]["state"]).collect();
    assert_eq!(json!(states), json!(["delayed", "delayed", null, null, "delayed"]));
    assert_eq!((&found[2]["code"], &found[3]["code"]), (&json!("DQ-G107"), &json!("DQ-G114")));
    let lines = [
        r#"{"topic":"..","id":".","due":"+1h"}"#,
        r#"{"topic":"orders","id":"a","by":"1m","expected_due":1}"#,
        r#"{"topic":"orders","id":"b","due":"+1h"}"#,
        r#"{"topic":"orders","id":"a","dew":"+1h"}"#,
    ];
    let moved = stage.gateway.post_lines("/v1/reschedule", &lines.join("\n")).await.lines();
    let codes: Vec<&Value> = moved.iter().map(|line| &line["code"]).collect();
    assert_eq!(json!(codes), json!([null, "DQ-G111", "DQ-G107", "DQ-G114"]));
    let cancelled = stage.gateway.post("/v1/cancel", &items).await.with(200);
    assert_eq!(
        (&cancelled[0]["outcome"], &cancelled[4]["outcome"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    let replayed = stage.gateway.post("/v1/replay", &json!([target("orders", "a")])).await.with(200);
    assert_eq!(replayed[0]["outcome"], "not dead");
    let many: Vec<Value> = (0..501).map(|n| target("orders", &n.to_string())).collect();
    stage.gateway.post("/v1/cancel", &json!(many)).await.with(413);
}

#[tokio::test]
async fn a_topic_and_a_group_are_promoted_up_to_a_time_and_a_maximum() {
    let stage = Stage::start("").await;
    let message = |n: u64| {
        let message =
            Message::new(topic("orders"), "x").at(UnixMillis::new(FAR + n)).id(n.to_string()).unwrap();
        message.group(["even", "odd"][n as usize % 2]).unwrap()
    };
    stage.deployment.put((0..10).map(message)).await;
    let promote = async |path: String| {
        let answer = stage.gateway.post(&path, &json!({})).await.with(200);
        (answer["promoted"].as_u64().unwrap(), answer["kept"].as_u64().unwrap())
    };
    assert_eq!(promote(format!("/v1/groups/odd/promote?to={}", FAR + 3)).await, (2, 0));
    assert_eq!(promote("/v1/groups/odd/promote?topic=mails".to_owned()).await, (0, 0));
    assert_eq!(promote("/v1/topics/orders/promote?max=5".to_owned()).await, (5, 0));
    assert_eq!(promote("/v1/topics/orders/promote".to_owned()).await, (3, 0));
    let topic = stage.gateway.get("/v1/topics/orders").await.with(200);
    assert_eq!((&topic["delayed"], &topic["ready"]), (&json!(0), &json!(10)));
    stage.gateway.post("/v1/topics/orders/promote?max=0", &json!({})).await.with(422);
}

#[tokio::test]
async fn a_group_is_shifted_once_under_a_token_and_cancelled() {
    let stage = Stage::start("").await;
    let of_group = |id: &str, name: &str| {
        Message::new(topic(name), "x").at(UnixMillis::new(FAR)).id(id).unwrap().group("u/5").unwrap()
    };
    stage.deployment.put([of_group("a", "orders"), of_group("b", "orders"), of_group("c", "mails")]).await;
    let shift = json!({ "by": "-1m", "token": "one" });
    let first = stage.gateway.post("/v1/groups/u%2F5/shift", &shift).await.with(200);
    assert_eq!(first, json!({ "outcome": "moved", "moved": 3, "passed": 0 }));
    stage.gateway.post("/v1/groups/u%2F5/shift", &shift).await.with(200);
    let listed = stage.gateway.get("/v1/groups/u%2F5/messages").await.with(200);
    assert!(listed["messages"].as_array().unwrap().iter().all(|message| message["due_ms"] == FAR - 60_000));
    let cancelled = stage.gateway.post("/v1/groups/u%2F5/cancel?topic=mails", &json!({})).await.with(200);
    assert_eq!(cancelled["cancelled"], 1);
    assert_eq!(stage.gateway.post("/v1/groups/u%2F5/cancel", &json!({})).await.with(200)["cancelled"], 2);
    for odd in
        [json!({ "by": "0s", "token": "t" }), json!({ "by": "1m", "token": "" }), json!({ "by": "1m" })]
    {
        stage.gateway.post("/v1/groups/g/shift", &odd).await.with(422);
    }
}
