//! Routes with their names in the body, for names that clients and proxies change in a path.

use super::stage::{Answer, Stage};
use delayq_tests::deadline::{SHORT, wait_until};
use reqwest::Method;
use serde_json::{Value, json};

const FAR: &str = "2099-01-01T00:00:00Z";

async fn sent(stage: &Stage, method: Method, path: &str, body: Value) -> Answer {
    Answer::of(stage.gateway.request(method, path).json(&body)).await
}

#[tokio::test]
async fn every_verb_of_a_message_takes_any_name_in_the_body() {
    let stage = Stage::start("").await;
    for (topic, id) in [(".", ".."), ("..", "."), ("a/b", "c/d"), ("plain", "%2E"), ("another", "%252E")] {
        let of = |more: Value| {
            let mut body = json!({ "topic": topic, "id": id, "group": "." });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let post = async |path: &str, more: Value| {
            sent(&stage, Method::POST, &format!("/v1/topic/message{path}"), of(more)).await
        };
        let put = of(json!({ "due": FAR, "payload": "x" })).to_string() + "\n";
        let line = format!("{}\n", json!({ "topic": topic, "id": "other", "due": FAR }));
        let puts = stage.gateway.post_lines("/v1/messages", &(put + &line)).await;
        assert_eq!(puts.text.matches("\"outcome\":\"stored\"").count(), 2, "{topic} {id}: {puts:?}");
        let shown = post("/get", json!({ "payload": "text" })).await.with(200);
        assert_eq!(
            (&shown["topic"], &shown["id"], &shown["payload"]),
            (&json!(topic), &json!(id), &json!("x"))
        );
        assert_eq!(post("/payload/get", json!({})).await.text, "x");
        let history = post("/history/get", json!({})).await.with(200);
        assert_eq!((&history["id"], &history["history_kept"]), (&json!(id), &json!(0)));
        let moved = post("/reschedule", json!({ "due": "2098-01-01T00:00:00Z" })).await.with(200);
        assert_eq!(moved["outcome"], "moved");
        assert_eq!(post("/bury", json!({ "reason": "r" })).await.with(200)["outcome"], "buried");
        assert_eq!(post("/replay", json!({ "delay": "1h" })).await.with(200)["outcome"], "delayed");
        let stale =
            stage.gateway.request(Method::POST, "/v1/topic/message/delete").header("if-match", "\"1-1\"");
        Answer::of(stale.json(&of(json!({})))).await.with(412);
        assert_eq!(post("/delete", json!({})).await.with(200)["outcome"], "cancelled");
        let other = json!({ "topic": topic, "id": "other" });
        assert_eq!(
            stage.gateway.post("/v1/topic/message/delete", &other).await.with(200)["outcome"],
            "cancelled"
        );
    }
}

#[tokio::test]
async fn every_verb_of_a_topic_and_a_group_takes_any_name_in_the_body() {
    let stage = Stage::start("").await;
    for (topic, group) in [(".", ".."), ("..", "."), ("a/b", "c/d"), ("plain", "%2E")] {
        let of = |more: Value| {
            let mut body = json!({ "topic": topic });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let asked = async |method: Method, path: &str, more: Value| {
            sent(&stage, method, &format!("/v1/topic{path}"), of(more)).await
        };
        let lines: String = ["a", "b"]
            .map(|id| format!("{}\n", json!({ "topic": topic, "id": id, "group": group, "due": FAR })))
            .concat();
        let puts = stage.gateway.post_lines("/v1/messages", &lines).await;
        assert!(puts.text.contains("{\"stored\":2}"), "{topic} {group}: {puts:?}");
        let list = json!({ "group": group, "state": "delayed", "limit": 1, "from": 978_307_200_000_u64 });
        let listed = asked(Method::POST, "/messages/get", list).await.with(200);
        assert_eq!(
            (&listed["messages"][0]["topic"], &listed["messages"][0]["group"]),
            (&json!(topic), &json!(group))
        );
        assert_eq!(
            asked(Method::POST, "/histogram/get", json!({ "width": "15m" })).await.with(200)[0]["count"],
            2
        );
        assert_eq!(
            asked(Method::POST, "/horizon/get", json!({ "group": group })).await.with(200)["delayed"],
            2
        );
        asked(Method::PUT, "/rate", json!({ "rate": 40 })).await.with(204);
        asked(Method::POST, "/pause", json!({})).await.with(204);
        asked(Method::POST, "/pause", json!({ "group": group })).await.with(204);
        let shown = asked(Method::POST, "/get", json!({})).await.with(200);
        assert_eq!(
            (&shown["topic"], &shown["paused"], &shown["rate"]),
            (&json!(topic), &json!(4), &json!(40.0))
        );
        assert_eq!(shown["groups_paused"][0]["group"], group);
        asked(Method::POST, "/resume", json!({ "group": group })).await.with(204);
        asked(Method::POST, "/resume", json!({})).await.with(204);
        assert_eq!(
            asked(Method::PUT, "/policy", json!({ "lease": "90s" })).await.with(200)["lease"],
            "1m 30s"
        );
        let changed = asked(Method::PATCH, "/policy", json!({ "backoff": "5s" })).await.with(200);
        assert_eq!(changed, asked(Method::POST, "/policy/get", json!({})).await.with(200));

        let of_group = async |path: &str, more: Value| {
            let mut body = of(more);
            body["group"] = group.into();
            stage.gateway.post(&format!("/v1/group{path}"), &body).await
        };
        let listed = of_group("/messages/get", json!({})).await.with(200);
        assert_eq!(listed["messages"].as_array().unwrap().len(), 2);
        assert_eq!(of_group("/shift", json!({ "by": "10m", "token": topic })).await.with(200)["moved"], 2);
        assert_eq!(of_group("/promote", json!({ "max": 1 })).await.with(200)["promoted"], 1);
        assert_eq!(asked(Method::POST, "/promote", json!({})).await.with(200)["promoted"], 1);
        assert_eq!(of_group("/cancel", json!({})).await.with(200)["cancelled"], 2);
        asked(Method::POST, "/delete", json!({})).await.with(204);
    }
    stage.gateway.post("/v1/topic/delete", &json!({ "topic": "nowhere" })).await.with(404);
    let is_logged = async || {
        let log = stage.gateway.get("/v1/actions").await.with(200);
        log["actions"].as_array().unwrap().iter().any(|entry| {
            entry["action"] == "pauseTopic"
                && entry["of"] == json!({ "topic": "." })
                && entry["filter"] == "group=.."
        })
    };
    wait_until("the action under the name of its route, with the names of its body", SHORT, is_logged).await;
}

#[tokio::test]
async fn a_body_without_a_name_or_with_another_key_is_refused_by_name() {
    let stage = Stage::start("").await;
    for (body, pointer) in [
        (json!({}), "topic"),
        (json!({ "topic": "" }), "topic"),
        (json!({ "topic": "%2E" }), "topic"),
        (json!({ "topic": 7 }), "topic"),
        (json!({ "topic": "t", "limit": "5" }), "limit"),
        (json!({ "topic": "t", "limits": 5 }), "limits"),
    ] {
        let refused = stage.gateway.post("/v1/topic/messages/get", &body).await.with(422);
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{body}");
    }
    let request = stage.gateway.request(Method::POST, "/v1/topic/pause").header("content-type", "text/plain");
    Answer::of(request.body("{\"topic\":\"t\"}")).await.with(415);
    stage.gateway.post("/v1/topic/pause?topic=t", &json!({ "topic": "t" })).await.with(400);
}

#[tokio::test]
async fn a_change_of_a_policy_with_an_old_etag_is_refused() {
    let stage = Stage::start("").await;
    let path = "/v1/topics/t/policy";
    let tag = |answer: &Answer| answer.headers["etag"].to_str().unwrap().to_owned();
    let request =
        |method: Method, name: &'static str, tag: &str| stage.gateway.request(method, path).header(name, tag);
    let first = tag(&stage.gateway.get(path).await);
    assert_eq!(Answer::of(request(Method::GET, "if-none-match", &first)).await.status, 304);
    let set = Answer::of(request(Method::PUT, "if-match", &first).json(&json!({ "lease": "90s" }))).await;
    assert_eq!(set.status, 200);
    let second = tag(&set);
    assert_eq!(second, tag(&stage.gateway.get(path).await));
    for method in [Method::PUT, Method::PATCH] {
        let refused =
            Answer::of(request(method, "if-match", &first).json(&json!({ "lease": "5s" }))).await.with(412);
        assert_eq!(
            (&refused["outcome"], &refused["tag"]),
            (&json!("changed"), &json!(second.trim_matches('"')))
        );
    }
    let stale = stage.gateway.request(Method::PATCH, "/v1/topic/policy").header("if-match", &first);
    Answer::of(stale.json(&json!({ "topic": "t", "lease": "5s" }))).await.with(412);
    assert_eq!(stage.gateway.get(path).await.with(200)["lease"], "1m 30s");
    for any in [second.as_str(), "*"] {
        Answer::of(request(Method::PATCH, "if-match", any).json(&json!({ "lease": "90s" }))).await.with(200);
    }
}
