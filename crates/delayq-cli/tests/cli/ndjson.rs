//! Many puts from NDJSON: bad lines are named, and stop the rest only on request.

use super::{delayq, deployment, done};
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::Signal;
use std::io::Write as _;

const LINES: &str = r#"{"id":"a","due":"+1h","payload":{"n":1}}
{"id":"b","due":"+1h",
{"id":"c","topic":"other","due":4102444800000}

{"id":"d","due":"yesterday-ish"}
{"id":"\u0000"}
{"id":"a","due":"+2h","payload":{"n":1}}
{"id":"a","due":"+1h","payload":{"n":2}}
{"id":"e","group":"g","payload_base64":"AAH/"}
"#;

#[tokio::test]
async fn bad_lines_are_named_and_the_rest_is_put() {
    let (redis, folder) = (deployment().await, Folder::new("ndjson"));
    let file = folder.join("many.ndjson");
    std::fs::write(&file, LINES).unwrap();
    let path = file.to_str().unwrap();
    let finished = delayq(&redis).args(["put", "t", "--from", path]).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(65), "{finished:?}");
    for (line, fault) in [
        (2, "EOF while parsing"),
        (5, "due: \"yesterday-ish\" is not a time"),
        (6, "control character"),
        (8, "a is taken by another message"),
    ] {
        let named = format!("{path}:{line}: ");
        let told = finished.stderr.lines().find(|told| told.starts_with(&named));
        assert!(
            told.is_some_and(|told| told.contains(fault)),
            "{named}{fault} is not in\n{}",
            finished.stderr
        );
    }
    assert!(finished.stderr.contains("DQ-U006: 4 of 9 lines were refused"), "{}", finished.stderr);
    assert_eq!(finished.stdout, "9 lines: 1 conflict, 1 exists, 1 ready, 2 stored, 3 invalid\n");
    assert!(done(&redis, &["count", "--json"]).await.contains("\"accepted\": 3,"));
}

#[tokio::test]
async fn strict_stops_at_the_first_bad_line() {
    let redis = deployment().await;
    let put = delayq(&redis).args(["put", "t", "--from", "-", "--strict", "--in-flight", "1", "--json"]);
    let finished = put.run(LINES.as_bytes(), SHORT).await;
    assert_eq!(finished.code, Some(65), "{finished:?}");
    assert!(finished.stderr.contains("stopped at standard input line 2"), "{}", finished.stderr);
    let summary: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(summary, serde_json::json!({ "lines": 2, "outcomes": { "stored": 1 }, "refused": 1 }));
    assert!(done(&redis, &["count", "--json"]).await.contains("\"accepted\": 1,"));
}

#[tokio::test]
async fn ten_thousand_lines_from_a_pipe_are_all_stored() {
    let redis = deployment().await;
    let lines: String = (0..10_000).map(|n| format!("{{\"id\":\"order-{n}\",\"due\":\"+1h\"}}\n")).collect();
    let finished = delayq(&redis).args(["put", "t", "--from", "-"]).run(lines.as_bytes(), SHORT).await;
    // On a busy machine an answer may be late, and the repeated put finds the message.
    assert!(finished.code == Some(0) && finished.stdout.starts_with("10000 lines: "), "{finished:?}");
    assert_eq!(finished.stderr, "", "no bar where there is no terminal");
    let again = delayq(&redis).args(["put", "t", "--from", "-"]).run(lines.as_bytes(), SHORT).await;
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "10000 lines: 10000 exists\n"));
    assert!(done(&redis, &["count", "--json"]).await.contains("\"accepted\": 10000,"));
    assert!(done(&redis, &["audit"]).await.contains("balance"));
}

#[tokio::test]
async fn ctrl_c_prints_the_summary_and_the_first_line_that_is_not_put() {
    let (redis, folder) = (deployment().await, Folder::new("ndjson"));
    let pipe = folder.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut put = delayq(&redis).args(["put", "t", "--from", pipe.to_str().unwrap()]).start();
    let mut input = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    writeln!(input, "{{\"id\":\"a\",\"due\":\"+1h\"}}\n{{\"id\":\"b\",\"due\":\"+1h\"}}").unwrap();
    wait_until("both lines stored", SHORT, async || {
        done(&redis, &["count", "--json"]).await.contains("\"accepted\": 2,")
    })
    .await;
    let ended = put.end_by(Signal::INT, SHORT).await;
    assert_eq!(ended.code(), Some(75), "{}", put.tail());
    assert!(put.tail().contains("2 lines: 2 stored"), "{}", put.tail());
    assert!(put.tail().contains("line 3 and all after it were not put"), "{}", put.tail());
}
