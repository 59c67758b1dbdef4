//! Tokens and limits, over several gateways.

use super::scene::Scene;
use crate::stage::Answer;
use delayq_tests::deadline::{SHORT, wait_until};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn a_token_is_kept_as_a_hash_shown_once_and_deleted_by_its_masked_form() {
    let scene = Scene::start().await;
    let (ports, token) = (&scene.ports, scene.ports.token.clone());
    let listed = async || Answer::of(ports.admin(Method::GET, "/token/ns")).await.with(200)["tokens"].clone();
    let tokens = listed().await;
    let masked = tokens.as_object().unwrap().keys().next().unwrap().clone();
    assert!(masked.starts_with(&format!("{}…", &token[..6])) && !masked.contains(&token[..7]), "{masked}");
    assert_eq!(tokens[&masked], "test");
    let with_pool = Answer::of(ports.admin(Method::GET, "/token/ns?pool=default")).await.with(200);
    assert!(with_pool["tokens"].get(format!("default:{masked}")).is_some(), "{with_pool}");
    let kept = scene.stage.deployment.admin.gateways().notes().await.unwrap();
    assert!(!kept.is_empty() && !format!("{kept:?}").contains(&token), "{kept:?}");
    Answer::of(ports.admin(Method::DELETE, &format!("/token/ns/{masked}"))).await.with(204);
    assert_eq!(listed().await, json!({}));
    let refused = Answer::of(ports.call(Method::GET, "/api/ns/q/peek")).await;
    assert_eq!(refused.status, 401, "at once on the gateway that deleted it");
}

#[tokio::test]
async fn a_deleted_token_ends_on_every_gateway() {
    let scene = Scene::start().await;
    let (_other, ports) = scene.another().await;
    Answer::of(ports.call(Method::PUT, "/api/ns/q").body("x")).await.with(201);
    let path = format!("/token/ns/{}", ports.token);
    Answer::of(scene.ports.admin(Method::DELETE, &path)).await.with(204);
    let has_ended = async || Answer::of(ports.call(Method::GET, "/api/ns/q/peek")).await.status == 401;
    wait_until("the end of the token", SHORT, has_ended).await;
}

#[tokio::test]
async fn a_token_is_for_its_namespace_alone() {
    let scene = Scene::start().await;
    scene.get("/api/other/q/peek").await.with(401);
    scene.get("/api/ns/q/peek").await.with(404);
}

#[tokio::test]
async fn each_token_has_a_limit_of_its_own_for_all_gateways_together() {
    let scene = Scene::start().await;
    let (_other, other) = scene.another().await;
    let free = scene.ports.new_token("ns").await;
    let limit = json!({ "read": 1, "write": 2, "interval": 600 });
    let path = format!("/token/ns/{}/limit", scene.ports.token);
    Answer::of(scene.ports.admin(Method::POST, &path).json(&limit)).await.with(201);
    let put =
        async |ports: &super::scene::Ports| Answer::of(ports.call(Method::PUT, "/api/ns/q").body("x")).await;
    put(&scene.ports).await.with(201);
    scene.put("/api/ns/q?delay=x", "").await.with(400);
    put(&other).await.with(201);
    let refused = put(&scene.ports).await;
    let text = format!(
        "{{\"msg\":\"token({}) produce reach the limit rate, please retry later\"}}",
        scene.ports.token
    );
    assert_eq!((refused.status, refused.text), (429, text));
    put(&other).await.with(429);
    scene.get("/api/ns/empty").await.with(404);
    scene.get("/api/ns/q").await.with(200);
    let text = scene.get("/api/ns/q").await.with(429)["msg"].to_string();
    assert!(text.contains("consume reach the limit rate"), "{text}");
    for _ in 0..5 {
        Answer::of(scene.ports.call_as(&free, Method::PUT, "/api/ns/q").body("x")).await.with(201);
        scene.get("/api/ns/q/peek").await.with(200);
    }
    let limits = Answer::of(scene.ports.admin(Method::GET, "/limits")).await.with(200);
    assert_eq!((limits[0]["namespace"].as_str(), &limits[0]["limiter"]), (Some("ns"), &limit));
    assert!(limits[0]["token"].as_str().unwrap().contains('…'), "{limits}");
    Answer::of(scene.ports.admin(Method::DELETE, &path)).await.with(200);
    put(&scene.ports).await.with(201);
    assert_eq!(Answer::of(scene.ports.admin(Method::GET, &path)).await.with(404), Value::Null);
}

#[tokio::test]
async fn a_window_of_a_limit_ends() {
    let scene = Scene::start().await;
    let path = format!("/token/ns/{}/limit", scene.ports.token);
    let limit = json!({ "write": 1, "interval": 1 });
    Answer::of(scene.ports.admin(Method::PUT, &path).json(&limit)).await.with(200);
    let put = async || scene.put("/api/ns/q", "x").await.status;
    wait_until("a refusal", SHORT, async || put().await == 429).await;
    wait_until("the next window", SHORT, async || put().await == 201).await;
}
