//! Bulkheads: the requests of one tenant leave room for another.

use super::{Holder, stage_on};
use crate::stage::{Answer, Stage, read_to_end};
use delayq_tests::deadline::{SHORT, wait_until};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Requests of a tenant that a gateway works on at a time, as the guide says.
const AT_A_TIME: usize = 16;
const MORE: usize = 24;

async fn put(holder: Holder<'_>, n: usize) -> Answer {
    holder.put(&format!("/v1/topics/t/messages/m{n}"), json!({ "due": "+1h" })).await
}

/// A frozen Redis ends no turn.
#[tokio::test]
async fn a_tenant_has_sixteen_requests_under_way_and_another_tenant_does_not_wait_for_them() {
    let (stage, _folder) = stage_on(Stage::private).await;
    let (acme, globex) = (holder(&stage, "acme"), holder(&stage, "globex"));
    // Connected to Redis before the freeze.
    put(acme, 999).await.with(201);
    stage.deployment.server.freeze();
    let during = async {
        let refused = format!("delayq_gateway_over_quota_total{{quota=\"turns\"}} {MORE}\n");
        let all = async || stage.gateway.endpoint.get("/metrics").await.1.contains(&refused);
        wait_until("the refusals", SHORT, all).await;
        globex.get("/v1/me").await.with(200);
        let refused = acme.get("/v1/me").await;
        assert_eq!(refused.with(429)["code"], "DQ-G124");
        assert_eq!(
            (refused.header("ratelimit-policy"), refused.header("retry-after")),
            ("\"turns\";q=64", "1")
        );
        stage.deployment.server.thaw();
    };
    let (answers, ()) = tokio::join!(join_all((0..AT_A_TIME + MORE).map(|n| put(acme, n))), during);
    // The producer repeats a call with a late answer: some of the messages exist by then.
    let count = |wanted: &[u16]| answers.iter().filter(|answer| wanted.contains(&answer.status)).count();
    assert_eq!((count(&[200, 201]), count(&[429])), (AT_A_TIME, MORE));
    acme.get("/v1/me").await.with(200);
}

#[tokio::test]
async fn a_tenant_has_a_quarter_of_the_connections_and_another_tenant_the_others() {
    let (stage, folder) = stage_on(Stage::start).await;
    let tokens = folder.join("tokens").display().to_string();
    let gateway =
        stage.another_with(&format!("tokens = \"{tokens}\"\nmax_connections = 12\nmax_polls = 12\n")).await;
    let ask = async |stream: &mut TcpStream, token: &str| {
        let head = format!("GET /v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        String::from_utf8(status[9..].to_vec()).unwrap()
    };
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = gateway.connect().await;
        assert_eq!(ask(&mut stream, "acme").await, "200");
        held.push(stream);
    }
    let mut further = gateway.connect().await;
    assert_eq!(ask(&mut further, "acme").await, "429");
    let rest = read_to_end(&mut further).await;
    assert!(rest.contains("\"connections\";q=3") && rest.contains("DQ-G124"), "{rest}");
    let mut others = gateway.connect().await;
    assert_eq!(ask(&mut others, "globex").await, "200");
    drop(held.pop());
    let is_served = async || ask(&mut gateway.connect().await, "acme").await == "200";
    wait_until("a place", SHORT, is_served).await;
}

#[tokio::test]
async fn a_client_that_sends_slowly_holds_no_turn_of_its_tenant() {
    let (stage, _folder) = stage_on(Stage::start).await;
    let head = "PUT /v1/topics/t/messages/a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer acme\r\n\
                Content-Length: 1000\r\n\r\n{";
    let mut slow = Vec::new();
    for _ in 0..2 * AT_A_TIME {
        let mut stream = stage.gateway.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    put(holder(&stage, "acme"), 1).await.with(201);
}

#[tokio::test]
async fn many_messages_of_a_tenant_go_in_steps_and_are_answered_in_order() {
    const ALL: usize = 150;
    let (stage, _folder) = stage_on(Stage::start).await;
    let acme = holder(&stage, "acme");
    let line = |n: usize| format!("{}\n", json!({ "topic": "t", "id": format!("m{n:03}"), "due": "+1h" }));
    let lines: String = (0..ALL).map(line).collect();
    let request = stage.gateway.request(Method::POST, "/v1/messages").bearer_auth("acme");
    let put = Answer::of(request.header("content-type", "application/x-ndjson").body(lines)).await.lines();
    assert_eq!(put[ALL]["outcomes"], json!({ "stored": ALL }));
    let ids = |values: &[Value]| -> Vec<String> {
        values.iter().map(|value| value["id"].as_str().unwrap_or("odd").to_owned()).collect()
    };
    let in_order: Vec<String> = (0..ALL).map(|n| format!("m{n:03}")).collect();
    assert_eq!(ids(&put[..ALL]), in_order);

    let page = acme.get(&format!("/v1/topics/t/messages?limit={}", ALL - 1)).await.with(200);
    assert_eq!(page["messages"].as_array().unwrap().len(), ALL - 1);
    let rest = acme.get(&format!("/v1/topics/t/messages?after={}", page["next"].as_str().unwrap())).await;
    assert_eq!(rest.with(200)["messages"].as_array().unwrap().len(), 1);

    let mut items: Vec<Value> = in_order.iter().map(|id| json!({ "topic": "t", "id": id })).collect();
    items[70] = json!({ "topic": "t" });
    let got = acme.post("/v1/get", json!(items)).await.with(200);
    let mut expected = in_order.clone();
    expected[70] = "odd".to_owned();
    assert_eq!(ids(got.as_array().unwrap()), expected);
    let cancelled = acme.post("/v1/cancel", json!(items)).await.with(200);
    let answers = cancelled.as_array().unwrap();
    let done = |answer: &&Value| answer["outcome"] == "cancelled";
    assert_eq!((answers.iter().filter(done).count(), &answers[70]["code"]), (ALL - 1, &json!("DQ-G114")));
}

#[tokio::test]
async fn a_reserve_of_more_than_one_step_is_answered_together_and_settled_in_order() {
    const ALL: usize = 150;
    let (stage, _folder) = stage_on(Stage::start).await;
    let acme = holder(&stage, "acme");
    let lines: String =
        (0..ALL).map(|n| format!("{}\n", json!({ "topic": "t", "id": format!("m{n}") }))).collect();
    let request = stage.gateway.request(Method::POST, "/v1/messages").bearer_auth("acme");
    Answer::of(request.header("content-type", "application/x-ndjson").body(lines)).await.lines();
    let taken = acme.reserve("t").await;
    assert_eq!(taken.len(), ALL);
    let mut acks: Vec<Value> =
        taken.iter().map(|message| json!({ "receipt": message["receipt"], "do": "ack" })).collect();
    acks[40]["receipt"] = json!("forged");
    let settled = acme.post("/v1/settle", json!(acks)).await.with(200);
    let answers = settled.as_array().unwrap();
    let done = answers.iter().filter(|answer| answer["outcome"] == "delivered").count();
    assert_eq!((done, &answers[40]["code"]), (ALL - 1, &json!("DQ-G114")));
}

fn holder<'s, S>(stage: &'s Stage<S>, token: &'s str) -> Holder<'s> {
    Holder { gateway: &stage.gateway, token }
}
