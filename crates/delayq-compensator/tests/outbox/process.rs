//! The process `delayq-compensator` with an outbox and no spool.

use crate::stand::{Stand, put};
use delayq_tests::deadline::LONG;
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_delayq-compensator");
const COUNT: u64 = 6000;

fn start(stand: &Stand) -> Process {
    start_with(stand, None)
}

fn start_with(stand: &Stand, spool: Option<&Folder>) -> Process {
    let mut command = Command::new(PROGRAM);
    command.env("DELAYQ__REDIS__URL", stand.deployment.server.url()).env("DELAYQ__ADMIN__LISTEN", "");
    command.env("DELAYQ__DEPLOYMENT__SHARDS", stand.deployment.client.shards().get().to_string());
    command.env("DELAYQ__OUTBOX__URL", stand.postgres.url()).env("DELAYQ__OUTBOX__BATCH", "20");
    if let Some(spool) = spool {
        command.env("DELAYQ__SPOOL__DIR", spool.path());
    }
    Process::spawn("delayq-compensator", command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compensator_that_is_killed_between_redis_and_its_commit_loses_nothing_and_puts_nothing_twice() {
    let stand = Stand::start().await;
    stand.database().await.batch_execute(&put(0..COUNT)).await.unwrap();
    for _ in 0..5 {
        let (before, mut process) = (stand.accepted().await, start(&stand));
        stand.waits_for_more_than(before + 100).await;
        let ended = process.end_by(Signal::KILL, LONG).await;
        assert_eq!(ended.code(), None, "it ended by itself: {}", process.tail());
    }
    let mut process = start(&stand);
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, COUNT);
    let books = stand.keeper().books().await.unwrap();
    assert_eq!((books.rejected, books.resting), (0, 0));
    let ended = process.end_by(Signal::TERM, LONG).await;
    assert_eq!(ended.code(), Some(0), "{}", process.tail());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_spool_does_not_stop_the_outbox() {
    let (stand, spool) = (Stand::start().await, Folder::new("spool"));
    std::fs::write(spool.path().join("spool.db"), "this is no database, ".repeat(1000)).unwrap();
    stand.database().await.batch_execute(&put(0..10)).await.unwrap();
    let mut process = start_with(&stand, Some(&spool));
    process.wait_for_line("cannot open the spool", LONG).await;
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, 10);
    process.ends_well_by(Signal::TERM, LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_without_tables_does_not_stop_the_spool_and_is_read_once_it_has_some() {
    let (stand, spool) = (Stand::start().await, Folder::new("spool"));
    let database = stand.database().await;
    database.batch_execute("ALTER TABLE delayq_outbox_state RENAME TO away").await.unwrap();
    let mut process = start_with(&stand, Some(&spool));
    process.wait_for_line("no outbox", LONG).await;
    database.batch_execute("ALTER TABLE away RENAME TO delayq_outbox_state").await.unwrap();
    database.batch_execute(&put(0..10)).await.unwrap();
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, 10);
    process.ends_well_by(Signal::TERM, LONG).await;
}
