//! Topics and their policies.

use super::stage::{Answer, Stage, topic};
use delayq::{Message, UnixMillis};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn topics_are_counted_paused_limited_and_deleted() {
    let stage = Stage::start("").await;
    let far = |name: &str| Message::new(topic(name), "x").at(UnixMillis::new(4_070_908_800_000));
    stage.deployment.put([far("a"), far("b"), far("c/d")]).await;
    let first = stage.gateway.get("/v1/topics?limit=2").await.with(200);
    assert_eq!((&first["next"], &first["topics"][1]["delayed"]), (&json!("b"), &json!(1)));
    let rest = stage.gateway.get("/v1/topics?after=b").await.with(200);
    assert_eq!((&rest["next"], &rest["topics"][0]["topic"]), (&json!(null), &json!("c/d")));
    for (action, paused) in [("pause", 4), ("resume", 0)] {
        stage.gateway.post(&format!("/v1/topics/a/{action}"), &json!({})).await.with(204);
        assert_eq!(stage.gateway.get("/v1/topics/a").await.with(200)["paused"], paused, "in each shard");
    }
    stage.gateway.post("/v1/topics/a/pause?group=g", &json!({})).await.with(204);
    let paused = stage.gateway.get("/v1/topics/a").await.with(200);
    let groups = (&paused["paused"], &paused["paused_groups"], &paused["groups_paused"][0]["group"]);
    assert_eq!(groups, (&json!(0), &json!(1), &json!("g")));
    stage.gateway.post("/v1/topics/a/resume?group=g", &json!({})).await.with(204);
    assert_eq!(stage.gateway.get("/v1/topics/a").await.with(200)["groups_paused"], json!([]));
    stage.gateway.put("/v1/topics/a/rate", &json!({ "rate": 40 })).await.with(204);
    assert_eq!(stage.gateway.get("/v1/topics/a").await.with(200)["rate"], 40.0);
    stage.gateway.put("/v1/topics/a/rate", &json!({ "rate": null })).await.with(204);
    stage.gateway.put("/v1/topics/a/rate", &json!({ "rate": 0 })).await.with(422);
    let slots = stage.gateway.get("/v1/topics/a/histogram?width=1h").await.with(200);
    assert_eq!((&slots[0]["from_ms"], &slots[0]["count"]), (&json!(4_070_908_800_000_u64), &json!(1)));
    stage.gateway.get("/v1/topics/a/histogram?width=7m").await.with(422);
    let kept = stage.gateway.delete("/v1/topics/a").await.with(409);
    assert_eq!(kept["outcome"], "kept");
    stage.gateway.delete("/v1/topics/nowhere").await.with(404);
}

#[tokio::test]
async fn a_policy_is_set_whole_or_changed_in_parts() {
    let stage = Stage::start("").await;
    let path = "/v1/topics/orders/policy";
    let set = stage.gateway.put(path, &json!({ "lease": "90s", "max_attempts": 3 })).await.with(200);
    assert_eq!((&set["lease"], &set["max_attempts"]), (&json!("1m 30s"), &json!("3")));
    let request = stage.gateway.request(Method::PATCH, path);
    let changed = Answer::of(request.json(&json!({ "max_attempts": null, "backoff": "5s" }))).await.with(200);
    assert_eq!((&changed["lease"], &changed["max_attempts"]), (&json!("1m 30s"), &json!("16")));
    let set = stage.gateway.put(path, &json!({})).await.with(200);
    assert_eq!(set, stage.gateway.get("/v1/topics/other/policy").await.with(200), "all defaults");
    for odd in [json!({ "lese": "1s" }), json!({ "lease": "soon" }), json!({ "lease": "48h" })] {
        stage.gateway.put(path, &odd).await.with(422);
    }
}

/// Serde takes an array for a struct, and nothing for an option.
#[tokio::test]
async fn a_body_that_is_an_array_or_leaves_the_rate_out_changes_nothing() {
    let stage = Stage::start("").await;
    stage.gateway.put("/v1/topics/a/rate", &json!({ "rate": 40 })).await.with(204);
    for odd in
        [json!({}), json!([]), json!([null]), json!(null), json!({ "rate": 1e-9 }), json!({ "rate": "x" })]
    {
        let refused = stage.gateway.put("/v1/topics/a/rate", &odd).await;
        assert_eq!(refused.with(422)["code"], "DQ-G114", "{odd}");
        assert!(
            refused.text.contains("rate") || refused.text.contains("must be a JSON object"),
            "{refused:?}"
        );
        assert!(!refused.text.contains("line 1"), "{refused:?}");
    }
    assert_eq!(stage.gateway.get("/v1/topics/a").await.with(200)["rate"], 40.0);
    stage.gateway.put("/v1/topics/a/messages/m", &json!(["a", "m"])).await.with(422);
    let lines = stage.gateway.post_lines("/v1/messages", "[\"a\",\"m\"]\n7\n").await.lines();
    assert_eq!((&lines[0]["code"], &lines[1]["code"]), (&json!("DQ-G114"), &json!("DQ-G114")));
    let cancelled = stage.gateway.post("/v1/cancel", &json!([["a", "m"]])).await.with(200);
    assert_eq!(cancelled[0]["detail"], "must be a JSON object");
    let filter = json!({ "action": "cancel", "filter": [["a"]], "dry_run": true });
    let refused = stage.gateway.post("/v1/operations", &filter).await.with(422);
    assert_eq!(refused["errors"][0]["pointer"], "filter");
    let reserve = stage.gateway.post("/v1/reserve", &json!({ "topics": ["a"], "wait": "soon" })).await;
    assert_eq!(reserve.with(422)["errors"][0]["pointer"], "wait");
}

#[tokio::test]
async fn topics_that_clients_remove_from_a_url_are_encoded_twice() {
    let stage = Stage::start("").await;
    for name in [".", ".."] {
        let path = format!("/v1/topics/{}", name.replace('.', "%252E"));
        stage.gateway.put(&format!("{path}/messages/a"), &json!({ "due": "+1h" })).await.with(201);
        let listed = stage.gateway.get(&format!("{path}/messages")).await.with(200);
        assert_eq!(listed["messages"][0]["topic"], name);
        let policy = stage.gateway.put(&format!("{path}/policy"), &json!({ "lease": "1m" })).await.with(200);
        assert_eq!(policy["lease"], "1m");
    }
    stage.gateway.get("/v1/topics/%25zz/policy").await.with(422);
}
