//! The process `delayq-compensator` with an outbox and no spool, and a producer that notifies.

use crate::stand::{Stand, ms, put};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::process::{Process, Signal};
use std::process::Command;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_delayq-compensator");
const COUNT: u64 = 6000;

fn start(stand: &Stand) -> Process {
    let mut command = Command::new(PROGRAM);
    command.env("DELAYQ__REDIS__URL", stand.deployment.server.url()).env("DELAYQ__ADMIN__LISTEN", "");
    command.env("DELAYQ__DEPLOYMENT__SHARDS", stand.deployment.client.shards().get().to_string());
    command.env("DELAYQ__OUTBOX__URL", stand.postgres.url()).env("DELAYQ__OUTBOX__BATCH", "20");
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
async fn a_notice_wakes_a_reader_whose_poll_is_slow() {
    let slow = Duration::from_secs(60);
    let stand = Stand::start_with(|config| {
        config.notify = true;
        config.poll_interval = ms(60_000);
    })
    .await;
    let database = stand.database().await;
    database
        .batch_execute(
            include_str!("../../src/outbox/postgres/notify.sql").replace("{schema}", "public").as_str(),
        )
        .await
        .unwrap();
    let reader = stand.read();
    wait_until("the reader to listen", LONG, async || {
        let listens =
            "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN delayq_outbox' AND state = 'idle'";
        database.query_one(listens, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    let begun = Instant::now();
    for n in 0..5 {
        database.batch_execute(&put(n..n + 1)).await.unwrap();
        stand.is_settled(n + 1).await;
    }
    assert!(begun.elapsed() < slow, "it was polled, not noticed");
    reader.end().await;
}
