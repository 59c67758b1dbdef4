//! Refusals of ids, topics, groups, due times and sizes, each with its message, exit code 64, and nothing stored.

use super::{delayq, deployment, done, keys, run};
use delayq_tests::deadline::SHORT;
use delayq_tests::folder::Folder;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

const PAYLOAD_BYTES: usize = 256 * 1024;

#[tokio::test]
async fn a_refused_put_names_its_fault_and_stores_nothing() {
    let redis = deployment().await;
    let before = keys(&redis).await;
    let long = "x".repeat(129);
    let cases: &[(&[&str], &str)] = &[
        (&["", "{}"], "topic \"\": it is empty"),
        (&["a b", "{}"], "only ASCII letters, digits and '.', '_', '-', '/' are allowed, not ' '"),
        (&["a:b", "{}"], "not ':'"),
        (&["{a}", "{}"], "not '{'"),
        (&["größe", "{}"], "not 'ö'"),
        (&["t\r\n", "{}"], "not '\\r'"),
        (&[&long, "{}"], "it has 129 bytes; at most 128 are allowed"),
        (&["t", "{}", "--id", ""], "id \"\": it is empty"),
        (&["t", "{}", "--id", &long], "it has 129 bytes; at most 128 are allowed"),
        (&["t", "{}", "--id", "a\r\nb"], "the control character '\\r' is not allowed"),
        (&["t", "{}", "--id", "~nonsense"], "a generated id is ~ and a UUID of version 7"),
        (&["t", "{}", "--group", ""], "group \"\": it is empty"),
        (&["t", "{}", "--group", "a\u{7}"], "the control character '\\u{7}' is not allowed"),
        (&["t", "{}", "--at", "0"], "0 ms is not between 1 and 9007199254740991 ms since the epoch"),
        (&["t", "{}", "--at", "-1"], "-1 ms is not between"),
        (&["t", "{}", "--at", "9007199254740992"], "9007199254740992 ms is not between"),
        (&["t", "{}", "--at", "NaN"], "\"NaN\" is not a time: "),
        (&["t", "{}", "--at", "someday"], "\"someday\" is not a time: "),
        (&["t", "{}", "--at", "1960-01-01T00:00:00Z"], "not after 1970-01-01T00:00:00Z"),
        (&["t", "{}", "--in", "30"], "duration with its unit"),
        (&["t", "{}", "--in", "1s", "--at", "+1s"], "cannot be used with"),
        (&["t", "{}", "--at", "+1h", "--header", "no-value"], "must be NAME=VALUE"),
        (&["t", "{}", "--header", "a b=c"], "the header name \"a b\" is not"),
        (
            &["t", "{}", "--at", "2030-01-01T00:00:00Z", "--expires", "2029-01-01T00:00:00Z"],
            "not after the due time",
        ),
        (&["t", "{}", "--expected-content", "12"], "a content hash has 16 hex digits"),
        (&["t", "{}", "--only-content", "--only-later"], "cannot be used with"),
        (&["t", "{}", "--expected", "+1h"], "--expected must be an absolute time"),
        (&["t", "{}", "--max-attempts", "70000"], "70000 is not in 1..=65535"),
        (&["t", "{}", "--nonsense"], "unexpected argument"),
        (&[], "TOPIC or --from FILE is required"),
    ];
    for (args, expected) in cases {
        let finished = run(&redis, &[&["put"], *args].concat()).await;
        assert_eq!(finished.code, Some(64), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(expected), "{args:?}: {}", finished.stderr);
        assert_eq!(finished.stdout, "", "{args:?}");
        assert_eq!(keys(&redis).await, before, "{args:?} stored something");
    }
}

#[tokio::test]
async fn a_time_in_seconds_is_not_delivered_at_once_as_one_of_1970() {
    let redis = deployment().await;
    let meant = "if seconds were meant, write 1800000000000 (2027-01-15T08:00:00.000Z)";
    done(&redis, &["put", "t", "{}", "--id", "a", "--in", "1h"]).await;
    for args in [
        &["put", "t", "{}", "--at", "1800000000"][..],
        &["put", "t", "{}", "--expires", "1800000000"],
        &["reschedule", "t", "a", "--to", "1800000000"],
        &["list", "t", "--from", "1800000000"],
        &["purge", "t", "--until", "1800000000", "--yes"],
    ] {
        let finished = run(&redis, args).await;
        assert_eq!(finished.code, Some(64), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(meant), "{args:?}: {}", finished.stderr);
    }
    let line = b"{\"id\":\"b\",\"due\":1800000000}\n";
    let lines = delayq(&redis).args(["put", "t", "--from", "-"]).run(line, SHORT).await;
    assert!(lines.code == Some(65) && lines.stderr.contains(meant), "{lines:?}");
    let meant = delayq(&redis).args(["put", "t", "--from", "-", "--past-ok"]).run(line, SHORT).await;
    assert_eq!(meant.stdout, "1 line: 1 ready\n", "{meant:?}");
    let past = ["put", "t", "{}", "--id", "c", "--at", "1800000000", "--past-ok"];
    assert!(done(&redis, &past).await.contains("due 1970-01-21T20:00:00.000Z: it is ready"));
}

