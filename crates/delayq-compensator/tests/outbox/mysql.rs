//! The outbox in MariaDB: no row is passed over, writes of one message keep their order, and each message is put once.

pub(crate) mod stand;
mod unreadable;

use crate::readers::{OVERLAPPING, pages_of_rows_that_rest, write_overlapping};
use delayq::{Message, State, UnixMillis};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::process::{Process, Signal};
use mysql_async::prelude::Queryable as _;
use stand::{Stand, put};
use std::process::Command;

const DUE_MS: u64 = 2_114_380_800_000;
const DAY_MS: u64 = 86_400_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_is_put_once_with_all_that_it_says_and_a_rollback_leaves_nothing() {
    let stand = Stand::start().await;
    let mut database = stand.database().await;
    database
        .run(
            "BEGIN; INSERT INTO delayq_outbox (topic, id, payload) VALUES ('orders', 'gone', 'x'); ROLLBACK;
             CREATE TABLE orders (id BIGINT) ENGINE = InnoDB; BEGIN; INSERT INTO orders VALUES (17);
             INSERT INTO delayq_outbox (topic, id, group_id, due, payload, headers, expires, max_attempts)
             VALUES ('orders', 'order-17', 'user-5', '2037-01-01 00:00:00.0001', '{\"order\":17}', '{\"h\":\"v\"}',
                     '2037-01-02', 3); COMMIT;
             SET time_zone = '-07:00';
             INSERT INTO delayq_outbox (topic, id, delay_ms) VALUES ('orders', 'later', 3600000)",
        )
        .await;
    let reader = stand.read();
    stand.is_settled(2).await;
    let kept = stand.stored("order-17", Some("user-5")).await.unwrap();
    assert_eq!(kept.due.get(), DUE_MS + 1, "never before the time that was written");
    assert_eq!((kept.payload.as_slice(), kept.max_attempts), (&br#"{"order":17}"#[..], 3));
    assert_eq!(kept.headers, [("h".to_owned(), "v".to_owned())]);
    assert_eq!(kept.expires.map(UnixMillis::get), Some(DUE_MS + DAY_MS));
    let late = stand.stored("later", None).await.unwrap().due.get() - stand.deployment.now().await.get();
    assert!((3_500_000..=3_600_000).contains(&late), "{late}");
    assert!(stand.stored("gone", None).await.is_none());
    assert_eq!(stand.accepted().await, 2);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_commits_late_is_not_passed_over_and_holds_up_nobody() {
    let stand = Stand::start().await;
    let (mut late, mut prepared) = (stand.database().await, stand.database().await);
    let (mut slow, mut other) = (stand.database().await, stand.database().await);
    late.run("BEGIN; INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'late-1')").await;
    prepared
        .run("XA BEGIN 'p'; INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'prepared'); XA END 'p'; XA PREPARE 'p'")
        .await;
    other
        .run("BEGIN; INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'gone'), ('orders', 'gone too'); ROLLBACK")
        .await;
    // A statement that has reserved numbers for rows not yet inserted.
    late.run("DO GET_LOCK('gate', 0)").await;
    let slow = tokio::spawn(async move {
        let rows =
            "SELECT 'orders', IF(n < 3, CONCAT('slow-', n), CONCAT('slow-', n, '-', GET_LOCK('gate', 600)))
                    FROM (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) four";
        slow.run(&format!("INSERT INTO delayq_outbox (topic, id) {rows}")).await;
        slow
    });
    let waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
    let mut waits = stand.database().await;
    while waits.number(waiting).await == 0 {
        tokio::task::yield_now().await;
    }
    let reader = stand.read();
    for n in 0..20 {
        other.run(&put(n..n + 1)).await;
        // Number 7 is reserved and not used yet.
        assert_eq!(other.number("SELECT LAST_INSERT_ID()").await, 8 + n);
        stand.is_settled(n + 1).await;
    }
    late.run("DO RELEASE_LOCK('gate')").await;
    drop(slow.await.unwrap());
    stand.is_settled(24).await;
    late.run("INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'late-2'); COMMIT").await;
    stand.is_settled(26).await;
    prepared.run("XA COMMIT 'p'").await;
    stand.is_settled(27).await;
    for id in ["late-1", "late-2", "prepared", "slow-1", "slow-2", "slow-3-1", "slow-4-1"] {
        assert!(stand.stored(id, None).await.is_some(), "{id}");
    }
    assert_eq!(stand.accepted().await, 27);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_overlap_at_random_are_all_carried_out() {
    let stand = Stand::start_with(|config| config.batch = 7).await;
    let reader = stand.read();
    write_overlapping(async || {
        let mut database = stand.database().await;
        async move |statements: String| database.run(&statements).await
    })
    .await;
    stand.is_settled(OVERLAPPING).await;
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, OVERLAPPING);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_waited_for_another_comes_after_it() {
    let stand = Stand::start().await;
    let (mut first, mut second) = (stand.database().await, stand.database().await);
    first
        .run("CREATE TABLE orders (id INT, paid BOOLEAN) ENGINE = InnoDB; INSERT INTO orders VALUES (17, FALSE)")
        .await;
    // The second transaction begins first, with a row of its own, and waits for the first one's lock.
    second.run("BEGIN; INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'other')").await;
    first
        .run(
            "BEGIN; UPDATE orders SET paid = FALSE WHERE id = 17;
             INSERT INTO delayq_outbox (topic, id, due) VALUES ('orders', 'order-17', '2037-01-01');
             INSERT INTO delayq_outbox (verb, topic, id, due, expected)
             VALUES ('reschedule', 'orders', 'order-17', '2037-01-02', '2037-01-01');
             COMMIT",
        )
        .await;
    second
        .run(
            "UPDATE orders SET paid = TRUE WHERE id = 17;
             INSERT INTO delayq_outbox (verb, topic, id) VALUES ('cancel', 'orders', 'order-17'); COMMIT",
        )
        .await;
    let reader = stand.read();
    stand.is_settled(4).await;
    let kept = stand.stored("order-17", None).await.unwrap();
    assert_eq!((kept.state, kept.due.get()), (State::Cancelled, DUE_MS + DAY_MS));
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_killed_in_the_middle_loses_nothing_and_nothing_is_put_twice() {
    let mut stand = Stand::start_with(|config| config.batch = 50).await;
    let reader = stand.read();
    for round in 0..3_u64 {
        let mut database = stand.database().await;
        for n in 0..40 {
            let from = round * 4000 + n * 100;
            database.run(&put(from..from + 100)).await;
        }
        stand.waits_for_more_than(stand.accepted().await + 100).await;
        stand.mariadb.kill().await;
        stand.mariadb.resume().await;
    }
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, 12_000);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compensator_that_is_killed_between_redis_and_its_commit_loses_nothing_and_puts_nothing_twice() {
    const COUNT: u64 = 6000;
    let stand = Stand::start().await;
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-compensator"));
        command.env("DELAYQ__REDIS__URL", stand.deployment.server.url()).env("DELAYQ__ADMIN__LISTEN", "");
        command.env("DELAYQ__DEPLOYMENT__SHARDS", stand.deployment.client.shards().get().to_string());
        command.env("DELAYQ__OUTBOX__URL", stand.mariadb.url()).env("DELAYQ__OUTBOX__BATCH", "20");
        Process::spawn("delayq-compensator", command)
    };
    stand.database().await.run(&put(0..COUNT)).await;
    for _ in 0..5 {
        let (before, mut process) = (stand.accepted().await, start());
        stand.waits_for_more_than(before + 100).await;
        let ended = process.end_by(Signal::KILL, LONG).await;
        assert_eq!(ended.code(), None, "it ended by itself: {}", process.tail());
    }
    let mut process = start();
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, COUNT);
    let ended = process.end_by(Signal::TERM, LONG).await;
    assert_eq!(ended.code(), Some(0), "{}", process.tail());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_readers_one_works_at_a_time_and_the_other_takes_over() {
    let stand = Stand::start_with(|config| config.batch = 20).await;
    let (first, second) = (stand.read(), stand.read());
    stand.database().await.run(&put(0..2000)).await;
    stand.waits_for_more_than(200).await;
    first.abort().await;
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, 2000);
    // Each row was carried out once: the second reader would count a row done by both a second time.
    let done = stand.done().await;
    assert!((2000 - 20..=2020).contains(&done), "{done}");
    second.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_can_never_be_carried_out_is_kept_with_its_reason_until_it_is_retried_or_discarded() {
    let stand = Stand::start().await;
    stand.deployment.put([Message::new(crate::readers::topic(), "another").id("taken").unwrap()]).await;
    let mut database = stand.database().await;
    database
        .run(
            "INSERT INTO delayq_outbox (topic, id, payload, added) VALUES
               ('orders', 'taken', 'x', NOW(6)), ('a b', 'm', 'x', NOW(6)),
               ('orders', 'fine', 'x', NOW(6));
             INSERT INTO delayq_outbox (verb, topic, id, delay_ms) VALUES ('reschedule', 'orders', 'not yet', 1);
             SET sql_mode = ''; INSERT INTO delayq_outbox (topic, id, due) VALUES ('orders', 'no time', '2100-01-01')",
        )
        .await;
    let reader = stand.read();
    stand.is_settled(1).await;
    stand.is_all_settled().await;
    let mut keeper = stand.keeper();
    let aside = keeper.aside(false, 0, 10).await.unwrap();
    let shown: Vec<_> =
        aside.iter().map(|found| (found.row.topic(), found.row.id(), found.reason.as_str())).collect();
    assert_eq!(shown[0], ("orders", "taken", "the id is taken by another message"));
    assert!(shown[1].0 == "a b" && shown[1].2.contains("only ASCII letters"), "{shown:?}");
    assert_eq!(shown[2].2, "no such message");
    assert_eq!(shown[3], ("orders", "no time", "due: it is before 1970"));
    let books = keeper.books().await.unwrap();
    assert_eq!((books.rejected, books.resting, books.oldest), (4, 0, None));

    stand.deployment.put([Message::new(crate::readers::topic(), "x").id("not yet").unwrap()]).await;
    let numbers: Vec<u64> = aside.iter().map(|found| found.number).collect();
    assert_eq!(keeper.retry(&[numbers[2], 999], false).await.unwrap(), [numbers[2]]);
    stand.is_settled(2).await;
    assert_eq!(keeper.discard(&numbers).await.unwrap(), [numbers[0], numbers[1], numbers[3]]);
    let books = keeper.books().await.unwrap();
    assert_eq!((books.rejected, books.resting, books.oldest), (0, 0, None));
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_write_can_be_is_refused_where_it_is_inserted_and_tables_that_are_missing_are_named() {
    let stand = Stand::start().await;
    let mut database = stand.database().await;
    for values in [
        "(verb, topic, id) VALUES ('delete', 'orders', 'a')",
        "(topic, id, due, delay_ms) VALUES ('orders', 'a', NOW(6), 1)",
        "(topic, id, delay_ms) VALUES ('orders', 'a', -1)",
        "(verb, topic, id) VALUES ('reschedule', 'orders', 'a')",
        "(verb, topic, id, due) VALUES ('cancel', 'orders', 'a', NOW(6))",
        "(verb, topic, id, payload) VALUES ('cancel', 'orders', 'a', 'x')",
        "(topic, id, expected) VALUES ('orders', 'a', NOW(6))",
        "(topic, id, headers) VALUES ('orders', 'a', 'no JSON')",
        "(topic, id, due) VALUES ('orders', 'a', '2100-01-01')",
        "(topic) VALUES ('orders')",
    ] {
        let refused = database.0.query_drop(format!("INSERT INTO delayq_outbox {values}")).await;
        assert!(refused.is_err(), "{values}");
    }
    database.run("DELETE FROM delayq_outbox_state; DROP TABLE delayq_outbox_aside").await;
    assert!(stand.keeper().init().await.unwrap());
    assert!(!stand.keeper().init().await.unwrap());
    assert_eq!(stand.keeper().adopt().await.unwrap(), 0);
    database.run("DROP TABLE delayq_outbox_state").await;
    let refused = stand.try_read().await.unwrap_err();
    assert!(refused.contains("DQ-K011") && refused.contains("delayq outbox init"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_rows_are_put_once_under_a_read_view_that_is_held() {
    let stand = Stand::start().await;
    let mut held = stand.database().await;
    held.run(
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT",
    )
    .await;
    let reader = stand.read();
    let writers = (0..4_u64).map(async |writer| {
        let mut database = stand.database().await;
        for n in 0..50 {
            let from = writer * 5000 + n * 100;
            database.run(&put(from..from + 100)).await;
        }
    });
    let [a, b, c, d] = writers.collect::<Vec<_>>().try_into().ok().unwrap();
    tokio::join!(a, b, c, d);
    stand.is_settled(20_000).await;
    stand.is_all_settled().await;
    assert_eq!((stand.accepted().await, stand.done().await), (20_000, 20_000));
    assert_eq!(held.number("SELECT COUNT(*) FROM delayq_outbox").await, 0);
    wait_until("an empty table", LONG, async || {
        stand.database().await.number("SELECT COUNT(*) FROM delayq_outbox").await == 0
    })
    .await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_rows_aside_are_bounded_by_their_bytes() {
    let stand = Stand::start().await;
    let mut database = stand.database().await;
    pages_of_rows_that_rest(&stand, async |numbers| {
        for n in numbers {
            let row = format!("('orders', 'm{n}', '2037-01-01', REPEAT('x', 200000))");
            database.run(&format!("INSERT INTO delayq_outbox (topic, id, due, payload) VALUES {row}")).await;
        }
    })
    .await;
}
