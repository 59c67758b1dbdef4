//! `delayq work`: outcomes of messages, and the ends of a run.

use super::Up;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::process::Signal;

#[tokio::test]
async fn up_takes_no_message_from_a_worker_unasked() {
    let up = Up::start(&[]).await;
    for n in 0..10 {
        up.done(&["put", "orders", &format!("order {n}")]).await;
    }
    let worked = up.done(&["work", "orders", "--count", "10"]).await;
    let mut worked: Vec<&str> = worked.lines().collect();
    worked.sort_unstable();
    assert_eq!(worked, (0..10).map(|n| format!("order {n}")).collect::<Vec<_>>());
    assert!(up.done(&["count", "orders", "--json"]).await.contains("\"delivered\": 10"));
    assert!(!up.data().join("forwarded/delivered.ndjson").exists());
    up.stop().await;
}

#[tokio::test]
async fn a_command_gets_the_payload_and_is_tried_again_when_it_fails() {
    let up = Up::start(&[]).await;
    up.done(&["put", "orders", "{\"order\":17}", "--id", "order-17", "--group", "user-5"]).await;
    let script =
        r#"echo "$DELAYQ_TOPIC $DELAYQ_ID $DELAYQ_GROUP $DELAYQ_ATTEMPT: $(cat)"; [ "$DELAYQ_ATTEMPT" = 2 ]"#;
    let finished = up.delayq(&["work", "orders", "-n", "2", "--", "sh", "-c", script]).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let expected =
        [1, 2].map(|attempt| format!("orders order-17 user-5 {attempt}: {{\"order\":17}}\n")).concat();
    assert_eq!(finished.stdout, expected);
    assert!(
        finished.stderr.contains("orders order-17 in group user-5: exit status: 1; attempt 1 is released"),
        "{finished:?}"
    );
    assert!(up.done(&["count", "orders", "--json"]).await.contains("\"delivered\": 1"));
    up.stop().await;
}

#[tokio::test]
async fn a_command_that_fails_at_the_last_attempt_is_said_to_leave_a_dead_letter() {
    let up = Up::start(&[]).await;
    up.done(&["put", "orders", "{}", "--id", "order-17", "--max-attempts", "1"]).await;
    let finished = up.delayq(&["work", "orders", "-n", "1", "--", "false"]).run(b"", SHORT).await;
    let said =
        "orders order-17: exit status: 1; attempt 1 was the last attempt: the message is a dead letter";
    assert!(finished.stderr.contains(said), "{finished:?}");
    assert!(up.done(&["count", "orders", "--json"]).await.contains("\"dead\": 1"));
    up.stop().await;
}

#[tokio::test]
async fn a_command_that_cannot_be_started_leaves_its_message_ready() {
    let up = Up::start(&[]).await;
    up.done(&["put", "orders", "{}"]).await;
    let finished = up.delayq(&["work", "orders", "--", "no-such-command"]).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(69), "{finished:?}");
    assert!(finished.stderr.contains("command not found: no-such-command"), "{}", finished.stderr);
    assert!(up.done(&["count", "orders", "--json"]).await.contains("\"ready\": 1"));
    up.stop().await;
}

#[tokio::test]
async fn a_stopped_worker_finishes_the_command_in_progress_and_takes_no_other() {
    let up = Up::start(&[]).await;
    let go = up.folder.join("go");
    let script = format!("echo begun; until [ -e '{}' ]; do sleep 0.05; done; echo finished", go.display());
    let mut worker = up.delayq(&["work", "orders", "--", "sh", "-c", &script]).start();
    worker.wait_for_line("no topic orders", SHORT).await;
    up.done(&["put", "orders", "one"]).await;
    worker.wait_for_line("begun", SHORT).await;
    up.done(&["put", "orders", "two"]).await;
    worker.signal(Signal::TERM);
    std::fs::write(&go, "").unwrap();
    assert!(worker.wait_end(SHORT).await.success(), "{}", worker.tail());
    assert!(worker.tail().contains("finished"), "{}", worker.tail());
    wait_until("one delivered and one ready", SHORT, async || {
        let count = up.done(&["count", "orders", "--json"]).await;
        count.contains("\"delivered\": 1") && count.contains("\"ready\": 1")
    })
    .await;
    up.stop().await;
}

#[tokio::test]
async fn the_last_words_of_a_failed_command_are_not_lost_with_its_terminal() {
    let up = Up::start(&[]).await;
    up.done(&["put", "orders", "{}", "--id", "order-18", "--max-attempts", "1"]).await;
    let script = "echo 'no such order' >&2; exit 3";
    let finished = up.delayq(&["work", "orders", "-n", "1", "--", "sh", "-c", script]).run(b"", SHORT).await;
    assert!(finished.stderr.contains("no such order\n"), "{finished:?}");
    let dead = |reason| ["dead", "list", "orders", "--reason", reason, "--json"];
    let found = up.done(&dead("no such order")).await;
    assert!(found.contains("exit status: 3\\nno such order"), "{found}");
    assert!(!up.done(&dead("another reason")).await.contains("order-18"));
    up.stop().await;
}

#[tokio::test]
async fn two_signals_at_one_instant_do_not_leave_a_message_leased() {
    let up = Up::start(&[]).await;
    let go = up.folder.join("go");
    let script = format!("echo begun; until [ -e '{}' ]; do sleep 0.05; done; echo finished", go.display());
    let mut worker = up.delayq(&["work", "orders", "--", "sh", "-c", &script]).start();
    up.done(&["put", "orders", "one"]).await;
    worker.wait_for_line("begun", SHORT).await;
    worker.signal(Signal::TERM);
    worker.signal(Signal::INT);
    std::fs::write(&go, "").unwrap();
    assert!(worker.wait_end(SHORT).await.success(), "{}", worker.tail());
    assert!(up.done(&["count", "orders", "--json"]).await.contains("\"delivered\": 1"));
    up.stop().await;
}

#[tokio::test]
async fn a_hard_stop_leaves_no_orphan() {
    let up = Up::start(&[]).await;
    // Both processes hold the pipe, which closes when the command and its own child have ended.
    let pipe = up.folder.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let script = format!("exec 9>'{}'; sleep 1000 & echo begun; wait", pipe.display());
    let mut worker = up.delayq(&["work", "orders", "--", "sh", "-c", &script]).start();
    up.done(&["put", "orders", "one"]).await;
    let closed = tokio::task::spawn_blocking(move || std::fs::read(pipe));
    worker.wait_for_line("begun", SHORT).await;
    let ended = wait_until("the worker has ended", SHORT, async || {
        worker.signal(Signal::TERM);
        closed.is_finished()
    });
    ended.await;
    assert_eq!(worker.wait_end(SHORT).await.code(), Some(130), "{}", worker.tail());
    up.stop().await;
}
