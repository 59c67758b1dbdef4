//! Operations of tenants: on names of the tenant, one at a time each, and seen by nobody else.

use super::{FAR, Holder, holder, stage};
use crate::stage::{Stage, topic};
use delayq::{Group, Message, UnixMillis};
use delayq_tests::deadline::{LONG, wait_until};
use reqwest::Method;
use serde_json::{Value, json};

const REASON: &str = "ordered twice";

async fn begin(holder: Holder<'_>, filter: &Value) -> String {
    let body = json!({ "action": "cancel", "filter": filter, "reason": REASON });
    holder.post("/v1/operations", body).await.with(202)["id"].as_str().unwrap().to_owned()
}

async fn ended(holder: Holder<'_>, id: &str) -> Value {
    let path = format!("/v1/operations/{id}");
    let is_over = async || !holder.get(&path).await.with(200)["ended_ms"].is_null();
    wait_until("the end of the operation", LONG, is_over).await;
    holder.get(&path).await.with(200)
}

/// Under the same names without the prefix, and one message of somebody else in a group of the tenant.
async fn furnish(stage: &Stage) {
    let message = |of: &str, id: &str| {
        let message = Message::new(topic(of), "x").at(UnixMillis::new(FAR)).id(id).unwrap();
        message.with_group(Group::new("acme/g").unwrap())
    };
    stage.deployment.put([message("vault", "foreign"), message("acme/orders", "a")]).await;
    for owner in ["acme", "globex", "root"] {
        let put = holder(stage, owner).put("/v1/topics/orders/messages/alone", json!({ "due": FAR })).await;
        put.with(201);
    }
}

async fn delayed(stage: &Stage, of: &str) -> u64 {
    stage.deployment.admin.topic(&topic(of)).count().await.unwrap().delayed
}

#[tokio::test]
async fn an_operation_of_a_tenant_acts_on_its_own_messages_and_is_seen_by_nobody_else() {
    let (stage, _folder) = stage().await;
    furnish(&stage).await;
    let (acme, globex, root) = (holder(&stage, "acme"), holder(&stage, "globex"), holder(&stage, "root"));
    // The group has a message of somebody else, which is neither counted nor shown nor touched.
    let by_group = json!({ "group": "g" });
    let dry =
        acme.post("/v1/operations", json!({ "action": "cancel", "filter": by_group, "dry_run": true })).await;
    let counted = dry.with(200);
    assert_eq!(
        (&counted["count"], &counted["sample"][0]["topic"]),
        (&json!(1), &json!("orders")),
        "{counted}"
    );
    assert!(!dry.text.contains("acme") && !dry.text.contains("vault"), "{dry:?}");
    let first = begin(acme, &by_group).await;
    let done = ended(acme, &first).await;
    assert_eq!(
        (&done["done"], &done["tenant"], &done["filter"]["group"]),
        (&json!(1), &json!("acme"), &json!("g"))
    );
    let second = begin(acme, &json!({ "topics": ["orders"] })).await;
    assert_eq!(ended(acme, &second).await["outcomes"], json!({ "cancelled": 1 }));
    for (of, left) in [("acme/orders", 0), ("globex/orders", 1), ("orders", 1), ("vault", 1)] {
        assert_eq!(delayed(&stage, of).await, left, "{of}");
    }

    let listed = acme.get("/v1/operations").await;
    assert_eq!(listed.with(200)["operations"].as_array().unwrap().len(), 2);
    assert!(!listed.text.contains("acme/"), "{listed:?}");
    let of_root = begin(root, &json!({ "topics": ["nothing"] })).await;
    for (other, id) in [(globex, &first), (acme, &of_root)] {
        let path = format!("/v1/operations/{id}");
        for method in [Method::GET, Method::DELETE] {
            assert_eq!(other.send(method, &path, &Value::Null).await.with(404)["code"], "DQ-G127");
        }
    }
    assert_eq!(globex.get("/v1/operations").await.with(200)["operations"], json!([]));
    let seen = root.get(&format!("/v1/operations/{second}")).await.with(200);
    assert_eq!((&seen["filter"]["topics"][0], &seen["tenant"]), (&json!("acme/orders"), &json!("acme")));
}

#[tokio::test]
async fn a_tenant_has_one_operation_at_a_time_and_takes_no_place_of_another() {
    let (stage, _folder) = stage().await;
    let (acme, globex) = (holder(&stage, "acme"), holder(&stage, "globex"));
    let message =
        |n: usize| Message::new(topic("acme/t"), "x").at(UnixMillis::new(FAR)).id(format!("m{n}")).unwrap();
    stage.deployment.put((0..6000).map(message)).await;
    let filter = json!({ "topics": ["t"] });
    let first = begin(acme, &filter).await;
    let body = json!({ "action": "cancel", "filter": filter, "reason": REASON });
    assert_eq!(acme.post("/v1/operations", body).await.with(429)["code"], "DQ-G126");
    for other in [globex, holder(&stage, "root"), holder(&stage, "root")] {
        let id = begin(other, &filter).await;
        assert_eq!(ended(other, &id).await["done"], 0);
    }
    let path = format!("/v1/operations/{first}");
    acme.send(Method::DELETE, &path, &Value::Null).await;
    ended(acme, &first).await;
    assert_eq!(ended(acme, &begin(acme, &filter).await).await["state"], "done");
    assert_eq!(delayed(&stage, "acme/t").await, 0);
}
