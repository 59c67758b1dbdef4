//! Output: tables without colour if there is no terminal, and JSON.

use super::{deployment, done, run};
use serde_json::{Value, json};

const DUE: &str = "2100-01-01T00:00:00Z";
const LATER: &str = "2100-01-01T00:00:01Z";
const LATER_MS: u64 = 4_102_444_801_000;

#[tokio::test]
async fn a_message_is_listed_as_a_table_and_as_json() {
    let redis = deployment().await;
    done(&redis, &["put", "orders", "{\"n\":1}", "--id", "order-1", "--at", DUE]).await;
    done(&redis, &["put", "orders", "{}", "--id", "order-2", "--group", "user-5", "--at", LATER]).await;
    let table = done(&redis, &["list", "orders"]).await;
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["ID", "TOPIC", "GROUP", "STATE", "DUE", "ATTEMPT", "BYTES"]);
    assert_eq!(words[1][..5], ["order-1", "orders", "delayed", "2100-01-01T00:00:00.000Z", "(in"]);
    assert_eq!(words[2][..5], ["order-2", "orders", "user-5", "delayed", "2100-01-01T00:00:01.000Z"]);
    assert_eq!((words[1].last(), words[2].last()), (Some(&"7"), Some(&"2")));
    let listed: Value =
        serde_json::from_str(&done(&redis, &["list", "--group", "user-5", "--json"]).await).unwrap();
    let message = &listed["messages"][0];
    assert_eq!(
        (&message["id"], &message["topic"], &message["group"], &message["state"], &message["due_ms"]),
        (&json!("order-2"), &json!("orders"), &json!("user-5"), &json!("delayed"), &json!(LATER_MS))
    );
    let got: Value =
        serde_json::from_str(&done(&redis, &["get", "orders", "order-1", "--json"]).await).unwrap();
    assert_eq!((&got["payload"], &got["due_at"]), (&json!("{\"n\":1}"), &json!("2100-01-01T00:00:00.000Z")));
}

const SCHEMA: &str = include_str!("../../../../docs/cli.schema.json");

pub(super) fn assert_is_documented(value: &Value, args: &[&str]) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert_has_keys(value, &schema["$defs"]["keys"]["properties"], args);
}

/// Objects below `kept` or `outcomes` have keys of their own.
fn assert_has_keys(value: &Value, keys: &Value, args: &[&str]) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| assert_has_keys(item, keys, args)),
        Value::Object(object) => {
            for (key, value) in object {
                let types = &keys[key]["type"];
                let is = match value {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(number) if number.is_f64() => "number",
                    Value::Number(_) => "integer",
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Object(_) => "object",
                };
                let fits =
                    types == is || types.as_array().is_some_and(|types| types.iter().any(|one| one == is));
                assert!(fits, "{args:?}: {key} is {is}, documented as {types}");
                if !["kept", "outcomes"].contains(&key.as_str()) {
                    assert_has_keys(value, keys, args);
                }
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn every_table_is_json_of_documented_keys_when_it_is_asked_for() {
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
        &["topic", "set", "t", "--history", "1000"],
        &["put", "t", "{}", "--id", "c", "--at", DUE],
        &["log", "t", "a"],
        &["log", "t", "c"],
        &["topic", "show", "t"],
        &["topic", "pause", "t"],
        &["topic", "pause", "t", "--group", "g"],
        &["topic", "show", "t"],
        &["topic", "resume", "t"],
        &["topic", "rate", "t", "100"],
        &["topic", "set", "t", "--lease", "10s"],
        &["dead", "list", "t"],
        &["audit"],
        &["acl", "print"],
        &["shards"],
        &["timers"],
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
        let printed: Value =
            serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{args:?} printed\n{printed}"));
        if args != ["config", "show", "--effective"] {
            assert_is_documented(&printed, args);
        }
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
    let table = done(&redis, &["topics"]).await;
    let head = "TOPIC   DELAYED  READY  LEASED  DEAD  READY FOR  UNHANDLED  DELIVERED  CANCELLED  NEXT DUE ";
    let row = "orders        1      1       0     0";
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with(head)
            && lines[1].starts_with(row)
            && lines[1].contains(" in ")
            && lines[1].ends_with("paused"),
        "{table}"
    );
    done(&redis, &["topic", "resume", "orders"]).await;
    let paused = done(&redis, &["topic", "pause", "orders", "--group", "customer-7"]).await;
    assert_eq!(paused, "orders: paused its group customer-7\n");
    let lines = done(&redis, &["topics"]).await;
    assert!(lines.lines().nth(1).unwrap().ends_with("free, 1 group paused"), "{lines}");
    let shown = done(&redis, &["topic", "show", "orders"]).await;
    assert!(shown.contains("paused group") && shown.contains("customer-7, since "), "{shown}");
    done(&redis, &["put", "orders", "{}", "--id", "d", "--group", "customer-7"]).await;
    let held = done(&redis, &["get", "orders", "d", "--group", "customer-7"]).await;
    assert!(held.contains("ready, held: its group is paused"), "{held}");
    done(&redis, &["topic", "resume", "orders", "--group", "customer-7"]).await;
    let free = done(&redis, &["get", "orders", "d", "--group", "customer-7"]).await;
    assert!(!free.contains("held"), "{free}");
    done(&redis, &["cancel", "orders", "d", "--group", "customer-7"]).await;
    let audit = "TOPIC   ACCEPTED  DELIVERED  CANCELLED  EXPIRED  DEAD  PURGED  REPLACED  PENDING  BOOKS\n\
                 orders         4          0          2        0     0       0         0        2  balance\n";
    assert_eq!(done(&redis, &["audit"]).await, audit);
}

#[tokio::test]
async fn a_put_that_waits_behind_a_leased_message_is_told() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "a", "--throttle", "30s"]).await;
    let put_and_look = r#"exec >&2; d="$0 --redis $1 --shards 4"; $d put t {} --id a --throttle 30s; $d get t a; $d get t a --json; $d log t a"#;
    let program = env!("CARGO_BIN_EXE_delayq");
    let told =
        run(&redis, &["work", "t", "-n", "1", "--", "sh", "-c", put_and_look, program, &redis.url()]).await;
    for said in [
        "a throttled put waits behind it, and takes",
        r#""has_successor": true"#,
        "leased, a put waits behind it",
    ] {
        assert!(told.stderr.contains(said), "{said} is not in {told:?}");
    }
}

