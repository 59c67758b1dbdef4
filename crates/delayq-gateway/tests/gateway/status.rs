//! The state of the deployment: verdicts, shards and timers.

use super::stage::{Answer, Running, Stage, topic};
use delayq::Message;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::deployment::created;
use delayq_tests::folder::Folder;
use delayq_tests::redis_nodes::RedisNodes;
use serde_json::{Value, json};
use std::time::Duration;

const ALONE: &str = "[etcd]\nenabled = false\n";

fn wrong(status: &Value, what: &str) -> Vec<[String; 4]> {
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let checks = status["checks"].as_array().unwrap().iter();
    let wrong = checks.filter(|check| check["what"] == what && check["verdict"] != "good");
    wrong.map(|check| ["verdict", "found", "advice", "runbook"].map(|key| text(check, key))).collect()
}

#[tokio::test]
async fn the_status_is_that_of_the_doctor_and_follows_what_happens() {
    let stage = Stage::start(ALONE).await;
    stage.deployment.put([Message::new(topic("orders"), "x")]).await;
    let status = stage.gateway.get("/v1/status").await.with(200);
    assert_eq!(
        (&status["verdict"], &status["shards"], &status["missing"]),
        (&json!("bad"), &json!(4), &json!([]))
    );
    let [verdict, found, advice, runbook] = wrong(&status, "timers").remove(0);
    assert_eq!(
        (verdict.as_str(), found.as_str()),
        ("bad", "no timer has ever owned 4 of 4 shards: nothing there is delivered")
    );
    assert!(advice.contains("delayq-timer --config FILE"), "{advice}");
    assert!(runbook.ends_with("docs/runbooks.md#delayqshardunowned"), "{runbook}");
    let _timer = stage.timer();
    let owned = async || wrong(&stage.gateway.get("/v1/status").await.with(200), "timers").is_empty();
    wait_until("the verdict on a timer", LONG, owned).await;
    let timers = stage.gateway.get("/v1/timers").await.with(200);
    assert_eq!((&timers["fleet"], &timers["owners"][0]["shards"]), (&json!(null), &json!([0, 1, 2, 3])));
    let shards = stage.gateway.get("/v1/shards").await.with(200);
    let shards = shards["shards"].as_array().unwrap();
    assert_eq!(shards.iter().map(|shard| shard["messages"].as_u64().unwrap()).sum::<u64>(), 1, "{shards:?}");
    assert!(shards.iter().all(|shard| shard["owner"] == timers["owners"][0]["name"]), "{shards:?}");
}

#[tokio::test]
async fn a_node_that_is_down_hides_no_other_and_is_named_with_advice_and_runbook() {
    let mut nodes = RedisNodes::start(2).await;
    let _deployment = created(nodes.settings()).await;
    let folder = Folder::new("status");
    let sections = format!("[deployment]\nshards = {}\n{}", nodes.shards(), nodes.section());
    let gateway = Running::start(&folder, &sections, ALONE).await;
    assert_eq!(gateway.get("/v1/shards").await.with(200)["shards"].as_array().unwrap().len(), 6);
    nodes.servers[1].kill().await;
    let misses = async || gateway.get("/v1/status").await.with(200)["missing"] != json!([]);
    wait_until("the look without a node", LONG, misses).await;
    let status = gateway.get("/v1/status").await.with(200);
    assert_eq!((&status["verdict"], &status["shards"]), (&json!("bad"), &json!(4)));
    let missing = status["missing"].as_array().unwrap();
    assert!(missing.len() == 1 && missing[0].as_str().unwrap().starts_with("shards 2-3: "), "{missing:?}");
    let [verdict, found, advice, runbook] = wrong(&status, "redis").remove(0);
    assert_eq!(verdict, "bad");
    assert!(found.contains(&nodes.servers[1].address()), "{found}");
    assert!(advice.starts_with("start Redis, or correct [redis]"), "{advice}");
    assert!(runbook.ends_with("docs/runbooks.md#delayqcheckbad"), "{runbook}");
    let away = wrong(&status, "deployment").remove(0);
    assert_eq!(away[1], format!("dq: 4 of 6 shards answer; {}", missing[0].as_str().unwrap()));
    for (path, key) in [("/v1/shards", "shards"), ("/v1/timers", "owners")] {
        let answer = gateway.get(path).await.with(200);
        let shards = answer[key].as_array().unwrap();
        let shards: Vec<&Value> = match key {
            "shards" => shards.iter().map(|shard| &shard["shard"]).collect(),
            _ => shards.iter().flat_map(|owner| owner["shards"].as_array().unwrap()).collect(),
        };
        assert_eq!(shards, [0, 1, 4, 5], "{path}");
        assert_eq!(answer["missing"], status["missing"], "{path}");
    }
}

