//! The differences from lmstfy, in the order of `docs/guides/lmstfy.md`; `keys.rs` has tokens and limits, and `spooling.rs` the spool.

use super::scene::Scene;
use crate::stage::Answer;
use delayq::admin::{ListState, Listing, TimeRange};
use delayq::{Message, UnixMillis};
use delayq_tests::deadline::{SHORT, wait_until};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

#[test]
fn every_difference_of_the_guide_names_a_test() {
    let guide = include_str!("../../../../../docs/guides/lmstfy.md");
    let tests = [
        include_str!("differences.rs"),
        include_str!("keys.rs"),
        include_str!("../lmstfy/answers.rs"),
        include_str!("../spooling.rs"),
    ];
    let rows: Vec<&str> =
        guide.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |")).collect();
    assert!(rows.len() > 15, "{} rows", rows.len());
    for row in rows {
        let name = row.trim_end_matches("` |").rsplit('`').next().unwrap();
        assert!(
            tests.iter().any(|text| text.contains(&format!("fn {name}()"))),
            "no test has the name of: {row}"
        );
    }
}

#[tokio::test]
async fn a_job_is_never_early() {
    let scene = Scene::start().await;
    let _timer = scene.stage.timer();
    let before = scene.stage.deployment.now().await.get();
    for _ in 0..5 {
        scene.publish("q", "delay=1", "x").await;
    }
    for _ in 0..5 {
        scene.get("/api/ns/q?timeout=60").await.with(200);
        assert!(scene.stage.deployment.now().await.get() >= before + 1000);
    }
}

