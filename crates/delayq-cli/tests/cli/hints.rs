//! Hints of `put` and `list` on standard error.

use super::{delayq, deployment, done, run};
use delayq_tests::deadline::SHORT;

#[tokio::test]
async fn a_topic_is_not_created_by_a_typo_without_a_word() {
    let redis = deployment().await;
    let first = run(&redis, &["put", "orders", "{}"]).await;
    assert!(first.stderr.contains("orders is a new topic\n"), "{first:?}");
    let again = run(&redis, &["put", "orders", "{}"]).await;
    assert!(!again.stderr.contains("new topic"), "{again:?}");
    let typo = run(&redis, &["put", "odrers", "{}"]).await;
    assert!(typo.stderr.contains("odrers is a new topic; there is also orders"), "{typo:?}");
}

#[tokio::test]
async fn an_empty_payload_is_not_taken_from_a_terminal() {
    let redis = deployment().await;
    let (shown, code) = delayq(&redis).args(["put", "orders"]).asked("", SHORT).await;
    assert!(code == Some(64) && shown.contains("no payload: write it"), "{code:?}: {shown}");
    assert!(done(&redis, &["put", "orders", ""]).await.starts_with("stored "));
}

#[tokio::test]
async fn a_list_without_delayed_messages_names_those_that_are_ready() {
    let redis = deployment().await;
    done(&redis, &["put", "orders", "{}"]).await;
    let listed = run(&redis, &["list", "orders"]).await;
    assert!(listed.stderr.contains("messages in other states: 1 ready (--state ready)"), "{listed:?}");
    let ready = run(&redis, &["list", "orders", "--state", "ready"]).await;
    assert!(!ready.stderr.contains("other states"), "{ready:?}");
}

#[tokio::test]
async fn a_worker_says_why_it_may_wait_in_vain() {
    let redis = deployment().await;
    done(&redis, &["put", "orders", "{}"]).await;
    done(&redis, &["topic", "pause", "orders"]).await;
    let mut worker = delayq(&redis).args(["work", "orders"]).start();
    worker.wait_for_line("orders is paused. Waiting for: delayq topic resume orders", SHORT).await;
    worker.wait_for_line("no timer has ever owned", SHORT).await;
}
