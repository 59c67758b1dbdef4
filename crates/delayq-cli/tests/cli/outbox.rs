//! `delayq outbox`: a row kept aside, and rows as lines.

use super::printed::assert_is_documented;
use super::{delayq, deployment};
use delayq_tests::binary::Finished;
use delayq_tests::deadline::LONG;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::redis_server::SharedRedis;
use serde_json::{Value, json};

async fn ran(redis: &SharedRedis, postgres: &PostgresServer, args: &[&str]) -> Finished {
    let command = delayq(redis).env("DELAYQ__OUTBOX__URL", postgres.url());
    command.arg("outbox").args(args).run(b"", LONG).await
}

async fn printed(redis: &SharedRedis, postgres: &PostgresServer, args: &[&str]) -> String {
    let finished = ran(redis, postgres, args).await;
    assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
    finished.stdout
}

async fn json_of(redis: &SharedRedis, postgres: &PostgresServer, args: &[&str]) -> Value {
    let shown = printed(redis, postgres, &[args, &["-o", "json"]].concat()).await;
    let shown = serde_json::from_str(&shown).unwrap();
    assert_is_documented(&shown, args);
    shown
}

/// An outbox with rows 1 to 3 aside: a rejected put, an invalid write, and a resting cancel.
async fn outbox(redis: &SharedRedis) -> PostgresServer {
    let postgres = PostgresServer::start().await;
    assert_eq!(printed(redis, &postgres, &["init"]).await, "made the tables\n");
    postgres.run(
        "INSERT INTO delayq_outbox_aside (resting, reason, tx, seq, slot, added, verb, topic, id, due, payload, headers, replaces)
         VALUES (false, 'taken', '9', 1, 0, now(), 'put', 'orders', 'order-17', '2100-01-01Z', '{\"n\":1}', '{\"h\":\"v\"}', true),
                (false, 'bad topic', '9', 2, 0, now(), 'put', 'a b', 'm', NULL, '\\x00ff', NULL, false),
                (true, 'shard 2', '9', 3, 0, now(), 'cancel', 'orders', 'order-18', NULL, NULL, NULL, false)",
    );
    postgres
}

#[tokio::test]
async fn one_row_is_shown_with_its_payload_and_rows_are_lines_that_put_reads() {
    let redis = deployment().await;
    let postgres = outbox(&redis).await;
    let shown = printed(&redis, &postgres, &["show", "1"]).await;
    let words: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    for expected in
        [&["state", "rejected"][..], &["reason", "taken"], &["id", "order-17"], &["payload", "{\"n\":1}"]]
    {
        assert!(words.iter().any(|line| line == expected), "{expected:?}: {shown}");
    }
    assert_eq!(printed(&redis, &postgres, &["show", "1", "--payload"]).await, "{\"n\":1}");
    let shown = json_of(&redis, &postgres, &["show", "2"]).await;
    assert!(shown["unreadable"].as_str().unwrap().contains("topic"), "{shown}");
    let resting = json_of(&redis, &postgres, &["show", "3"]).await;
    assert_eq!((&resting["state"], &resting["verb"]), (&json!("resting"), &json!("cancel")));
    assert_eq!(json_of(&redis, &postgres, &["rejected"]).await.as_array().unwrap().len(), 2);
    let missing = ran(&redis, &postgres, &["show", "9"]).await;
    assert!(missing.code != Some(0) && missing.stderr.contains("no row 9"), "{missing:?}");

    let exported = ran(&redis, &postgres, &["export"]).await;
    assert!(
        exported.stderr.contains("row 2: ") && exported.stderr.contains("exported 2 rows"),
        "{exported:?}"
    );
    let lines: Vec<Value> = exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["id"], &lines[0]["due"]), (&json!("order-17"), &json!(4_102_444_800_000_u64)));
    assert_eq!(lines[1], json!({ "cancel": { "topic": "orders", "id": "order-18" } }));
    let some = printed(&redis, &postgres, &["export", "--topic", "orders", "--state", "resting"]).await;
    assert_eq!(some.lines().count(), 1);
    let put = delayq(&redis)
        .args(["put", "--from", "-"])
        .run(exported.stdout.lines().next().unwrap().as_bytes(), LONG);
    let put = put.await;
    assert_eq!(put.code, Some(0), "{put:?}");
}
