//! Sessions: a cookie instead of a token, for the page alone.

use crate::stage::{Answer, Running, Stage};
use delayq_gateway::token_line;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::folder::Folder;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::path::PathBuf;

async fn guarded() -> (Stage, Folder, PathBuf) {
    let folder = Folder::new("sessions");
    let file = folder.join("tokens");
    std::fs::write(&file, tokens()).unwrap();
    let stage = Stage::start(&format!("tokens = \"{}\"\n", file.display())).await;
    (stage, folder, file)
}

fn tokens() -> String {
    format!("{}{}", token_line("shop", "secret"), token_line("desk", "seen").replace('\n', " read\n"))
}

fn from_the_page(gateway: &Running, method: Method, path: &str) -> RequestBuilder {
    let origin = format!("http://{}", gateway.address);
    gateway.request(method, path).header("sec-fetch-site", "same-origin").header("origin", origin)
}

async fn log_in(gateway: &Running, body: &Value) -> Answer {
    Answer::of(from_the_page(gateway, Method::POST, "/v1/session").json(body)).await
}

async fn cookie(gateway: &Running, token: &str) -> String {
    let answer = log_in(gateway, &json!({ "token": token })).await;
    answer.with(200);
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_token_becomes_a_cookie_that_only_the_page_can_use() {
    let (stage, _folder, _) = guarded().await;
    let wrong = log_in(&stage.gateway, &json!({ "token": "Secret" })).await;
    assert_eq!((wrong.with(401)["code"].as_str(), wrong.header("set-cookie")), (Some("DQ-G102"), ""));
    let answer = log_in(&stage.gateway, &json!({ "token": "secret" })).await;
    let me = answer.with(200);
    assert_eq!(
        (&me["name"], &me["rights"], &me["session"]),
        (
            &json!("shop"),
            &json!(["read", "payload", "put", "consume", "act", "manage", "audit"]),
            &json!(true)
        )
    );
    let set = answer.header("set-cookie");
    assert!(set.contains("; HttpOnly; SameSite=Strict;") && !set.contains("secret"), "{set}");
    let cookie = set.split(';').next().unwrap();
    let sent = |request: RequestBuilder| Answer::of(request.header("cookie", cookie));
    let me = sent(from_the_page(&stage.gateway, Method::GET, "/v1/me")).await.with(200);
    assert_eq!((&me["name"], me["session_ends_ms"].is_u64()), (&json!("shop"), true));
    let put = json!({ "due": "2099-01-01T00:00:00Z", "payload": "x" });
    let path = "/v1/topics/orders/messages/a";
    sent(from_the_page(&stage.gateway, Method::PUT, path).json(&put)).await.with(201);
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
    ] {
        let request = stage.gateway.request(Method::DELETE, path).header(name, value);
        assert_eq!(sent(request).await.with(403)["code"], "DQ-G103", "{name}: {value}");
    }
    let state = sent(from_the_page(&stage.gateway, Method::GET, path)).await.with(200)["state"].clone();
    assert_eq!(state, "delayed", "no other page cancelled it");
    let foreign = stage.gateway.request(Method::POST, "/v1/session").header("sec-fetch-site", "cross-site");
    Answer::of(foreign.json(&json!({ "token": "secret" }))).await.with(403);
    let out = Answer::of(from_the_page(&stage.gateway, Method::DELETE, "/v1/session")).await;
    assert_eq!(out.status, 204);
    assert!(
        out.header("set-cookie").contains("=; ") && out.header("set-cookie").contains("Max-Age=0"),
        "{out:?}"
    );
}