#[tokio::test]
async fn arguments_that_are_not_utf_8_are_refused() {
    let redis = deployment().await;
    let before = keys(&redis).await;
    for args in [
        [&b"t\xff"[..], b"{}", b"--id", b"a"],
        [b"t", b"{}", b"--id", b"\xff"],
        [b"t", b"\xff", b"--id", b"a"],
    ] {
        let finished = delayq(&redis).arg("put").args(args.map(OsStr::from_bytes)).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(64), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains("invalid UTF-8"), "{}", finished.stderr);
    }
    assert_eq!(keys(&redis).await, before);
}

#[tokio::test]
async fn a_payload_may_be_exactly_as_long_as_the_limit() {
    let (redis, folder) = (deployment().await, Folder::new("payload"));
    let file = folder.join("payload");
    let path = file.to_str().unwrap();
    for (bytes, code) in [(0, 0), (PAYLOAD_BYTES, 0), (PAYLOAD_BYTES + 1, 64)] {
        std::fs::write(&file, vec![b'x'; bytes]).unwrap();
        let id = bytes.to_string();
        let finished = run(&redis, &["put", "t", "--payload-file", path, "--id", &id, "--in", "1h"]).await;
        assert_eq!(finished.code, Some(code), "{bytes}: {finished:?}");
        if code > 0 {
            assert!(finished.stderr.contains("the payload has 262145 bytes; at most 262144 are allowed"));
        } else {
            assert_eq!(done(&redis, &["get", "t", &id, "--payload"]).await.len(), bytes);
        }
    }
    assert!(done(&redis, &["count", "t", "--json"]).await.contains("\"accepted\": 2,"));
}

#[tokio::test]
async fn the_same_id_with_another_body_is_a_conflict() {
    let redis = deployment().await;
    let put = ["put", "t", "one", "--id", "a", "--in", "1h"];
    let stored = run(&redis, &put).await;
    assert!(stored.stdout.starts_with("stored a, due ") && stored.stdout.lines().count() == 1, "{stored:?}");
    assert!(stored.stderr.contains("stays known until 1m after"), "{stored:?}");
    assert!(done(&redis, &put).await.starts_with("a exists: delayed, "));
    let finished = run(&redis, &["put", "t", "two", "--id", "a", "--in", "1h"]).await;
    assert_eq!(finished.code, Some(65));
    assert!(finished.stdout.starts_with("a is taken by another message: delayed, "), "{finished:?}");
    assert_eq!(done(&redis, &["get", "t", "a", "--payload"]).await, "one");
    done(&redis, &["put", "t", "two", "--id", "a", "--in", "1h", "--replace"]).await;
    assert_eq!(done(&redis, &["get", "t", "a", "--payload"]).await, "two");
}

#[tokio::test]
async fn an_edit_changes_the_content_of_the_message_that_was_read_and_of_no_other() {
    let redis = deployment().await;
    let read = async || -> serde_json::Value {
        serde_json::from_str(&done(&redis, &["get", "t", "a", "--json"]).await).unwrap()
    };
    done(&redis, &["put", "t", "one", "--id", "a", "--in", "1h"]).await;
    let old = read().await;
    let (hash, due) = (old["content_hash"].as_str().unwrap(), old["due_ms"].to_string());
    let edit =
        ["put", "t", "two", "--id", "a", "--only-content", "--expected-content", hash, "--expected", &due];
    assert!(done(&redis, &edit).await.contains("still due "));
    let new = read().await;
    assert_eq!((&new["payload"], &new["due_ms"]), (&"two".into(), &old["due_ms"]));
    let late = ["put", "t", "three", "--id", "a", "--only-content", "--expected-content", hash];
    let late = run(&redis, &late).await;
    assert!(late.code == Some(65) && late.stdout.contains("a is not as expected: delayed"), "{late:?}");
    let other = run(&redis, &["put", "t", "x", "--id", "b", "--only-content", "--expected", &due]).await;
    assert!(other.code == Some(65) && other.stdout.contains("b is unknown"), "{other:?}");
    assert_eq!(read().await["payload"], "two");
}

