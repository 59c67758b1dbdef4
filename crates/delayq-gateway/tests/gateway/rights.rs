//! Rights of tokens: every route, each with a token of each right.

use super::stage::{Answer, Stage};
use delayq_gateway::token_line;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::outages::now_ms;
use reqwest::Method;
use serde_json::{Value, json};

const RIGHTS: [&str; 7] = ["read", "payload", "put", "consume", "act", "manage", "audit"];

/// A gateway with a token for each right, which is also the text of the token.
async fn guarded() -> (Stage, Folder) {
    let folder = Folder::new("rights");
    let file = folder.join("tokens");
    let line = |right: &str| token_line(right, right).replace('\n', &format!(" {right}\n"));
    std::fs::write(&file, RIGHTS.map(line).concat()).unwrap();
    let stage = Stage::start(&format!("tokens = \"{}\"\n", file.display())).await;
    (stage, folder)
}

/// The right for an operation of the document; `None`: any token will do.
fn right(operation: &str) -> Option<&'static str> {
    let starts = |words: &[&str]| words.iter().any(|word| operation.starts_with(word));
    match operation.trim_end_matches("ByBody") {
        "getMe" | "logIn" | "logOut" | "listLogins" | "beginLogin" | "getDocument" => None,
        "reserve" | "settle" | "settleLease" | "openStream" => Some("consume"),
        "getPayload" => Some("payload"),
        "listActions" => Some("audit"),
        "listTenants" | "listTokens" | "addToken" | "rotateToken" | "revokeToken" | "endSessions" => {
            Some("manage")
        }
        _ if starts(&["put", "post"]) => Some("put"),
        _ if starts(&["cancel", "reschedule", "shift", "promote", "replay", "bury", "begin", "abort"]) => {
            Some("act")
        }
        _ if starts(&["set", "change", "delete", "pause", "resume"]) => Some("manage"),
        _ => {
            assert!(starts(&["get", "list"]), "{operation}");
            Some("read")
        }
    }
}

#[tokio::test]
async fn every_route_needs_its_right_and_no_other_is_enough() {
    let (stage, _folder) = guarded().await;
    let document = stage.gateway.get("/v1/openapi.json").await.json();
    let mut refused = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let needed = right(operation["operationId"].as_str().unwrap());
            let shown = operation["security"][0]["token"][0].as_str();
            assert_eq!(shown, needed, "{method} {path}: the document");
            let (path, method): (_, Method) =
                (path.replace(['{', '}'], ""), method.to_uppercase().parse().unwrap());
            for token in RIGHTS {
                let request = stage.gateway.request(method.clone(), &path).bearer_auth(token);
                let answer = Answer::of(request).await;
                let is_refused = answer.status == 403 && answer.text.contains("DQ-G122");
                let lacks = needed.is_some_and(|right| right != token);
                assert_eq!(is_refused, lacks, "{token}: {method} {path}: {answer:?}");
                refused += usize::from(is_refused);
            }
        }
    }
    assert!(refused > 150, "{refused}");
    let me = stage.gateway.request(Method::GET, "/v1/me").bearer_auth("act");
    assert_eq!(Answer::of(me).await.with(200)["rights"], json!(["act"]));
}

#[tokio::test]
async fn a_payload_is_seen_with_its_right_alone_wherever_it_is_asked_for() {
    let (stage, folder) = guarded().await;
    let line = token_line("both", "both").replace('\n', " read payload\n");
    let file = folder.join("tokens");
    let lines = std::fs::read_to_string(&file).unwrap() + &line;
    std::fs::write(&file, lines).unwrap();
    let sent = async |token: &str, method: Method, path: &str, body: Value| {
        let request = stage.gateway.request(method, path).bearer_auth(token);
        Answer::of(if body.is_null() { request } else { request.json(&body) }).await
    };
    let knows = async || sent("both", Method::GET, "/v1/me", Value::Null).await.status == 200;
    wait_until("the new token", SHORT, knows).await;
    let path = "/v1/topics/t/messages/a";
    let message = json!({ "due": "2099-01-01T00:00:00Z", "payload": "hidden", "group": "g" });
    sent("put", Method::PUT, path, message).await.with(201);
    let body = json!([{ "topic": "t", "id": "a", "group": "g", "payload": "text" }]);
    let lists = ["/v1/topics/t/messages?payload=", "/v1/groups/g/messages?payload="];
    let one = format!("{path}?group=g&payload=");
    for form in ["text", "base64"] {
        for list in lists.into_iter().chain([one.as_str()]) {
            let list = format!("{list}{form}");
            let refused = sent("read", Method::GET, &list, Value::Null).await.with(403);
            assert_eq!(refused["code"], "DQ-G122", "{list}");
            sent("both", Method::GET, &list, Value::Null).await.with(200);
        }
    }
    let refused = sent("read", Method::POST, "/v1/get", body.clone()).await.with(200);
    assert_eq!((&refused[0]["code"], &refused[0]["payload"]), (&json!("DQ-G122"), &Value::Null));
    assert_eq!(sent("both", Method::POST, "/v1/get", body).await.with(200)[0]["payload"], "hidden");
    let listed = sent("read", Method::GET, "/v1/topics/t/messages", Value::Null).await;
    assert!(listed.status == 200 && !listed.text.contains("hidden"), "{listed:?}");
}

#[tokio::test]
async fn a_token_ends_at_its_time() {
    let folder = Folder::new("ends");
    let file = folder.join("tokens");
    let until = |ahead: u64| {
        let end = now_ms() + ahead * 1000;
        token_line("shop", "secret").replace('\n', &format!(" until={end}\n"))
    };
    std::fs::write(&file, until(3600)).unwrap();
    let stage = Stage::start(&format!("tokens = \"{}\"\n", file.display())).await;
    let status = async || {
        Answer::of(stage.gateway.request(Method::GET, "/v1/topics").bearer_auth("secret")).await.status
    };
    assert_eq!(status().await, 200);
    std::fs::write(&file, until(3)).unwrap();
    wait_until("the end", SHORT, async || status().await == 401).await;
}
