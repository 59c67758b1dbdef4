//! Whether every message is in its place.

use delayq_tests::redis_server::RedisServer;
use serde_json::{Value, json};

use super::{deployment, done, run};

const DUE: &str = "2100-01-01T00:00:00Z";

/// More than Redis looks at in one step.
async fn put_many(redis: &RedisServer) {
    let lines: String =
        (0..1500).map(|n| format!("{{\"topic\":\"t\",\"payload\":{n},\"due\":\"{DUE}\"}}\n")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    done(redis, &["put", "--from", file.path().to_str().unwrap()]).await;
}

#[tokio::test]
async fn bodies_that_stand_in_no_place_are_named() {
    let redis = deployment().await;
    put_many(&redis).await;
    done(&redis, &["put", "t", "{}", "--id", "ready"]).await;
    done(&redis, &["put", "u", "{}", "--id", "cancelled", "--at", DUE]).await;
    done(&redis, &["cancel", "u", "cancelled"]).await;
    // What is kept of a shift has the group's name in its key.
    let shift = ["reschedule", "--group", "g}:m:1:x", "--all", "--by", "1h", "--token", "snow"];
    done(&redis, &shift).await;
    assert_eq!(done(&redis, &["audit", "--bodies"]).await, "1502 bodies, all in their places\n");

    done(&redis, &["put", "u", "{}", "--id", "order-17", "--at", "2101-01-01T00:00:00Z"]).await;
    let buckets: Vec<String> = redis.command(&["KEYS", "*}:b:*"]).await;
    let last = buckets.into_iter().max_by_key(|key| key.rsplit(':').next().unwrap().to_owned()).unwrap();
    let () = redis.command(&["RENAME", &last, "elsewhere"]).await;
    let audit = run(&redis, &["audit", "--bodies", "--json"]).await;
    assert_eq!(audit.code, Some(70), "{audit:?}");
    assert!(audit.stderr.contains("1 of 1503 bodies stand in no place"), "{}", audit.stderr);
    let found: Value = serde_json::from_str(&audit.stdout).unwrap();
    let astray = &found["astray"];
    assert_eq!((&astray[0]["topic"], &astray[0]["id"]), (&json!("u"), &json!("order-17")), "{found}");
    assert_eq!((astray.as_array().unwrap().len(), &found["looked_at"]), (1, &json!(1503)));
    let table = run(&redis, &["audit", "--bodies"]).await.stdout;
    assert!(table.starts_with("SHARD  TOPIC  ID\n") && table.contains("  u      order-17\n"), "{table}");
    assert_eq!(run(&redis, &["audit", "--bodies", "t"]).await.code, Some(64));
}