#[tokio::test]
async fn a_put_again_moves_a_pending_message_by_its_rule_and_within_its_bound() {
    let redis = deployment().await;
    let put = async |payload: &str, after: &str, how: &[&str]| {
        let put = ["put", "t", payload, "--id", "a", "--in", after];
        done(&redis, &[&put[..], how].concat()).await
    };
    let payload = async || done(&redis, &["get", "t", "a", "--payload"]).await;
    assert!(put("one", "1h", &["--debounce", "2h"]).await.starts_with("stored a, due "));
    let moved = put("two", "90m", &["--debounce", "2h"]).await;
    assert!(moved.starts_with("a was pending, due ") && moved.contains("; it is now due "), "{moved}");
    assert_eq!(payload().await, "two");
    assert!(put("three", "1h", &["--only-later", "--keep-content"]).await.contains("still due "));
    assert_eq!(payload().await, "two");
    assert!(put("four", "2h", &["--only-sooner"]).await.contains("still due "));
    assert_eq!(payload().await, "four");
    put("five", "9h", &["--debounce", "2h"]).await;
    let late =
        done(&redis, &["put", "t", "six", "--id", "a", "--in", "8h", "--debounce", "2h", "--json"]).await;
    let late: serde_json::Value = serde_json::from_str(&late).unwrap();
    assert_eq!((&late["outcome"], &late["state"]), (&"again".into(), &"delayed".into()));
    assert_eq!(late["due_ms"], late["old_due_ms"], "both are the bound");
    assert!(done(&redis, &["audit"]).await.contains("balance"));
}

#[tokio::test]
async fn a_throttled_put_leaves_the_due_time_and_a_swallowed_one_everything() {
    let redis = deployment().await;
    let put = async |payload: &str, how: &[&str]| run(&redis, &[&["put", "t", payload], how].concat()).await;
    let first = put("one", &["--id", "a", "--in", "1h", "--throttle", "30s"]).await;
    assert!(first.stdout.starts_with("stored a, due "), "{first:?}");
    let second = put("two", &["--id", "a", "--throttle", "30s"]).await;
    assert!(second.code == Some(0) && second.stdout.contains("still due "), "{second:?}");
    let third = put("three", &["--id", "a", "--swallow", "30s"]).await;
    assert!(third.code == Some(0) && third.stdout.starts_with("a exists: delayed, "), "{third:?}");
    assert_eq!(done(&redis, &["get", "t", "a", "--payload"]).await, "two");
    for (how, named) in [
        (&["--throttle", "30s"][..], "a throttle needs an id of your own"),
        (&["--id", "a", "--swallow", "61s"], "a was not stored: its swallow of 61000 ms: "),
        (&["--id", "a", "--throttle", "0s"], "the window of a throttle is 1 ms to "),
        (&["--id", "a", "--throttle", "30s", "--debounce", "1m"], "cannot be used with"),
        (&["--id", "a", "--throttle", "30s", "--swallow", "30s"], "cannot be used with"),
    ] {
        let refused = put("x", how).await;
        assert!(refused.code == Some(64) && refused.stderr.contains(named), "{how:?}: {refused:?}");
    }
    assert_eq!(done(&redis, &["get", "t", "a", "--payload"]).await, "two");
    assert!(done(&redis, &["audit"]).await.contains("balance"));
}

#[tokio::test]
async fn names_that_try_to_forge_keys_are_plain_names() {
    let redis = deployment().await;
    let ids = ["a/b", "{dq:1}:meta", "m:1:a", "~~tilde", "😀", "a:b:c", " "];
    for id in ids {
        done(&redis, &["put", "t", id, "--id", id, "--group", id, "--in", "1h"]).await;
    }
    for id in ids {
        assert_eq!(done(&redis, &["get", "t", id, "--group", id, "--payload"]).await, id);
        done(&redis, &["cancel", "t", id, "--group", id]).await;
    }
    assert!(done(&redis, &["audit"]).await.contains("balance"));
}

