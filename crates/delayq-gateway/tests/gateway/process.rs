//! The process: tokens, a Redis that comes and goes, the end.

use super::stage::{Answer, Running, Stage};
use delayq_service::Exit;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use reqwest::Method;
use serde_json::json;
use std::process::Command;

/// The SHA-256 of `secret`.
const HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

#[tokio::test]
async fn a_request_without_a_known_token_is_refused_until_the_file_has_it() {
    let folder = Folder::new("tokens");
    let file = folder.join("tokens");
    std::fs::write(&file, format!("# ours\nshop {HASH}\n")).unwrap();
    let stage = Stage::start(&format!("tokens = \"{}\"\n", file.display())).await;
    let status = async |token: &str| {
        let request = stage.gateway.request(Method::GET, "/v1/topics");
        let request = if token.is_empty() { request } else { request.header("authorization", token) };
        Answer::of(request).await.status
    };
    assert_eq!(status("Bearer secret").await, 200);
    for wrong in ["", "Bearer", "Bearer x", "Basic secret", &format!("Bearer {HASH}")] {
        assert_eq!(status(wrong).await, 401, "{wrong}");
    }
    let refused = stage.gateway.get("/v1/topics").await;
    assert_eq!(refused.header("www-authenticate"), "Bearer");
    assert_eq!(stage.gateway.get("/v1/openapi.json").await.status, 200);
    std::fs::write(&file, format!("shop {HASH}\nother {}\n", HASH.replace('2', "3"))).unwrap();
    assert_eq!(status("Bearer secret").await, 200);
    std::fs::write(&file, format!("other {}\n", HASH.replace('2', "3"))).unwrap();
    wait_until("the end of the token", SHORT, async || status("Bearer secret").await == 401).await;
}

#[tokio::test]
async fn a_gateway_that_other_hosts_reach_does_not_start_unprotected() {
    let folder = Folder::new("open");
    let config = folder.join("gateway.toml");
    for (settings, code) in [
        ("listen = '0.0.0.0:0'", Exit::Config),
        ("listen = '127.0.0.1:0'\ntokens = '/nowhere'", Exit::Config),
        ("listen = '127.0.0.1:0'\nreceipt_key = 'short'", Exit::Config),
        ("listen = '0.0.0.0:0'\ntokens = '/dev/null'", Exit::Config),
        ("listen = '192.0.2.1:9480'\ninsecure = true\ncleartext = true", Exit::Unavailable),
    ] {
        let text =
            format!("[redis]\nurl = 'redis://127.0.0.1:1'\n[admin]\nlisten = ''\n[gateway]\n{settings}\n");
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-gateway"));
        command.arg(&config);
        let mut process = Process::spawn("delayq-gateway", command);
        let ended = process.wait_end(LONG).await;
        assert_eq!(ended.code(), Some(code.code().into()), "{settings}: {}", process.tail());
    }
}

#[tokio::test]
async fn without_redis_the_gateway_answers_503_with_the_fate_and_serves_once_it_is_back() {
    let stage = Stage::private("").await;
    stage.deployment.server.freeze();
    let put = stage.gateway.put("/v1/topics/t/messages/a", &json!({ "due": "2099-01-01T00:00:00Z" })).await;
    let problem = put.with(503);
    assert_eq!((&problem["code"], put.header("retry-after")), (&json!("DQ-G117"), "1"));
    assert!(["unknown", "not_applied"].contains(&problem["fate"].as_str().unwrap()));
    let request = stage.gateway.request(Method::PUT, "/v1/topics/t/messages/b");
    let late = Answer::of(request.header("delayq-deadline", "100ms").json(&json!({}))).await;
    assert_eq!((&late.with(504)["code"], &late.json()["fate"]), (&json!("DQ-G120"), &json!("unknown")));
    stage.gateway.post("/v1/reserve", &json!({ "topics": ["t"], "wait": "60s" })).await.with(503);
    stage.deployment.server.thaw();
    let path = "/v1/topics/t/messages/a";
    let body = json!({ "due": "2099-01-01T00:00:00Z" });
    wait_until("a put", LONG, async || [200, 201].contains(&stage.gateway.put(path, &body).await.status))
        .await;
}

#[tokio::test]
async fn two_gateways_start_at_once_and_share_one_key() {
    let stage = Stage::start("").await;
    stage.deployment.put([delayq::Message::new(super::stage::topic("t"), "x")]).await;
    let other: Running = stage.another().await;
    let body = json!({ "topics": ["t"] });
    let (one, two) = tokio::join!(stage.gateway.post("/v1/reserve", &body), other.post("/v1/reserve", &body));
    let (one, two) = (one.with(200), two.with(200));
    let receipts: Vec<_> = [&one, &two].iter().filter_map(|taken| taken["messages"].get(0)).collect();
    let settle = json!([{ "receipt": receipts[0]["receipt"], "do": "release", "delay": "0s" }]);
    for gateway in [&stage.gateway, &other] {
        let settled = gateway.post("/v1/settle", &settle).await.with(200);
        assert!(settled[0]["outcome"].is_string(), "the receipt is known: {settled}");
    }
}

#[tokio::test]
async fn it_ends_well_on_a_signal_while_connections_are_open() {
    let mut stage = Stage::start("").await;
    let _idle = stage.gateway.connect().await;
    stage.gateway.get("/v1/topics").await.with(200);
    stage.gateway.process.ends_well_by(Signal::TERM, LONG).await;
}