#[tokio::test]
async fn a_client_that_goes_takes_no_job_and_no_try_with_it() {
    let scene = Scene::start().await;
    let address = scene.ports.api.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let token = &scene.ports.token;
    let head = format!("GET /api/ns/q?timeout=60 HTTP/1.1\r\nHost: {address}\r\nX-Token: {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    scene.stage.gateway.has_polls(1).await;
    drop(stream);
    scene.stage.gateway.has_polls(0).await;
    scene.publish("q", "tries=1", "x").await;
    let taken = scene.get("/api/ns/q?timeout=60").await.with(200);
    assert_eq!(taken["remain_tries"], 0);
}

#[tokio::test]
async fn a_republish_that_is_refused_leaves_the_old_job() {
    let scene = Scene::start().await;
    let id = scene.publish("q", "", "old").await;
    let path = format!("/api/ns/q/job/{id}");
    scene.put(&format!("{path}?tries=0"), "new").await.with(400);
    scene.put(&path, &"x".repeat(1_048_577)).await.with(413);
    scene.get(&path).await.with(200);
    let new = scene.put(&path, "new").await.with(201)["job_id"].clone();
    scene.get(&path).await.with(404);
    assert_eq!((scene.size("q").await, &scene.get("/api/ns/q/peek").await.with(200)["job_id"]), (1, &new));
}

#[tokio::test]
async fn a_consume_finds_the_jobs_behind_those_that_have_ended() {
    let scene = Scene::start().await;
    scene.publish("q", "ttl=1", "x").await;
    let deleted = scene.publish("q", "", "x").await;
    scene.delete(&format!("/api/ns/q/job/{deleted}")).await.with(204);
    let alive = scene.publish("q", "", "x").await;
    let at = scene.stage.deployment.now().await.get() + 1500;
    wait_until("the end of the first", SHORT, async || scene.stage.deployment.now().await.get() > at).await;
    assert_eq!(scene.get("/api/ns/q").await.with(200)["job_id"], alive);
}

#[tokio::test]
async fn a_deleted_job_is_not_counted() {
    let scene = Scene::start().await;
    let id = scene.publish("q", "", "x").await;
    scene.publish("q", "", "x").await;
    scene.delete(&format!("/api/ns/q/job/{id}")).await.with(204);
    assert_eq!(scene.size("q").await, 1);
}

#[tokio::test]
async fn a_name_that_no_topic_has_room_for_is_refused() {
    let scene = Scene::start().await;
    let (fits, long) = ("q".repeat(125), "q".repeat(126));
    scene.put(&format!("/api/ns/{fits}"), "x").await.with(201);
    let refused = scene.put(&format!("/api/ns/{long}"), "x").await;
    assert_eq!(refused.with(400), json!({ "error": "namespace or queue name too long" }));
    scene.get(&format!("/api/ns/{long}?timeout=60")).await.with(404);
    scene.get(&format!("/api/ns/{long},{fits}")).await.with(200);
}

#[tokio::test]
async fn a_job_that_is_due_at_its_end_lives_a_second_longer() {
    let scene = Scene::start().await;
    scene.publish("q", "delay=10&ttl=10", "x").await;
    let topic = crate::stage::topic("ns/q");
    let listing = Listing::Topic { topic: &topic, state: ListState::Delayed, range: TimeRange::ALL };
    let delayed = scene.stage.deployment.admin.page(listing, None, 1).await.unwrap().messages;
    let envelope = delayed[0].envelope.as_ref().unwrap();
    let life = envelope.expires.unwrap().get() - envelope.due.get();
    // The due time counts from the moment at which Redis had the job.
    assert!((1..=1000).contains(&life), "{life} ms");
}

#[tokio::test]
async fn a_time_to_run_ends_after_a_day() {
    let scene = Scene::start().await;
    scene.publish("q", "ttl=0", "x").await;
    scene.get("/api/ns/q?ttr=4294967295").await.with(200);
    let topic = crate::stage::topic("ns/q");
    let listing = Listing::Topic { topic: &topic, state: ListState::Leased, range: TimeRange::ALL };
    let leased = scene.stage.deployment.admin.page(listing, None, 1).await.unwrap().messages;
    let end = leased[0].envelope.as_ref().unwrap().at.get();
    let day = scene.stage.deployment.now().await.get() + 86_400_000;
    assert!((day - 60_000..=day).contains(&end), "{end} is not a day away");
}

#[tokio::test]
async fn an_answer_has_16_mib_of_jobs_and_a_request_as_much() {
    let scene = Scene::start().await;
    let large = "x".repeat(1_048_576);
    for _ in 0..18 {
        scene.publish("q", "", &large).await;
    }
    let taken = scene.get("/api/ns/q?count=100").await.with(200);
    assert_eq!(taken.as_array().unwrap().len(), 16);
    let bulk = format!("[{}]", vec![format!("\"{}\"", &large[..1_000_000]); 17].join(","));
    let refused = scene.put("/api/ns/q/bulk", &bulk).await;
    assert_eq!(refused.with(413), json!({ "error": "body too large" }));
}

#[tokio::test]
async fn consumers_beyond_the_limit_are_refused() {
    let scene = Scene::with("max_polls = 1\n", "").await;
    let waiting = async { scene.get("/api/ns/q?timeout=60").await.with(200) };
    let refused = async {
        scene.stage.gateway.has_polls(1).await;
        let refused = scene.get("/api/ns/q").await.with(503);
        scene.publish("q", "", "x").await;
        refused
    };
    let (_, refused) = tokio::join!(waiting, refused);
    assert_eq!(refused, json!({ "error": "too many consumers are waiting" }));
}

#[tokio::test]
async fn a_job_that_came_another_way_is_deleted_by_the_id_that_its_consumer_got() {
    let scene = Scene::start().await;
    let topic = || crate::stage::topic("ns/q");
    let plain = Message::new(topic(), "x");
    let own = Message::new(topic(), "x").id("order 17").unwrap();
    let grouped = Message::new(topic(), "x").id("order 18").unwrap().group("u").unwrap();
    let crafted = Message::new(topic(), "x").id("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap();
    scene.stage.deployment.put([plain, own, grouped, crafted]).await;
    let mut left = 4;
    while left > 0 {
        let job = scene.get("/api/ns/q?timeout=60").await.with(200);
        let id = job["job_id"].as_str().unwrap().replace(' ', "%20");
        scene.delete(&format!("/api/ns/q/job/{id}")).await.with(204);
        left -= 1;
    }
    let left = scene.stage.deployment.admin.topic(&topic()).count().await.unwrap();
    assert_eq!((left.leased, left.ready, left.delivered), (0, 0, 4));
}

#[tokio::test]
async fn a_page_of_another_origin_and_two_lengths_are_refused() {
    let scene = Scene::start().await;
    let page =
        scene.ports.admin(Method::POST, "/token/ns?description=d").header("Origin", "http://evil.example");
    assert_eq!(Answer::of(page).await.status, 403);
    let foreign = scene.ports.admin(Method::GET, "/pools").header("Host", "evil.example");
    assert_eq!(Answer::of(foreign).await.status, 421);
    let address = scene.ports.api.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let first = format!("PUT /api/ns/q HTTP/1.1\r\nHost: {address}\r\nX-Token: {}\r\n", scene.ports.token);
    let second =
        format!("DELETE /api/ns/q HTTP/1.1\r\nHost: {address}\r\nX-Token: {}\r\n\r\n", scene.ports.token);
    let lengths = "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    stream.write_all(format!("{first}{lengths}{second}").as_bytes()).await.unwrap();
    let answer = crate::stage::read_to_end(&mut stream).await;
    assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{answer}");
}

#[tokio::test]
async fn no_profile_and_no_form_of_the_process_is_served() {
    let scene = Scene::start().await;
    assert_eq!(Answer::of(scene.ports.admin(Method::GET, "/debug/pprof/")).await.status, 404);
    let metrics = Answer::of(scene.ports.admin(Method::GET, "/metrics")).await.text;
    for missing in ["latency", "qps", "elapsed", "total_keys", "used_mem"] {
        assert!(!metrics.contains(missing), "{metrics}");
    }
}

#[tokio::test]
async fn a_respawned_job_lives_again_whatever_its_first_end_was() {
    let scene = Scene::start().await;
    let _timer = scene.stage.timer();
    let message = Message::new(crate::stage::topic("ns/q"), "x").id("foreign").unwrap().max_attempts(1);
    let far = UnixMillis::new(scene.stage.deployment.now().await.get() + 3_600_000);
    scene.stage.deployment.put([message.expires(far)]).await;
    scene.publish("q", "ttl=0", "x").await;
    scene.let_die("q", 2).await;
    scene.put("/api/ns/q/deadletter?limit=2&ttl=100", "").await.with(200);
    for _ in 0..2 {
        let job = scene.get("/api/ns/q?timeout=60").await.with(200);
        let ttl = job["ttl"].as_u64().unwrap();
        assert!((95..=100).contains(&ttl) && job["remain_tries"] == 0, "{job}");
    }
}

#[tokio::test]
async fn an_unavailable_redis_is_answered_500_until_it_is_back() {
    let stage = crate::stage::Stage::private(
        "[lmstfy]\nenabled = true\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ncheck_tokens = false\n",
    );
    let mut stage = stage.await;
    let line = stage.gateway.process.wait_for_line("lmstfy listening", SHORT).await;
    let logged: Value = serde_json::from_str(&line).unwrap();
    let url = format!("http://{}/api/ns/q", logged["address"].as_str().unwrap());
    let client = reqwest::Client::new();
    stage.deployment.server.freeze();
    let refused = Answer::of(client.put(&url).body("x")).await;
    stage.deployment.server.thaw();
    assert_eq!((refused.status, refused.text.as_str()), (500, r#"{"error":"internal error"}"#));
    let put = async || Answer::of(client.put(&url).body("x")).await.status == 201;
    wait_until("a put", Duration::from_secs(60), put).await;
}
