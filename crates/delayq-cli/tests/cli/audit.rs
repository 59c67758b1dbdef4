//! The audit, which finds messages without an entry, and the repair of stuck messages.

use super::{deployment, done, run};
use delayq_tests::redis_server::SharedRedis;
use serde_json::{Value, json};

const DUE: &str = "2100-01-01T00:00:00Z";

/// More than Redis scans in one step.
async fn put_many(redis: &SharedRedis) {
    let lines: String =
        (0..1500).map(|n| format!("{{\"topic\":\"t\",\"payload\":{n},\"due\":\"{DUE}\"}}\n")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    done(redis, &["put", "--from", file.path().to_str().unwrap()]).await;
}

#[tokio::test]
async fn what_got_stuck_is_named_and_mended_only_when_that_is_asked_for() {
    let redis = deployment().await;
    put_many(&redis).await;
    done(&redis, &["put", "t", "{}", "--id", "ready"]).await;
    done(&redis, &["put", "u", "{}", "--id", "cancelled", "--at", DUE]).await;
    done(&redis, &["cancel", "u", "cancelled"]).await;
    // A shift's key contains the group's name.
    let shift = ["reschedule", "--group", "g}:m:1:x", "--all", "--by", "1h", "--token", "snow"];
    done(&redis, &shift).await;
    let clean = done(&redis, &["audit", "--bodies"]).await;
    assert!(clean.starts_with("checked 1502 messages and ") && clean.contains(": no fault"), "{clean}");

    let put = ["put", "u", "{}", "--id", "order-17", "--group", "user-5", "--at", "2101-01-01T00:00:00Z"];
    done(&redis, &put).await;
    let buckets: Vec<String> = redis.command(&["KEYS", "*}:b:*"]).await;
    let last = buckets.into_iter().max_by_key(|key| key.rsplit(':').next().unwrap().to_owned()).unwrap();
    let () = redis.command(&["RENAME", &last, "elsewhere"]).await;
    let audit = run(&redis, &["audit", "--bodies", "--json"]).await;
    assert_eq!(audit.code, Some(70), "{audit:?}");
    assert!(audit.stderr.contains("1 faults; delayq repair shows how to fix them"), "{}", audit.stderr);
    let found: Value = serde_json::from_str(&audit.stdout).unwrap();
    let finding = &found["findings"][0];
    let told = [&finding["kind"], &finding["topic"], &finding["id"], &finding["group"]];
    assert_eq!(told, [&json!("no_place"), &json!("u"), &json!("order-17"), &json!("user-5")], "{found}");
    assert_eq!((found["findings"].as_array().unwrap().len(), &found["looked_at"]), (1, &json!(1503)));
    assert_eq!(run(&redis, &["audit", "--bodies", "t"]).await.code, Some(64));

    for _ in 0..2 {
        let would = done(&redis, &["repair"]).await;
        assert!(
            would.starts_with("SHARD  TOPIC  FOUND     ID        GROUP   INDEX  DELAYQ REPAIR\n"),
            "{would}"
        );
        assert!(would.contains("put it back under its due time"), "{would}");
        assert!(
            would.ends_with("nothing was changed; delayq repair --apply makes these changes\n"),
            "{would}"
        );
    }
    let mended = done(&redis, &["repair", "--apply"]).await;
    assert!(mended.contains("no_place      1\n") && mended.contains(": no fault"), "{mended}");
    assert!(done(&redis, &["list", "u"]).await.contains("order-17"));
    assert!(done(&redis, &["audit"]).await.contains("balance"));
    let again: Value = serde_json::from_str(&done(&redis, &["repair", "--apply", "--json"]).await).unwrap();
    assert_eq!((&again["mended"], &again["recounted"]), (&json!({}), &json!(0)), "{again}");
}