#[tokio::test]
async fn what_happened_to_an_id_is_told_while_it_is_remembered() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "a", "--at", DUE]).await;
    assert!(done(&redis, &["log", "t", "a"]).await.contains("due 2100-01-01T00:00:00.000Z"));
    let moved = done(&redis, &["reschedule", "t", "a", "--by", "-1h"]).await;
    assert_eq!(moved, "moved a from 2100-01-01T00:00:00.000Z to 2099-12-31T23:00:00.000Z\n");
    assert_eq!(done(&redis, &["cancel", "t", "a"]).await, "ID  OUTCOME\na   cancelled\n");
    assert!(done(&redis, &["log", "t", "a"]).await.contains("cancelled 20"));
}

#[tokio::test]
async fn a_history_tells_who_did_what_when_and_what_is_missing_from_it() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "before", "--at", DUE]).await;
    let off = done(&redis, &["log", "t", "before"]).await;
    assert!(off.contains("t has no history.") && off.contains("topic set t --history 1000"), "{off}");
    done(&redis, &["topic", "set", "t", "--history", "1000"]).await;
    done(&redis, &["cancel", "t", "before"]).await;
    let cut = done(&redis, &["log", "t", "before"]).await;
    assert!(cut.contains(")  cancelled\n") && cut.contains("Earlier events are gone"), "{cut}");

    done(&redis, &["put", "t", "{}", "--id", "a", "--at", DUE]).await;
    done(&redis, &["reschedule", "t", "a", "--in", "0s"]).await;
    done(&redis, &["work", "t", "-n", "1"]).await;
    let told = done(&redis, &["log", "t", "a"]).await;
    let said = |text: &str| assert!(told.contains(text), "{text} is not in:\n{told}");
    said("put, due 2100-01-01T00:00:00.000Z");
    said("rescheduled from 2100-01-01T00:00:00.000Z to 20");
    said("for attempt 1 by delayq@");
    said("delivered by delayq@");
    assert!(!told.contains("missing"), "{told}");
    let json: Value = serde_json::from_str(&done(&redis, &["log", "t", "a", "-o", "json"]).await).unwrap();
    let words: Vec<_> =
        json["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(words, ["put", "rescheduled", "leased", "delivered"]);
    assert_eq!(json["events"][1]["old_due_at"], json!("2100-01-01T00:00:00.000Z"));
    assert_eq!((&json["history_kept"], &json["history_cut"]), (&json!(1000), &json!(false)));

    // A generated id leaves nothing but its history.
    let put: Value = serde_json::from_str(&done(&redis, &["put", "t", "{}", "-o", "json"]).await).unwrap();
    let id = put["id"].as_str().unwrap();
    done(&redis, &["work", "t", "-n", "1"]).await;
    let told = done(&redis, &["log", "t", id]).await;
    assert!(told.contains("no longer stored") && told.contains("delivered by"), "{told}");
}

#[tokio::test]
async fn an_error_is_json_when_json_is_asked_for() {
    let redis = deployment().await;
    for (exit, code, args) in [
        (66, "DQ-U012", &["get", "t", "a", "-o", "json"][..]),
        (64, "DQ-U001", &["put", "t", "--at", "1.5", "--json"]),
        (64, "DQ-U001", &["no-such-command", "--output=json"]),
    ] {
        let finished = run(&redis, args).await;
        let error: Value = serde_json::from_str(&finished.stderr).unwrap();
        assert_is_documented(&error, args);
        let found = (finished.code, &error["error"]["code"], &error["error"]["exit"]);
        assert_eq!(found, (Some(exit), &json!(code), &json!(exit)), "{finished:?}");
    }
    let folder = delayq_tests::folder::Folder::new("printed");
    let file = folder.join("delayq.toml");
    std::fs::write(&file, "[timer]\nbatch = 501\n").unwrap();
    let check = ["--config", file.to_str().unwrap(), "config", "check", "--json"];
    let finished = run(&redis, &check).await;
    let checked: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(
        (&checked["faults"][0]["key"], &checked["faults"][0]["line"]),
        (&json!("timer.batch"), &json!(2))
    );
    assert_eq!(finished.code, Some(78), "{finished:?}");
}
