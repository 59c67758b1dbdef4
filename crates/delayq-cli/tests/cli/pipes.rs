//! Standard input and output as pipes: payloads from a pipe, and readers that close early.

use super::{delayq, deployment, done};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::SHORT;
use delayq_tests::redis_server::SharedRedis;

async fn piped(redis: &SharedRedis, args: &[&str], payload: &[u8]) {
    let finished = delayq(redis).arg("put").args(args).run(payload, SHORT).await;
    assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
}

#[tokio::test]
async fn a_payload_from_a_pipe_is_not_stored_empty() {
    let redis = deployment().await;
    piped(&redis, &["t", "--id", "none", "--in", "1h"], b"{\"a\":1}\n").await;
    piped(&redis, &["t", "-", "--id", "dash", "--in", "1h"], b"{\"b\":2}").await;
    piped(&redis, &["t", "--payload-file", "-", "--id", "file", "--in", "1h"], b"\x00\xff").await;
    assert_eq!(done(&redis, &["get", "t", "none", "--payload"]).await, "{\"a\":1}\n");
    assert_eq!(done(&redis, &["get", "t", "dash", "--payload"]).await, "{\"b\":2}");
    assert!(done(&redis, &["get", "t", "file", "--json"]).await.contains("\"payload_base64\": \"AP8=\""));
}

#[tokio::test]
async fn a_reader_that_has_gone_ends_every_command_quietly() {
    let redis = deployment().await;
    done(&redis, &["put", "t", "{}", "--id", "a", "--in", "1h"]).await;
    for args in [
        &["completions", "bash"][..],
        &["man"],
        &["help"],
        &["topics"],
        &["list", "t"],
        &["get", "t", "a", "--payload"],
        &["config", "show", "--effective"],
    ] {
        let finished = delayq(&redis).args(args).run_unread(SHORT).await;
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
    let version = Binary::new("delayq").arg("--version").run_unread(SHORT).await;
    assert_eq!((version.code, version.stderr.as_str()), (Some(0), ""));
}
