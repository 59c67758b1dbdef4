//! The life of jobs: order, priorities, waiting, time to run, attributes.

use super::scene::Scene;
use crate::stage::Answer;
use reqwest::Method;
use serde_json::{Value, json};

fn data(job: &Value) -> &str {
    job["data"].as_str().unwrap()
}

#[tokio::test]
async fn a_queue_is_first_in_first_out_over_all_shards() {
    let scene = Scene::start().await;
    let numbers: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    let all = format!("[{}]", numbers.join(","));
    scene.put("/api/ns/q/bulk", &all).await.with(201);
    scene.publish("q", "", "60").await;
    let taken = scene.get("/api/ns/q?count=100").await.with(200);
    let wanted: Vec<String> = (0..61).map(|n| n.to_string()).collect();
    use base64::Engine as _;
    let decoded = |job: &Value| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(data(job)).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let seen: Vec<String> = taken.as_array().unwrap().iter().map(decoded).collect();
    assert_eq!(seen, wanted, "each of the asked number, in their order");
}

#[tokio::test]
async fn the_first_queue_with_a_job_wins() {
    let scene = Scene::start().await;
    for queue in ["a", "b", "c"] {
        for _ in 0..3 {
            scene.publish(queue, "", queue).await;
        }
    }
    let mut seen = Vec::new();
    for _ in 0..9 {
        let job = scene.get("/api/ns/c,a,,b").await.with(200);
        seen.push(job["queue"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.concat(), "cccaaabbb");
    for queue in ["b", "c"] {
        scene.publish(queue, "", queue).await;
    }
    let both = scene.get("/api/ns/c,b?count=10").await.with(200);
    assert_eq!((&both[0]["queue"], &both[1]["queue"]), (&json!("c"), &json!("b")));
}

#[tokio::test]
async fn a_waiting_consume_gets_the_job_that_comes_and_a_count_waits_for_one() {
    let scene = Scene::start().await;
    for path in ["/api/ns/q?timeout=60", "/api/ns/q?timeout=60&count=5"] {
        let publish = async {
            scene.stage.gateway.has_polls(1).await;
            scene.publish("q", "", "x").await;
        };
        let (taken, ()) = tokio::join!(scene.get(path), publish);
        let taken = taken.with(200);
        let job = if taken.is_array() { &taken[0] } else { &taken };
        assert_eq!((job["msg"].as_str(), taken.is_array()), (Some("new job"), path.contains("count")));
    }
    let start = tokio::time::Instant::now();
    scene.get("/api/ns/q?timeout=1").await.with(404);
    assert!(start.elapsed().as_millis() >= 1000, "it waits as long as it was asked to");
}

#[tokio::test]
async fn a_job_comes_back_after_its_time_to_run_until_its_tries_are_used_up() {
    let scene = Scene::start().await;
    let _timer = scene.stage.timer();
    let id = scene.publish("q", "tries=2", "x").await;
    for left in [1, 0] {
        let job = scene.get("/api/ns/q?timeout=60&ttr=0").await.with(200);
        assert_eq!((&job["job_id"], &job["remain_tries"]), (&json!(id), &json!(left)));
    }
    let path = "/api/ns/q/deadletter";
    let is_dead = async || scene.get(path).await.with(200)["deadletter_head"] == id;
    delayq_tests::deadline::wait_until("the dead letter", delayq_tests::deadline::SHORT, is_dead).await;
}

#[tokio::test]
async fn a_job_of_version_1_has_its_attributes_and_no_other_has_any() {
    let scene = Scene::start().await;
    let request = scene.ports.call(Method::PUT, "/api/ns/q").header("Enable-Job-Version", "yes");
    let published =
        Answer::of(request.header("Job-Attr-Flag", "1").header("Job-Attr-Empty", "").body("x")).await;
    let id = published.with(201)["job_id"].clone();
    assert_eq!(scene.get("/api/ns/q/peek").await.with(200)["attributes"], json!({ "flag": "1" }));
    let taken = scene.get("/api/ns/q").await.with(200);
    assert_eq!((&taken["job_id"], &taken["attributes"]), (&id, &json!({ "flag": "1" })));
    let request = scene.ports.call(Method::PUT, "/api/ns/q").header("Enable-Job-Version", "YES");
    Answer::of(request.body("x")).await.with(201);
    assert_eq!(scene.get("/api/ns/q").await.with(200)["attributes"], json!({}));
    let request = scene.ports.call(Method::PUT, "/api/ns/q").header("Job-Attr-Flag", "1");
    Answer::of(request.body("x")).await.with(201);
    assert_eq!(scene.get("/api/ns/q").await.with(200)["attributes"], Value::Null);
}

#[tokio::test]
async fn a_deleted_job_is_gone_in_any_state() {
    let scene = Scene::start().await;
    let delayed = scene.publish("q", "delay=3600", "x").await;
    let leased = scene.publish("q", "", "x").await;
    scene.get("/api/ns/q").await.with(200);
    let ready = scene.publish("q", "", "x").await;
    for id in [&delayed, &leased, &ready] {
        scene.delete(&format!("/api/ns/q/job/{id}")).await.with(204);
        scene.get(&format!("/api/ns/q/job/{id}")).await.with(404);
    }
    let topic = crate::stage::topic("ns/q");
    let left = scene.stage.deployment.admin.topic(&topic).count().await.unwrap();
    assert_eq!((left.delayed, left.ready, left.leased, left.delivered, left.cancelled), (0, 0, 0, 1, 2));
    let audit = scene.stage.deployment.admin.audit().run(|_| {}).await.unwrap();
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "tokens are no finding: {audit:?}");
}
