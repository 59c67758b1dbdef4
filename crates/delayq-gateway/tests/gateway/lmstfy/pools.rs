//! Pools: deployments of their own.

use super::scene::Scene;
use crate::stage::Answer;
use delayq::{Admin, Client, Namespace, Settings};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn a_pool_is_a_deployment_with_tokens_and_queues_of_its_own() {
    let namespace = format!("p{}", std::process::id());
    let pools = format!("[lmstfy.pools.p2]\nnamespace = \"{namespace}\"\n");
    let scene = Scene::with("", &pools).await;
    let mut settings = Settings::new(scene.stage.deployment.server.url());
    settings.namespace = Namespace::new(namespace).unwrap();
    Admin::new(Client::new(settings)).init().await.unwrap();
    let shown = Answer::of(scene.ports.admin(Method::GET, "/pools")).await.with(200);
    assert_eq!(shown, json!(["default", "p2"]));
    let made = Answer::of(scene.ports.admin(Method::POST, "/token/ns?description=d&pool=p2")).await.with(201);
    let token = made["token"].as_str().unwrap();
    assert!(token.starts_with("p2:"), "{token}");
    let call = |method, path: &str| scene.ports.call_as(token, method, path);
    Answer::of(call(Method::PUT, "/api/ns/q").body("x")).await.with(201);
    assert_eq!(Answer::of(call(Method::GET, "/api/ns/q/size")).await.with(200)["size"], 1);
    assert_eq!(scene.size("q").await, 0, "the default pool has no such job");
    let bare = token.strip_prefix("p2:").unwrap();
    assert_eq!(Answer::of(scene.ports.call_as(bare, Method::GET, "/api/ns/q/peek")).await.status, 401);
    Answer::of(call(Method::GET, "/api/ns/q")).await.with(200);
    let info = Answer::of(scene.ports.admin(Method::GET, "/info?pool=p2")).await;
    assert!(info.text.contains("\"q\""), "{}", info.text);
    Answer::of(scene.ports.admin(Method::DELETE, &format!("/token/ns/{token}"))).await.with(204);
    assert_eq!(Answer::of(call(Method::PUT, "/api/ns/q")).await.status, 401);
}
