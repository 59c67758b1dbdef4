//! Who may open a stream, and who may no longer.

use super::{LEASE, StreamClient, has_closed, has_streams, numbers, ready, reserve};
use crate::stage::{Answer, Stage, topic};
use delayq::Message;
use delayq_gateway::token_line;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::outages::now_ms;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

async fn guarded() -> (Stage, Folder, PathBuf) {
    let folder = Folder::new("streams");
    let file = folder.join("tokens");
    let reader = token_line("desk", "seen").replace('\n', " read\n");
    let of = |tenant: &str| token_line(tenant, tenant).replace('\n', &format!(" tenant={tenant}\n"));
    let lines = [token_line("shop", "secret"), reader, of("acme"), of("globex")];
    std::fs::write(&file, lines.concat()).unwrap();
    let stage = Stage::start(&format!("tokens = \"{}\"\nmax_polls = 8\n", file.display())).await;
    (stage, folder, file)
}

async fn opened(stage: &Stage, token: &str) -> Result<StreamClient, u16> {
    StreamClient::opened(&stage.gateway, &[("authorization", &format!("Bearer {token}"))]).await
}

#[tokio::test]
async fn a_stream_needs_a_token_with_the_right_to_consume() {
    let (stage, _folder, _) = guarded().await;
    assert_eq!(StreamClient::opened(&stage.gateway, &[]).await.map(drop), Err(401));
    assert_eq!(opened(&stage, "guessed").await.map(drop), Err(401));
    assert_eq!(opened(&stage, "seen").await.map(drop), Err(403));
    // A page of another origin has no token.
    let foreign = [("authorization", "Bearer secret"), ("origin", "https://shop.example")];
    assert!(StreamClient::opened(&stage.gateway, &foreign).await.is_ok());
}

#[tokio::test]
async fn without_tokens_no_page_of_another_origin_opens_a_stream() {
    let stage = Stage::start("").await;
    let own = format!("http://{}", stage.gateway.address);
    assert!(StreamClient::opened(&stage.gateway, &[("origin", &own)]).await.is_ok());
    for (name, value, status) in [
        ("origin", "http://evil.example", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("host", "evil.example", 421),
    ] {
        assert_eq!(
            StreamClient::opened(&stage.gateway, &[(name, value)]).await.map(drop),
            Err(status),
            "{name}"
        );
    }
}

#[tokio::test]
async fn the_end_of_a_token_closes_its_streams_and_their_messages_come_back() {
    let (stage, _folder, file) = guarded().await;
    stage.deployment.put([ready("a")]).await;
    let mut stream = opened(&stage, "secret").await.unwrap();
    stream.ask(reserve(1)).await;
    stream.told().await;
    stream.message().await;
    let mut other = opened(&stage, "acme").await.unwrap();
    let lines = std::fs::read_to_string(&file).unwrap();
    let rest: String =
        lines.lines().filter(|line| !line.starts_with("shop ")).map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, rest).unwrap();
    assert_eq!(stream.closed().await, (4401, "DQ-G102: the token is missing or unknown".to_owned()));
    wait_until("the message", SHORT, async || numbers(&stage).await.leased == 0).await;
    has_closed(&stage, 4401, 1).await;
    other.ask(json!({ "credit": 1 })).await;
    assert_eq!(other.told().await, json!({ "credits": 1 }), "another token goes on");
}

#[tokio::test]
async fn a_token_that_loses_the_right_or_reaches_its_time_closes_its_streams() {
    let (stage, _folder, file) = guarded().await;
    let (lines, end) = (std::fs::read_to_string(&file).unwrap(), now_ms() + 4_000);
    let ends = token_line("late", "late").replace('\n', &format!(" consume until={end}\n"));
    std::fs::write(&file, format!("{lines}{ends}")).unwrap();
    wait_until("the new token", SHORT, async || opened(&stage, "late").await.is_ok()).await;
    let (mut late, mut shop) =
        (opened(&stage, "late").await.unwrap(), opened(&stage, "secret").await.unwrap());
    assert_eq!(late.closed().await.0, 4401);
    assert!(now_ms() >= end);
    let reads =
        lines.replace(&token_line("shop", "secret"), &token_line("shop", "secret").replace('\n', " read\n"));
    std::fs::write(&file, reads).unwrap();
    assert_eq!(shop.closed().await, (4403, "DQ-G122: the token lacks the right".to_owned()));
}

