//! Following deliveries: every line appears once, and nothing is consumed.

use super::{delayq, deployment, done, run};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::SHORT;
use delayq_tests::folder::Folder;
use delayq_tests::process::{Signal, Stream};
use std::fs::File;
use std::io::Write as _;

#[tokio::test]
async fn a_file_is_followed_by_whole_lines() {
    let folder = Folder::new("tail");
    let path = folder.join("delivered.ndjson");
    let mut file = File::create(&path).unwrap();
    writeln!(file, "old").unwrap();
    let mut tail = Binary::new("delayq").args(["tail", "--from-start", "--file"]).arg(&path).start();
    tail.wait_for_line("old", SHORT).await;
    write!(file, "first ha").unwrap();
    write!(file, "lf\nsecond\n").unwrap();
    tail.wait_for_line("second", SHORT).await;
    assert_eq!(tail.text(Stream::Out), "old\nfirst half\nsecond\n");
    tail.ends_well_by(Signal::INT, SHORT).await;
}

#[tokio::test]
async fn a_delivery_is_followed_with_its_id_and_times() {
    let folder = Folder::new("tail");
    let path = folder.join("delivered.ndjson");
    let line = r#"{"id":"order-17","topic":"orders","due":1800000000000,"ready":1800000000002,"late_ms":2.041,"attempt":2,"delivery":2,"headers":{},"payload":"{\"n\":1}"}"#;
    std::fs::write(&path, format!("{line}\n")).unwrap();
    for (more, expected) in [
        (&[][..], "2027-01-15T08:00:00.000Z +2.0ms  orders order-17 (attempt 2)  {\"n\":1}\n"),
        (&["-o", "json"], &format!("{line}\n")),
    ] {
        let mut tail =
            Binary::new("delayq").args(["tail", "--from-start", "--file"]).arg(&path).args(more).start();
        tail.wait_for_line("order-17", SHORT).await;
        assert_eq!(tail.text(Stream::Out), expected);
        tail.ends_well_by(Signal::INT, SHORT).await;
    }
}

#[tokio::test]
async fn a_topics_numbers_are_followed_without_taking_a_message() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "0"]).await;
    let mut tail = delayq(&redis).args(["count", "t", "--follow"]).start();
    // The command reads its starting point some time after its start: put until a message appears.
    let mut puts = 1;
    while !tail.text(Stream::Out).contains("accepted") {
        assert!(puts < 1000, "nothing is followed: {}", tail.tail());
        done(&redis, &["put", "t", "{}", "--id", &puts.to_string()]).await;
        puts += 1;
    }
    tail.ends_well_by(Signal::INT, SHORT).await;
    assert!(done(&redis, &["count", "t", "--json"]).await.contains(&format!("\"ready\": {puts},")));
}

#[tokio::test]
async fn a_tail_does_not_pass_numbers_off_as_deliveries() {
    let redis = deployment().await;
    let finished = run(&redis, &["tail", "t"]).await;
    assert_eq!(finished.code, Some(64), "{finished:?}");
    assert!(finished.stderr.contains("--file"), "{}", finished.stderr);
}
