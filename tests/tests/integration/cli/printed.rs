//! What is printed: tables without colour where there is no terminal, and JSON.

use serde_json::{Value, json};

use super::{deployment, done};

const DUE: &str = "2100-01-01T00:00:00Z";
const LATER: &str = "2100-01-01T00:00:01Z";
const LATER_MS: u64 = 4_102_444_801_000;

#[tokio::test]
async fn a_message_is_listed_as_a_table_and_as_json() {
    let redis = deployment().await;
    done(&redis, &["put", "orders", "{\"n\":1}", "--id", "order-1", "--at", DUE]).await;
    done(&redis, &["put", "orders", "{}", "--id", "order-2", "--group", "user-5", "--at", LATER]).await;
    let table = "ID       TOPIC   GROUP   STATE    DUE                       ATTEMPT  BYTES\n\
                 order-1  orders          delayed  2100-01-01T00:00:00.000Z        0      7\n\
                 order-2  orders  user-5  delayed  2100-01-01T00:00:01.000Z        0      2\n";
    assert_eq!(done(&redis, &["list", "orders"]).await, table);
    assert_eq!(done(&redis, &["list", "orders", "--limit", "1"]).await.lines().count(), 2);
    let listed: Value =
        serde_json::from_str(&done(&redis, &["list", "--group", "user-5", "--json"]).await).unwrap();
    let message = &listed[0];
    assert_eq!(
        (&message["id"], &message["topic"], &message["group"], &message["state"], &message["due_ms"]),
        (&json!("order-2"), &json!("orders"), &json!("user-5"), &json!("delayed"), &json!(LATER_MS))
    );
    let got: Value =
        serde_json::from_str(&done(&redis, &["get", "orders", "order-1", "--json"]).await).unwrap();
    assert_eq!((&got["payload"], &got["due_at"]), (&json!("{\"n\":1}"), &json!("2100-01-01T00:00:00.000Z")));
}

#[tokio::test]
async fn every_table_is_json_when_it_is_asked_for() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "a", "--at", DUE]).await;
    done(&redis, &["put", "t", "{}", "--id", "b"]).await;
    for args in [
        &["topics"][..],
        &["count"],
        &["count", "t"],
        &["histogram", "t"],
        &["list", "t"],
        &["list", "t", "--state", "ready"],
        &["get", "t", "a"],
        &["log", "t", "a"],
        &["topic", "show", "t"],
        &["topic", "pause", "t"],
        &["topic", "resume", "t"],
        &["topic", "rate", "t", "100"],
        &["topic", "set", "t", "--lease", "10s"],
        &["dead", "list", "t"],
        &["audit"],
        &["shards"],
        &["timers"],
        &["doctor"],
        &["init"],
        &["config", "check"],
        &["config", "show", "--effective"],
        &["put", "t", "{}"],
        &["reschedule", "t", "a", "--by", "1m"],
        &["cancel", "t", "a"],
        &["purge", "t", "--state", "ready", "--yes"],
        &["dead", "purge", "t", "--yes"],
    ] {
        let printed = done(&redis, &[args, &["--json"]].concat()).await;
        assert!(serde_json::from_str::<Value>(&printed).is_ok(), "{args:?} printed\n{printed}");
    }
}

#[tokio::test]
async fn topics_are_counted_and_their_flow_is_told() {
    let redis = deployment().await;
    for (id, at) in [("a", DUE), ("b", DUE), ("c", "now")] {
        done(&redis, &["put", "orders", "{}", "--id", id, "--at", at]).await;
    }
    done(&redis, &["cancel", "orders", "a"]).await;
    done(&redis, &["topic", "pause", "orders"]).await;
    let table = "TOPIC   DELAYED  READY  LEASED  DEAD  DELIVERED  CANCELLED  NEXT DUE                  FLOW\n\
                 orders        1      1       0     0          0          1  2100-01-01T00:00:00.000Z  paused\n";
    assert_eq!(done(&redis, &["topics"]).await, table);
    let audit = "TOPIC   ACCEPTED  DELIVERED  CANCELLED  EXPIRED  DEAD  PURGED  REPLACED  PENDING  BOOKS\n\
                 orders         3          0          1        0     0       0         0        2  balance\n";
    assert_eq!(done(&redis, &["audit"]).await, audit);
}

#[tokio::test]
async fn what_happened_to_an_id_is_told_while_it_is_remembered() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "a", "--at", DUE]).await;
    assert!(
        done(&redis, &["log", "t", "a"]).await.contains("waits for its due time 2100-01-01T00:00:00.000Z")
    );
    let moved = done(&redis, &["reschedule", "t", "a", "--by", "-1h"]).await;
    assert_eq!(moved, "moved a from 2100-01-01T00:00:00.000Z to 2099-12-31T23:00:00.000Z\n");
    assert_eq!(done(&redis, &["cancel", "t", "a"]).await, "ID  OUTCOME\na   cancelled\n");
    assert!(done(&redis, &["log", "t", "a"]).await.contains("cancelled 20"));
}