#[tokio::test]
async fn a_revoked_token_of_a_tenant_closes_its_streams_at_every_gateway_within_a_second() {
    let (stage, _folder, file) = guarded().await;
    let other = stage.another_with(&format!("tokens = \"{}\"\n", file.display())).await;
    let root = |method: Method, path: &str| stage.gateway.request(method, path).bearer_auth("secret");
    let made = root(Method::POST, "/v1/tenants/acme/tokens").json(&json!({ "name": "shop" }));
    let made = Answer::of(made).await.with(201);
    let token = format!("Bearer {}", made["token"].as_str().unwrap());
    let headers = [("authorization", token.as_str())];
    wait_until("the token", SHORT, async || StreamClient::opened(&other, &headers).await.is_ok()).await;
    let mut streams = Vec::new();
    for gateway in [&stage.gateway, &other] {
        streams.push(StreamClient::opened(gateway, &headers).await.unwrap());
    }
    let id = made["id"].as_str().unwrap();
    Answer::of(root(Method::DELETE, &format!("/v1/tenants/acme/tokens/{id}"))).await.with(204);
    let revoked = Instant::now();
    for stream in &mut streams {
        assert_eq!(stream.closed().await.0, 4401);
    }
    assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
}

#[tokio::test]
async fn a_session_opens_streams_for_its_own_pages_alone_and_its_end_closes_them() {
    let (stage, _folder, _) = guarded().await;
    let origin = format!("http://{}", stage.gateway.address);
    let login = stage.gateway.request(Method::POST, "/v1/session").header("origin", &origin);
    let login = Answer::of(login.json(&json!({ "token": "secret" }))).await;
    let cookie = login.header("set-cookie").split(';').next().unwrap().to_owned();
    let from = |origin: &'static str| [("cookie", cookie.clone()), ("origin", origin.to_owned())];
    for foreign in ["http://evil.example", "null"] {
        let headers = from(foreign);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(StreamClient::opened(&stage.gateway, &headers).await.map(drop), Err(403), "{foreign}");
    }
    let own = [("cookie", cookie.as_str()), ("origin", origin.as_str())];
    let mut stream = StreamClient::opened(&stage.gateway, &own).await.unwrap();
    stream.ask(json!({ "credit": 1 })).await;
    stream.told().await;
    let out = stage.gateway.request(Method::DELETE, "/v1/session").header("origin", &origin);
    Answer::of(out.header("cookie", &cookie)).await.with(204);
    let ended = Instant::now();
    assert_eq!(stream.closed().await, (4401, "DQ-G121: the session has ended".to_owned()));
    assert!(ended.elapsed() < Duration::from_secs(1), "{:?}", ended.elapsed());
}

#[tokio::test]
async fn a_stream_of_a_tenant_has_its_names_receipts_and_places_alone() {
    let (stage, _folder, _) = guarded().await;
    let stored = |of: &str| Message::new(topic(of), "x").group("acme/g").unwrap();
    stage.deployment.put([stored("acme/t"), Message::new(topic("globex/t"), "y")]).await;
    let (mut acme, mut globex) =
        (opened(&stage, "acme").await.unwrap(), opened(&stage, "globex").await.unwrap());
    for stream in [&mut acme, &mut globex] {
        stream.ask(json!({ "reserve": { "topics": ["t"], "credits": 2, "lease": LEASE } })).await;
        stream.told().await;
    }
    let (of_acme, of_globex) = (acme.message().await, globex.message().await);
    assert_eq!(
        (&of_acme["topic"], &of_acme["group"], &of_acme["payload"]),
        (&json!("t"), &json!("g"), &json!("x"))
    );
    assert_eq!((&of_globex["topic"], &of_globex["payload"]), (&json!("t"), &json!("y")));
    for verb in ["ack", "release", "bury", "extend"] {
        acme.ask(json!({ verb: { "receipt": of_globex["receipt"] } })).await;
        assert_eq!(acme.told().await["error"]["code"], "DQ-G114", "{verb}");
    }
    let long = json!({ "reserve": { "topics": ["n".repeat(124)] } });
    let mut third = opened(&stage, "globex").await.unwrap();
    third.ask(long).await;
    let refused = third.told().await["error"].clone();
    assert_eq!((&refused["code"], &refused["errors"][0]["pointer"]), (&json!("DQ-G114"), &json!("topic")));
    has_streams(&stage, "opening", 1).await;
    // A quarter of the eight places.
    assert_eq!(opened(&stage, "globex").await.map(drop), Err(429));
    assert!(opened(&stage, "acme").await.is_ok());
    acme.ask(json!({ "bury": { "receipt": of_acme["receipt"], "reason": "broken" } })).await;
    assert_eq!(acme.told().await["settled"]["outcome"], "buried");
    let logged = async || {
        let request = stage.gateway.request(Method::GET, "/v1/actions").bearer_auth("secret");
        let actions = Answer::of(request).await.with(200)["actions"].clone();
        actions.as_array().unwrap().iter().any(is_burial)
    };
    wait_until("the log of actions", SHORT, logged).await;
}

fn is_burial(entry: &Value) -> bool {
    entry["action"] == "bury" && entry["who"] == "acme" && entry["tenant"] == "acme" && entry["messages"] == 1
}
