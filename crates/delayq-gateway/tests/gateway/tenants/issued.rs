//! Tokens that a gateway makes for a tenant, and quotas.

use super::{FAR, Holder, holder, stage, stage_on};
use crate::stage::{Answer, Running, Stage};
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

async fn another(stage: &Stage, folder: &Folder) -> Running {
    stage.another_with(&format!("tokens = \"{}\"\n", folder.join("tokens").display())).await
}

async fn me(gateway: &Running, token: &str) -> Answer {
    Answer::of(gateway.request(Method::GET, "/v1/me").bearer_auth(token)).await
}

/// The id and the text of a new token.
async fn made(root: Holder<'_>, tenant: &str, body: Value) -> (String, String) {
    let made = root.post(&format!("/v1/tenants/{tenant}/tokens"), body).await.with(201);
    (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_token_of_a_tenant_is_known_to_every_gateway_and_revoked_everywhere_within_a_second() {
    let (stage, folder) = stage().await;
    let (root, other) = (holder(&stage, "root"), another(&stage, &folder).await);
    let (id, token) = made(root, "acme", json!({ "name": "shop", "rights": ["put", "read"] })).await;
    let known = me(&stage.gateway, &token).await.with(200);
    assert_eq!((&known["tenant"], &known["rights"]), (&json!("acme"), &json!(["read", "put"])));
    wait_until("the token", SHORT, async || me(&other, &token).await.status == 200).await;

    let listed = root.get("/v1/tenants/acme/tokens").await;
    assert_eq!((&listed.with(200)["tokens"][0]["id"], listed.text.contains(&token)), (&json!(id), false));
    let kept = stage.deployment.admin.gateways().tenants().await.unwrap();
    assert!(!format!("{kept:?}").contains(&token), "Redis has hashes only");

    root.send(Method::DELETE, &format!("/v1/tenants/acme/tokens/{id}"), &Value::Null).await.with(204);
    let revoked = Instant::now();
    assert_eq!(me(&stage.gateway, &token).await.status, 401);
    wait_until("the end of the token", SHORT, async || me(&other, &token).await.status == 401).await;
    assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
    root.send(Method::DELETE, &format!("/v1/tenants/acme/tokens/{id}"), &Value::Null).await.with(404);
}

#[tokio::test]
async fn a_rotated_token_overlaps_with_the_next() {
    let (stage, _folder) = stage().await;
    let root = holder(&stage, "root");
    let (id, old) = made(root, "acme", json!({ "name": "shop" })).await;
    let rotate = |id: &str| format!("/v1/tenants/acme/tokens/{id}/rotate");
    let next = root.post(&rotate(&id), json!({ "overlap": "2s" })).await.with(201);
    let next = next["token"].as_str().unwrap();
    assert_ne!(next, old);
    assert_eq!((me(&stage.gateway, &old).await.status, me(&stage.gateway, next).await.status), (200, 200));
    wait_until("the end of the old token", SHORT, async || me(&stage.gateway, &old).await.status == 401)
        .await;
    assert_eq!(me(&stage.gateway, next).await.with(200)["name"], "shop");
    let tokens = root.get("/v1/tenants/acme/tokens").await.with(200);
    assert_eq!(tokens["tokens"].as_array().unwrap().len(), 2);
    root.send(Method::DELETE, "/v1/tenants/acme", &Value::Null).await.with(204);
    assert_eq!(me(&stage.gateway, next).await.status, 401);
    assert_eq!(root.get("/v1/tenants").await.with(200)["tenants"], json!([]));
}

#[tokio::test]
async fn nobody_makes_a_token_with_more_rights_than_its_own() {
    let (stage, _folder) = stage().await;
    let root = holder(&stage, "root");
    for odd in [
        json!({}),
        json!({ "name": "a b" }),
        json!({ "name": "a", "rights": ["fly"] }),
        json!({ "name": "a", "until": "soon" }),
    ] {
        root.post("/v1/tenants/acme/tokens", odd).await.with(422);
    }
    root.post("/v1/tenants/a%2Fb/tokens", json!({ "name": "a" })).await.with(422);
    let desk = holder(&stage, "desk");
    let refused = desk.post("/v1/tenants/acme/tokens", json!({ "name": "a", "rights": ["payload"] })).await;
    assert_eq!(refused.with(403)["code"], "DQ-G122");
    let (id, _) = made(root, "acme", json!({ "name": "shop", "rights": ["payload"] })).await;
    let rotate = format!("/v1/tenants/acme/tokens/{id}/rotate");
    assert_eq!(desk.post(&rotate, json!({})).await.with(403)["code"], "DQ-G122");
    let (_, token) = made(desk, "acme", json!({ "name": "b" })).await;
    assert_eq!(me(&stage.gateway, &token).await.with(200)["rights"], json!(["manage"]));
    for other in ["acme", "globex"] {
        let other = holder(&stage, other);
        assert_eq!(other.get("/v1/tenants").await.with(403)["code"], "DQ-G123");
        assert_eq!(
            other.post("/v1/tenants/acme/tokens", json!({ "name": "a" })).await.with(403)["code"],
            "DQ-G123"
        );
    }
}

#[tokio::test]
async fn a_quota_of_puts_refuses_what_is_beyond_with_the_time_to_wait() {
    let (stage, _folder) = stage().await;
    let (root, acme) = (holder(&stage, "root"), holder(&stage, "acme"));
    let set = root.put("/v1/tenants/acme", json!({ "puts_per_second": 2 })).await.with(200);
    assert_eq!((&set["puts_per_second"], &set["pending"]), (&json!(2), &Value::Null));
    let line = |n| format!("{{\"topic\":\"t\",\"id\":\"{n}\",\"due\":{FAR}}}\n");
    let lines: String = (0..100).map(line).collect();
    let request = stage.gateway.request(Method::POST, "/v1/messages").bearer_auth("acme");
    let put = Answer::of(request.header("content-type", "application/x-ndjson").body(lines)).await.lines();
    let outcomes = &put[100]["outcomes"];
    let stored = outcomes["stored"].as_u64().unwrap();
    assert!((2..20).contains(&stored) && outcomes["failed"] == 100 - stored, "{outcomes}");
    assert_eq!((&put[99]["code"], &put[99]["fate"]), (&json!("DQ-G124"), &json!("not_applied")));
    let put = async || acme.put("/v1/topics/t/messages/one", json!({ "due": FAR })).await;
    // Half a second gives room for a put.
    let mut refused = put().await;
    while refused.status != 429 {
        refused = put().await;
    }
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.header("ratelimit-policy"), "\"puts\";q=2;w=1");
    assert_eq!(refused.header("ratelimit"), "\"puts\";r=0;t=1");
    holder(&stage, "globex").put("/v1/topics/t/messages/one", json!({ "due": FAR })).await.with(201);
    let again = async || acme.put("/v1/topics/t/messages/two", json!({ "due": FAR })).await.status == 201;
    wait_until("the next second", SHORT, again).await;
    root.put("/v1/tenants/acme", json!({})).await.with(200);
    for n in 0..50 {
        acme.put(&format!("/v1/topics/free/messages/{n}"), json!({ "due": FAR })).await.with(201);
    }
}

#[tokio::test]
async fn two_gateways_share_a_quota_of_puts() {
    let (stage, folder) = stage().await;
    let (root, other) = (holder(&stage, "root"), another(&stage, &folder).await);
    root.put("/v1/tenants/acme", json!({ "puts_per_second": 100 })).await.with(200);
    let lines = |name: &str, from: u64, count: u64| -> String {
        (from..from + count)
            .map(|n| format!("{{\"topic\":\"t\",\"id\":\"{name}{n}\",\"due\":{FAR}}}\n"))
            .collect()
    };
    let put = async |gateway: &Running, lines: String| {
        let request = gateway.request(Method::POST, "/v1/messages").bearer_auth("acme");
        let put =
            Answer::of(request.header("content-type", "application/x-ndjson").body(lines)).await.lines();
        put.last().unwrap()["outcomes"].clone()
    };
    let knows = async || put(&other, lines("first", 0, 150)).await["failed"] != Value::Null;
    wait_until("the quota at the other gateway", SHORT, knows).await;
    let flood = async |gateway: &Running, name: &str| {
        let (started, mut stored, mut n) = (Instant::now(), 0_u64, 0_u64);
        while started.elapsed() < Duration::from_secs(6) {
            let outcomes = put(gateway, lines(name, n, 50)).await;
            n += 50;
            stored += outcomes["stored"].as_u64().unwrap_or(0);
        }
        stored
    };
    let (one, two) = tokio::join!(flood(&stage.gateway, "a"), flood(&other, "b"));
    // Six seconds and the bucket, and two seconds until each has noticed the other.
    assert!((500..=1000).contains(&(one + two)), "{one} and {two}");
    assert!(one.abs_diff(two) < 250, "{one} and {two}");
}

#[tokio::test]
async fn a_quota_of_pending_messages_holds_until_they_leave() {
    let (stage, _folder) = stage().await;
    let (root, acme) = (holder(&stage, "root"), holder(&stage, "acme"));
    root.put("/v1/tenants/acme", json!({ "pending": 10 })).await.with(200);
    for n in 0..10 {
        acme.put(&format!("/v1/topics/t/messages/{n}"), json!({ "due": FAR, "group": "g" })).await.with(201);
    }
    let refused = acme.put("/v1/topics/t/messages/x", json!({ "due": FAR })).await;
    assert_eq!((refused.with(429)["code"].as_str(), refused.header("retry-after")), (Some("DQ-G124"), "5"));
    acme.post("/v1/groups/g/cancel", Value::Null).await.with(200);
    let fits = async || acme.put("/v1/topics/t/messages/x", json!({ "due": FAR })).await.status == 201;
    wait_until("room for another", SHORT, fits).await;
}

#[tokio::test]
async fn a_tenant_takes_a_part_of_the_waiting_reserves_and_of_the_memory() {
    let (stage, folder) = stage().await;
    let settings =
        format!("tokens = \"{}\"\nmax_polls = 8\nmax_bytes = \"4MiB\"\n", folder.join("tokens").display());
    let small = stage.another_with(&settings).await;
    let (acme, globex) =
        (Holder { gateway: &small, token: "acme" }, Holder { gateway: &small, token: "globex" });
    let body = json!({ "topics": ["t"], "wait": "20s" });
    let poll = || acme.post("/v1/reserve", body.clone());
    tokio::select! {
        _ = async { tokio::join!(poll(), poll()) } => panic!("a reserve did not wait"),
        () = async {
            small.has_polls(2).await;
            let refused = acme.post("/v1/reserve", json!({ "topics": ["t"] })).await;
            assert_eq!((refused.with(429)["code"].as_str(), refused.header("ratelimit-policy")), (Some("DQ-G124"), "\"polls\";q=2"));
            globex.post("/v1/reserve", json!({ "topics": ["t"] })).await.with(200);
        } => {}
    }
    holder(&stage, "root").put("/v1/tenants/acme", json!({ "bytes": 100 })).await.with(200);
    let long = json!({ "payload": "x".repeat(200), "due": FAR });
    let refused = async || acme.put("/v1/topics/t/messages/a", long.clone()).await.status == 429;
    wait_until("the quota of bytes", SHORT, refused).await;
    globex.put("/v1/topics/t/messages/a", long.clone()).await.with(201);
}

#[tokio::test]
async fn quotas_that_a_gateway_cannot_read_admit_no_put() {
    let (stage, _folder) = stage().await;
    let (root, acme) = (holder(&stage, "root"), holder(&stage, "acme"));
    let put = async || acme.put("/v1/topics/t/messages/a", json!({ "due": FAR })).await;
    put().await.with(201);
    let later = ("acme".to_owned(), Some(json!({ "puts_per_day": 5 }).to_string()));
    stage.deployment.admin.gateways().change_tenants("of a later version", &[later]).await.unwrap();
    wait_until("the refusal", SHORT, async || put().await.status == 503).await;
    let refused = put().await;
    assert_eq!(refused.with(503)["code"], "DQ-G128");
    assert!(
        refused.text.contains("puts_per_day") && !refused.header("retry-after").is_empty(),
        "{refused:?}"
    );
    let lines = format!("{{\"topic\":\"t\",\"due\":{FAR}}}\n");
    let request = stage.gateway.request(Method::POST, "/v1/messages").bearer_auth("acme");
    let put_many = Answer::of(request.header("content-type", "application/x-ndjson").body(lines)).await;
    assert_eq!(put_many.with(503)["code"], "DQ-G128");
    acme.get("/v1/topics/t/messages/a").await.with(200);
    holder(&stage, "globex").put("/v1/topics/t/messages/a", json!({ "due": FAR })).await.with(201);
    let listed = root.get("/v1/tenants").await.with(200);
    assert!(listed["tenants"][0]["quotas_unreadable"].as_str().unwrap().contains("puts_per_day"), "{listed}");
    root.put("/v1/tenants/acme", json!({})).await.with(200);
    put().await.with(200);
}

#[tokio::test]
async fn tokens_that_cannot_be_read_are_answered_503_and_known_again_once_they_can() {
    let (stage, _folder) = stage_on(Stage::private).await;
    let root = Holder { gateway: &stage.gateway, token: "root" };
    let (_, token) = made(root, "acme", json!({ "name": "shop" })).await;
    me(&stage.gateway, &token).await.with(200);
    stage.deployment.server.freeze();
    let unknown = async || me(&stage.gateway, &token).await.status == 503;
    wait_until("the end of what was read", LONG, unknown).await;
    let refused = me(&stage.gateway, &token).await;
    assert_eq!(
        (&refused.with(503)["code"], &refused.json()["fate"]),
        (&json!("DQ-G117"), &json!("not_applied"))
    );
    assert_eq!(me(&stage.gateway, "root").await.status, 200, "tokens of the file need no Redis");
    stage.deployment.server.thaw();
    wait_until("the token", LONG, async || me(&stage.gateway, &token).await.status == 200).await;
}