#[tokio::test]
async fn a_session_ends_with_its_token_and_says_so() {
    let (stage, _folder, file) = guarded().await;
    let cookie = cookie(&stage.gateway, "secret").await;
    let me = async || {
        let request = from_the_page(&stage.gateway, Method::GET, "/v1/me").header("cookie", &cookie);
        Answer::of(request).await
    };
    me().await.with(200);
    std::fs::write(&file, token_line("other", "one")).unwrap();
    wait_until("the end of the session", SHORT, async || me().await.status == 401).await;
    let ended = me().await.json();
    assert_eq!((&ended["code"], &ended["reason"]), (&json!("DQ-G121"), &json!("removed")));
    let forged = format!("{}x", &cookie[..cookie.len() - 1]);
    let request = from_the_page(&stage.gateway, Method::GET, "/v1/me").header("cookie", forged);
    assert_eq!(Answer::of(request).await.with(401)["reason"], "unknown");
    assert_eq!(stage.gateway.get("/v1/me").await.with(401)["code"], "DQ-G102", "without a cookie");
}

#[tokio::test]
async fn a_session_of_one_gateway_is_known_to_another() {
    let (stage, _folder, file) = guarded().await;
    let other = stage.another_with(&format!("tokens = \"{}\"\n", file.display())).await;
    let cookie = cookie(&stage.gateway, "seen").await;
    let (_, value) = cookie.split_once('=').unwrap();
    let port = other.address.rsplit_once(':').unwrap().1;
    let request =
        other.request(Method::GET, "/v1/me").header("cookie", format!("delayq_session_{port}={value}"));
    assert_eq!(Answer::of(request).await.with(200)["name"], "desk");
}

#[tokio::test]
async fn all_sessions_of_one_token_end_at_every_gateway_and_those_of_others_stay() {
    let (stage, _folder, file) = guarded().await;
    let other = stage.another_with(&format!("tokens = \"{}\"\n", file.display())).await;
    let (first, second) = (cookie(&stage.gateway, "seen").await, cookie(&other, "seen").await);
    let of_shop = cookie(&stage.gateway, "secret").await;
    let me = async |gateway: &Running, cookie: &str| {
        Answer::of(from_the_page(gateway, Method::GET, "/v1/me").header("cookie", cookie)).await
    };
    let end = async |query: &str, token: &str| {
        let request = stage.gateway.request(Method::DELETE, &format!("/v1/sessions{query}"));
        Answer::of(request.bearer_auth(token)).await
    };
    assert_eq!(end("?token_name=desk", "seen").await.with(403)["code"], "DQ-G122");
    assert_eq!(end("", "secret").await.with(422)["code"], "DQ-G114");
    assert_eq!(end("?token_name=desk&person=desk", "secret").await.with(422)["code"], "DQ-G114");
    assert_eq!(end("?person=desk", "secret").await.status, 204, "a person is not a token");
    me(&stage.gateway, &first).await.with(200);
    assert_eq!(end("?token_name=desk", "secret").await.status, 204);
    for (gateway, cookie) in [(&stage.gateway, &first), (&other, &second)] {
        let ended = me(gateway, cookie).await.with(401);
        assert_eq!((&ended["code"], &ended["reason"]), (&json!("DQ-G121"), &json!("ended")));
    }
    me(&stage.gateway, &of_shop).await.with(200);
    me(&other, &cookie(&other, "seen").await).await.with(200);
    let logged = async || {
        let request = stage.gateway.request(Method::GET, "/v1/actions?limit=10").bearer_auth("secret");
        Answer::of(request).await.with(200)["actions"].clone()
    };
    let has_entry = |actions: &Value| {
        let mut entries = actions.as_array().unwrap().iter();
        entries.any(|entry| {
            entry["action"] == "endSessions" && entry["outcome"] == "done" && entry["who"] == "shop"
        })
    };
    wait_until("the entry of the log", SHORT, async || has_entry(&logged().await)).await;
}

#[tokio::test]
async fn without_tokens_anybody_of_this_host_may_do_everything() {
    let stage = Stage::start("").await;
    let me = stage.gateway.get("/v1/me").await.with(200);
    assert_eq!((&me["name"], &me["session"]), (&json!(null), &json!(false)));
    assert_eq!(me["rights"].as_array().unwrap().len(), 7);
    let answer = log_in(&stage.gateway, &json!({ "token": "x" })).await;
    assert_eq!((answer.status, answer.header("set-cookie")), (200, ""), "no session is needed");
}
