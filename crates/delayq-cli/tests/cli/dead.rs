//! Groups, purges and dead letters in an operator's hands.

use super::{deployment, done, run};

const DUE: &str = "2100-01-01T00:00:00Z";

#[tokio::test]
async fn a_group_is_moved_once_a_token_and_cancelled_as_a_whole() {
    let redis = deployment().await;
    for n in 0..3 {
        done(&redis, &["put", "t", "{}", "--id", &n.to_string(), "--group", "g", "--at", DUE]).await;
    }
    let shift = ["reschedule", "--group", "g", "--all", "--by", "1h", "--token", "snow"];
    assert_eq!(done(&redis, &shift).await, "moved 3 of group g; 0 unchanged\n");
    done(&redis, &shift).await;
    assert!(done(&redis, &["get", "t", "0", "--group", "g"]).await.contains("2100-01-01T01:00:00.000Z"));
    assert!(done(&redis, &["cancel", "--group", "g", "--all"]).await.starts_with("cancelled 3 of group g"));
    assert_eq!(done(&redis, &["list", "--group", "g"]).await, "none\n");
    assert_eq!(run(&redis, &["reschedule", "--group", "g", "--all", "--by", "1h"]).await.code, Some(64));
}

#[tokio::test]
async fn a_purge_takes_what_is_in_its_range_alone() {
    let redis = deployment().await;
    for (id, at) in [("a", DUE), ("b", "2100-01-02T00:00:00Z")] {
        done(&redis, &["put", "t", "{}", "--id", id, "--at", at]).await;
    }
    let purge = ["purge", "t", "--until", "2100-01-01T12:00:00Z", "--yes"];
    assert_eq!(done(&redis, &purge).await, "purged 1 message of t\n");
    assert!(done(&redis, &["list", "t"]).await.contains("b "));
    assert!(done(&redis, &["audit"]).await.contains("balance"));
}

#[tokio::test]
async fn a_pending_message_is_buried_with_its_reason_and_no_other() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "a", "--at", DUE, "--group", "g"]).await;
    let bury = |id: &'static str| ["bury", "t", id, "--group", "g", "--reason", "the card is blocked"];
    assert!(done(&redis, &bury("a")).await.contains("made a dead letter"));
    assert!(done(&redis, &["dead", "list", "t"]).await.contains("the card is blocked"));
    let again = run(&redis, &bury("a")).await;
    assert!(again.stdout.contains("not pending: it is dead") && again.code != Some(0), "{again:?}");
    let unknown = run(&redis, &bury("b")).await;
    assert!(unknown.stderr.contains("b") && unknown.code != Some(0), "{unknown:?}");
    assert_eq!(run(&redis, &["bury", "t", "a"]).await.code, Some(64), "a reason is needed");
    assert!(done(&redis, &["audit"]).await.contains("balance"));
}

#[tokio::test]
async fn a_message_a_range_and_a_group_are_promoted() {
    let redis = deployment().await;
    for (id, at) in [("a", DUE), ("b", "2100-01-02T00:00:00Z"), ("c", "2100-01-03T00:00:00Z")] {
        done(&redis, &["put", "t", "{}", "--id", id, "--at", at]).await;
        done(&redis, &["put", "t", "{}", "--id", id, "--at", at, "--group", "g"]).await;
    }
    let of_group = ["promote", "t", "--group", "g", "--until", "2100-01-02T00:00:00Z", "--yes"];
    assert_eq!(done(&redis, &of_group).await, "promoted 2 messages of group g in topic t\n");
    let range = ["promote", "t", "--until", "2100-01-01T12:00:00Z", "--yes", "--json"];
    let json: serde_json::Value = serde_json::from_str(&done(&redis, &range).await).unwrap();
    assert_eq!(json, serde_json::json!({ "topic": "t", "promoted": 1, "kept": 0 }));
    assert!(done(&redis, &["promote", "t", "c"]).await.ends_with(": it is ready\n"));
    let count = done(&redis, &["count", "t", "--json"]).await;
    assert!(count.contains("\"delayed\": 2,") && count.contains("\"ready\": 4,"), "{count}");
    assert!(done(&redis, &["audit"]).await.contains("balance"));
    let unknown = run(&redis, &["promote", "orders", "--yes"]).await;
    assert!(unknown.stderr.contains("orders"), "{unknown:?}");
    assert_eq!(run(&redis, &["promote", "--yes"]).await.code, Some(64), "a topic or a group is needed");
}

#[tokio::test]
async fn a_worker_promotes_the_earliest_due_and_no_more_than_it_processes() {
    let redis = deployment().await;
    for (id, at) in [("b", "2100-01-02T00:00:00Z"), ("a", DUE), ("c", "2100-01-03T00:00:00Z")] {
        done(&redis, &["put", "t", id, "--id", id, "--at", at]).await;
    }
    let work = ["work", "t", "--promote-until", "2100-01-02T00:00:00Z", "--count", "2"];
    assert_eq!(done(&redis, &work).await, "a\nb\n");
    let count = done(&redis, &["count", "t", "--json"]).await;
    assert!(count.contains("\"delayed\": 1,") && count.contains("\"ready\": 0,"), "{count}");
    let odd = run(&redis, &["work", "t", "--promote-until", "tonight"]).await;
    assert!(odd.code == Some(64) && odd.stderr.contains("--promote-until"), "{odd:?}");
}
