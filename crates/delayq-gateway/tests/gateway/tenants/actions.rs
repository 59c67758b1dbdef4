//! The log of who did what.

use super::{FAR, Holder, holder, stage};
use delayq_tests::deadline::{SHORT, wait_until};
use reqwest::Method;
use serde_json::{Value, json};

async fn log(holder: Holder<'_>) -> Vec<Value> {
    holder.get("/v1/actions?limit=500").await.with(200)["actions"].as_array().unwrap().clone()
}

async fn entry(holder: Holder<'_>, action: &str) -> Value {
    let of = |log: Vec<Value>| log.into_iter().find(|entry| entry["action"] == action);
    wait_until(action, SHORT, async || of(log(holder).await).is_some()).await;
    of(log(holder).await).unwrap()
}

#[tokio::test]
async fn an_action_is_logged_with_who_what_how_many_and_the_outcome() {
    let (stage, _folder) = stage().await;
    let (root, acme) = (holder(&stage, "root"), holder(&stage, "acme"));
    for id in ["a", "b", "c"] {
        let message = json!({ "due": FAR, "group": "g", "payload": "hidden" });
        acme.put(&format!("/v1/topics/orders/messages/{id}"), message).await.with(201);
    }
    acme.post("/v1/groups/g/cancel?topic=orders", Value::Null).await.with(200);
    let cancelled = entry(root, "cancelGroup").await;
    assert_eq!((&cancelled["who"], &cancelled["tenant"]), (&json!("acme"), &json!("acme")));
    assert_eq!((&cancelled["of"], &cancelled["filter"]), (&json!({ "group": "g" }), &json!("topic=orders")));
    assert_eq!((&cancelled["messages"], &cancelled["outcome"]), (&json!(3), &json!("done")));

    acme.post("/v1/topics/orders/messages/x/reschedule", json!({ "due": FAR })).await.with(404);
    assert_eq!(entry(root, "rescheduleMessage").await["outcome"], "DQ-G107");
    root.put("/v1/topics/t/policy", json!({ "lease": "7s" })).await.with(200);
    let policy = entry(root, "setPolicy").await;
    assert_eq!((&policy["who"], &policy["with"]), (&json!("root"), &json!({ "lease": "7s" })));
    let body = json!([{ "topic": "orders", "id": "a", "group": "g" }, { "topic": "orders", "id": "x" }]);
    acme.post("/v1/cancel", body).await.with(200);
    let many = entry(root, "cancelMany").await;
    assert_eq!((&many["messages"], &many["with"]), (&json!(1), &json!({ "topics": ["orders"] })));
    acme.put("/v1/topics/now/messages/n", json!({ "payload": "hidden" })).await.with(201);
    let receipt = acme.reserve("now").await[0]["receipt"].clone();
    acme.post("/v1/settle", json!([{ "receipt": receipt, "do": "bury" }])).await.with(200);
    assert_eq!(entry(root, "bury").await["messages"], 1);
    let made = root.post("/v1/tenants/acme/tokens", json!({ "name": "shop" })).await.with(201);
    let token = entry(root, "addToken").await;
    assert_eq!((&token["with"]["id"], &token["with"]["token"]), (&made["id"], &Value::Null));

    let all = format!("{:?}", log(root).await);
    assert!(!all.contains("hidden") && !all.contains(made["token"].as_str().unwrap()), "{all}");
    let own = log(acme).await;
    assert!(own.len() >= 4 && own.iter().all(|entry| entry["tenant"] == "acme"), "{own:?}");
    assert_eq!(log(holder(&stage, "globex")).await, Vec::<Value>::new());
    assert_eq!(holder(&stage, "desk").get("/v1/actions").await.with(403)["code"], "DQ-G122");
}

#[tokio::test]
async fn equal_actions_of_a_second_are_one_entry_and_pages_have_each_entry_once() {
    let (stage, _folder) = stage().await;
    let root = holder(&stage, "root");
    for _ in 0..100 {
        root.send(Method::DELETE, "/v1/topics/t/messages/none", &Value::Null).await.with(404);
    }
    let requests = |log: &[Value]| log.iter().map(|entry| entry["requests"].as_u64().unwrap()).sum::<u64>();
    wait_until("every request", SHORT, async || requests(&log(root).await) == 100).await;
    let all = log(root).await;
    assert!(all.len() < 50, "{} entries", all.len());
    for n in 0..5 {
        root.post(&format!("/v1/topics/t{n}/pause"), Value::Null).await.with(204);
    }
    wait_until("the others", SHORT, async || log(root).await.len() == all.len() + 5).await;
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = root.get(&format!("/v1/actions?limit=2{after}")).await.with(200);
        paged.extend(page["actions"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(paged, log(root).await);
    for odd in ["x", "1", "1-", "-1", "0-0", "+1-1", "99999999999999999999-1"] {
        root.get(&format!("/v1/actions?after={odd}")).await.with(422);
    }
    assert_eq!(root.get("/v1/actions?after=1-1").await.with(200)["actions"], json!([]));
}

#[tokio::test]
async fn a_dry_run_is_logged_as_a_count_and_not_as_the_beginning_of_an_operation() {
    let (stage, _folder) = stage().await;
    let acme = holder(&stage, "acme");
    let order = json!({ "action": "cancel", "filter": { "topics": ["orders"] }, "dry_run": true });
    acme.post("/v1/operations", order).await.with(200);
    let counted = entry(acme, "countOperation").await;
    assert_eq!(counted["with"]["filter"]["topics"], json!(["orders"]));
    assert!(log(acme).await.iter().all(|entry| entry["action"] != "beginOperation"));
}
