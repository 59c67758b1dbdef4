//! Looking at messages.

use super::stage::{Answer, Stage, topic};
use delayq::admin::Policy;
use delayq::{Message, UnixMillis};
use reqwest::Method;
use serde_json::json;

fn far(id: &str) -> Message {
    Message::new(topic("orders"), "text").at(UnixMillis::new(4_070_908_800_000)).id(id).unwrap()
}

#[tokio::test]
async fn a_payload_is_shown_only_if_it_is_asked_for() {
    let stage = Stage::start("").await;
    stage.deployment.put([far("a")]).await;
    let get = async |query: &str| {
        stage.gateway.get(&format!("/v1/topics/orders/messages/a{query}")).await.with(200)
    };
    let plain = get("").await;
    assert_eq!(
        (&plain["state"], &plain["payload_bytes"], plain.get("payload")),
        (&json!("delayed"), &json!(4), None)
    );
    let (text, base64) = (get("?payload=text").await, get("?payload=base64").await);
    assert_eq!((&text["payload"], &base64["payload_base64"]), (&json!("text"), &json!("dGV4dA==")));
    // A hash would confirm a guess of a payload that is not shown.
    let hash = text["content_hash"].as_str().unwrap();
    assert_eq!((&base64["content_hash"], plain.get("content_hash")), (&json!(hash), None));
    assert_eq!(get("?payload=shown").await.get("content_hash"), None);
    let edit = json!({ "payload": "new", "replace": true, "again": format!("content hash={hash}") });
    let path = "/v1/topics/orders/messages/a";
    assert_eq!(stage.gateway.put(path, &edit).await.with(200)["outcome"], "again");
    let late = json!({ "payload": "late", "replace": true, "again": format!("content hash={hash}") });
    assert_eq!(stage.gateway.put(path, &late).await.with(409)["outcome"], "changed");
    let edited = get("?payload=text").await;
    assert_eq!((&edited["payload"], &edited["due_ms"]), (&json!("new"), &plain["due_ms"]));
    let unknown = stage.gateway.get("/v1/topics/orders/messages/a?group=g").await.with(404);
    assert_eq!(unknown["code"], "DQ-G107");
}

#[tokio::test]
async fn a_tag_is_that_of_the_answer_and_changes_with_it() {
    let stage = Stage::start("").await;
    stage.deployment.put([far("a")]).await;
    let path = "/v1/topics/orders/messages/a";
    let tag = stage.gateway.get(path).await.header("etag").to_owned();
    let again = || stage.gateway.request(Method::GET, path).header("if-none-match", &tag);
    let same = Answer::of(again()).await;
    assert_eq!((same.status, same.text.as_str()), (304, ""));
    stage.gateway.delete(path).await.with(200);
    assert_eq!(Answer::of(again()).await.with(200)["state"], "cancelled");
}

#[tokio::test]
async fn pages_follow_each_other_until_the_last() {
    let stage = Stage::start("").await;
    let group = |n: u64| far(&format!("m{n}")).at(UnixMillis::new(4_070_908_800_000 + n)).group("g").unwrap();
    stage.deployment.put((0..5).map(group)).await;
    for start in ["/v1/topics/orders/messages?state=delayed&", "/v1/groups/g/messages?"] {
        let (mut ids, mut after) = (Vec::new(), String::new());
        loop {
            let page = stage.gateway.get(&format!("{start}limit=2{after}")).await.with(200);
            ids.extend(page["messages"].as_array().unwrap().iter().map(|message| message["id"].clone()));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(ids, ["m0", "m1", "m2", "m3", "m4"], "{start}");
    }
    for odd in ["limit=0", "limit=501", "state=odd", "order=desc", "after=x", "from=soon", "payload=x"] {
        stage.gateway.get(&format!("/v1/topics/orders/messages?{odd}")).await.with(422);
    }
}

#[tokio::test]
async fn a_history_names_each_event() {
    let stage = Stage::start("").await;
    let policy = Policy { history: Some(100), ..Policy::default() };
    stage.deployment.admin.topic(&topic("orders")).set_policy(&policy).await.unwrap();
    stage.deployment.put([far("a")]).await;
    stage.gateway.delete("/v1/topics/orders/messages/a").await.with(200);
    let history = stage.gateway.get("/v1/topics/orders/messages/a/history").await.with(200);
    let events: Vec<_> =
        history["events"].as_array().unwrap().iter().map(|event| event["event"].clone()).collect();
    assert_eq!((events, &history["history_cut"]), (vec![json!("put"), json!("cancelled")], &json!(false)));
}