#[tokio::test]
async fn what_does_not_exist_is_said_to_be_unknown() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "a", "--group", "g", "--in", "1h"]).await;
    let cases: &[(i32, &[&str], &str)] = &[
        (66, &["get", "t", "b"], "no message b in t"),
        (66, &["log", "t", "a"], "no message a in t"),
        (66, &["cancel", "t", "a"], "no message a in t"),
        (66, &["cancel", "t", "b", "c"], "2 of 2 do not exist"),
        (66, &["reschedule", "t", "a", "--in", "1s"], "no message a in t"),
        (66, &["reschedule", "t", "a", "--by", "1s"], "no message a in t"),
        (66, &["dead", "replay", "t", "a"], "1 of the ids are not dead letters"),
        (64, &["purge", "t"], "confirm with --yes"),
        (64, &["histogram", "t", "--width", "7m"], "must divide an hour"),
        (64, &["spool", "show"], "there is no spool"),
    ];
    for (code, args, expected) in cases {
        let finished = run(&redis, args).await;
        assert_eq!(finished.code, Some(*code), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(expected), "{args:?}: {}", finished.stderr);
    }
    assert!(done(&redis, &["count", "t", "--json"]).await.contains("\"delayed\": 1,"));
}

#[tokio::test]
async fn a_misspelt_topic_is_neither_answered_with_none_nor_created() {
    let redis = deployment().await;
    done(&redis, &["put", "orders", "{}", "--id", "a", "--in", "1h"]).await;
    let before = keys(&redis).await;
    for args in [
        &["list", "order"][..],
        &["count", "order"],
        &["histogram", "order"],
        &["get", "order", "a"],
        &["log", "order", "a"],
        &["cancel", "order", "a"],
        &["cancel", "--all", "--group", "g", "--topic", "order"],
        &["reschedule", "--all", "--group", "g", "--topic", "order", "--by", "1s", "--token", "t"],
        &["reschedule", "order", "a", "--in", "1s"],
        &["purge", "order", "--yes"],
        &["dead", "list", "order"],
        &["dead", "replay", "order", "--all"],
        &["topic", "show", "order"],
        &["topic", "pause", "order"],
        &["topic", "resume", "order"],
        &["topic", "rate", "order", "5"],
        &["topic", "set", "order", "--lease", "1m"],
        &["topic", "train-dictionary", "order"],
    ] {
        let finished = run(&redis, args).await;
        assert_eq!(finished.code, Some(66), "{args:?}: {finished:?}");
        let hint = "no topic order; did you mean orders?";
        assert!(finished.stderr.contains(hint), "{args:?}: {}", finished.stderr);
    }
    assert_eq!(keys(&redis).await, before);
    let unlike = run(&redis, &["list", "zzz"]).await;
    assert!(unlike.stderr.contains("no topic zzz; delayq topics lists all 1"), "{unlike:?}");
}

#[tokio::test]
async fn what_a_newcomer_types_wrong_is_answered_in_words_that_fit() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "a", "--in", "1h"]).await;
    for (args, expected) in [
        (&["put", "t", "x", "--in", "-5s"][..], "a duration cannot be negative"),
        (&["put", "t", "x", "--in", "30"], "expected a duration with its unit, such as"),
        (&["reschedule", "t", "a", "--in", "-5s"], "a duration cannot be negative"),
        (&["put", "t", "x", "--expires", "-1"], "is not between 1 and"),
        // For a topic 0 means no limit; for a message 0 would mean the topic's limit.
        (&["put", "t", "x", "--max-attempts", "0"], "0 is not in 1..=65535"),
    ] {
        let finished = run(&redis, args).await;
        assert_eq!(finished.code, Some(64), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(expected), "{args:?}: {}", finished.stderr);
    }
    let short = delayq(&redis).env("DELAYQ_CONFIG", "/nonexistent").args(["get", "t"]).run(b"", SHORT).await;
    assert!(
        short.stderr.contains("Usage: delayq get ") && !short.stderr.contains("--config"),
        "{}",
        short.stderr
    );
    let line = delayq(&redis).args(["put", "t", "--from", "-"]).run(b"rubbish\n", SHORT).await;
    assert!(line.stderr.contains("standard input:1: not JSON"), "{}", line.stderr);
}

#[tokio::test]
async fn the_doctor_shows_faults_of_half_a_configuration_in_one_line() {
    let (redis, folder) = (deployment().await, Folder::new("half"));
    let file = folder.join("delayq.toml");
    std::fs::write(&file, "[etcd]\nenabled = false\n[[routes]]\ntopic = \"orders\"\n").unwrap();
    let finished = delayq(&redis).arg("--config").arg(&file).arg("doctor").run(b"", SHORT).await;
    assert_eq!(finished.code, Some(69), "{finished:?}");
    assert!(
        finished.stdout.contains(":3: routes[0].sink: a route needs the name of a sink"),
        "{}",
        finished.stdout
    );
    assert!(!finished.stdout.contains("\\u000a"), "{}", finished.stdout);
}