#[tokio::test]
async fn the_processes_are_told_with_their_lateness_and_one_that_is_silent_with_the_reason() {
    let stage = Stage::start(ALONE).await;
    let timer = stage.timer_with_endpoint().await;
    let settings = format!("processes = [\"{}\", \"127.0.0.1:9\"]\n{ALONE}", timer.1);
    let gateway = stage.another_with(&settings).await;
    let ready = async || gateway.get("/v1/processes").await.with(200)["processes"][0]["state"] == "ready";
    wait_until("the timer", LONG, ready).await;
    stage.deployment.put([Message::new(topic("orders"), "x").after(Duration::from_millis(300))]).await;
    let late = async || !gateway.get("/v1/processes").await.with(200)["processes"][0]["p99_ms"].is_null();
    wait_until("a lateness", LONG, late).await;
    let seen = gateway.get("/v1/processes").await.with(200);
    let [timer, silent] = [&seen["processes"][0], &seen["processes"][1]];
    assert_eq!((&timer["shards"], &timer["why"]), (&json!(4), &json!(null)), "{seen}");
    assert_eq!((&silent["process"], &silent["state"]), (&json!("127.0.0.1:9"), &json!("silent")));
    assert!(silent["why"].as_str().unwrap().contains("does not answer"), "{silent}");
    assert_eq!(
        (&seen["destinations"], &seen["sources"], &seen["missing"]),
        (&json!([]), &json!([]), &json!([]))
    );
}

#[tokio::test]
async fn one_look_serves_all_requests_of_a_while_and_outlives_the_one_that_began_it() {
    let stage = Stage::private(ALONE).await;
    stage.gateway.get("/v1/status").await.with(200);
    let before = stage.deployment.server.scripts_run().await;
    let ages = async || -> Vec<u64> {
        let mut ages = Vec::new();
        for path in ["/v1/status", "/v1/shards", "/v1/timers", "/v1/status"] {
            ages.push(stage.gateway.get(path).await.with(200)["age_ms"].as_u64().unwrap());
        }
        ages
    };
    let ages = ages().await;
    if ages.is_sorted() {
        assert_eq!(
            stage.deployment.server.scripts_run().await,
            before,
            "a look within a second of another: {ages:?}"
        );
    }
    let looked =
        async || stage.gateway.get("/v1/status").await.with(200)["age_ms"].as_u64().unwrap() < ages[0];
    wait_until("the next look", SHORT, looked).await;
    // With a frozen Redis, the look outlasts a short deadline, and the next request gets its answer.
    stage.deployment.server.freeze();
    let silent = async || {
        let request =
            stage.gateway.request(reqwest::Method::GET, "/v1/status").header("delayq-deadline", "100ms");
        let answer = Answer::of(request).await;
        assert!([200, 504].contains(&answer.status), "{answer:?}");
        answer.status == 200 && !wrong(&answer.json(), "redis").is_empty()
    };
    wait_until("the verdict on a silent Redis", LONG, silent).await;
    stage.gateway.get("/v1/shards").await.with(503);
    stage.deployment.server.thaw();
}
