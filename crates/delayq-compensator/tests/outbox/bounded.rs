//! The tables stay small, whatever other transactions of the database do.

use crate::stand::{Stand, ms, put, shadow};
use delayq_tests::deadline::{LONG, wait_for, wait_until};
use std::time::Duration;
use tokio_postgres::Client;

async fn dead_rows(database: &Client) -> i64 {
    database
        .batch_execute("VACUUM delayq_outbox, delayq_outbox_progress, delayq_outbox_state")
        .await
        .unwrap();
    let sum = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'delayq_outbox%'";
    database.query_one(sum, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_is_held_leaves_no_dead_rows_and_tables_are_truncated_all_the_same() {
    let stand = Stand::start_with(|config| config.rotate_every = ms(1000)).await;
    let (held, database) = (stand.database().await, stand.database().await);
    held.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await.unwrap();
    let reader = stand.read();
    let mut truncated = 0;
    let mut last = 0_i64;
    for n in 0.. {
        database.batch_execute(&put(n * 50..n * 50 + 50)).await.unwrap();
        let size = "SELECT pg_relation_size('delayq_outbox_0') + pg_relation_size('delayq_outbox_1')";
        let size: i64 = database.query_one(size, &[]).await.unwrap().get(0);
        truncated += u32::from(size < last);
        last = size;
        stand.is_settled(n * 50 + 50).await;
        if truncated == 2 {
            break;
        }
    }
    assert_eq!(dead_rows(&database).await, 0);
    held.batch_execute("COMMIT").await.unwrap();
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_wrote_to_a_table_keeps_it_from_being_truncated_and_is_named() {
    let stand = Stand::start_with(|config| config.rotate_every = ms(1000)).await;
    let (long, database) = (stand.database().await, stand.database().await);
    long.batch_execute("SET application_name = 'import'; BEGIN; INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'long')")
        .await
        .unwrap();
    database.batch_execute(&put(0..10)).await.unwrap();
    let reader = stand.read();
    let says = async || stand.metrics().contains("delayq_outbox_truncation_held 1");
    wait_until("a truncation that is held", LONG, says).await;
    database.batch_execute(&put(10..20)).await.unwrap();
    stand.is_settled(20).await;
    long.batch_execute("COMMIT").await.unwrap();
    stand.is_settled(21).await;
    stand.is_truncated().await;
    assert_eq!(stand.accepted().await, 21);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_hears_of_a_transaction_that_lasts_and_not_of_a_turn() {
    let stand = Stand::start().await;
    let (turn, lasting) = (stand.database().await, stand.database().await);
    turn.batch_execute(&put(0..10)).await.unwrap();
    turn.batch_execute("SELECT setval('delayq_outbox_slot', 1)").await.unwrap();
    turn.batch_execute("BEGIN; SELECT count(*) FROM delayq_outbox").await.unwrap();
    assert_eq!(stand.keeper().books().await.unwrap().held, None);
    lasting
        .batch_execute("BEGIN; INSERT INTO delayq_outbox_0 (topic, id, slot) VALUES ('orders', 'p', 0); PREPARE TRANSACTION 'p'")
        .await
        .unwrap();
    assert_eq!(stand.keeper().books().await.unwrap().held.as_deref(), Some("a prepared transaction"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_of_a_turn_is_compiled() {
    let settings = [("shared_preload_libraries", "pg_stat_statements")];
    let stand = Stand::start_on(&settings, |_| {}).await;
    let database = stand.database().await;
    database.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    database.batch_execute(&put(0..100)).await.unwrap();
    let reader = stand.read();
    stand.is_settled(100).await;
    let compiled = "SELECT count(*), coalesce(sum(jit_functions), 0)::bigint FROM pg_stat_statements \
                    WHERE query LIKE '%delayq_outbox%'";
    let found = database.query_one(compiled, &[]).await.unwrap();
    assert!(found.get::<_, i64>(0) > 3, "its statements are counted");
    assert_eq!(found.get::<_, i64>(1), 0);
    reader.end().await;
}

#[tokio::test]
async fn the_oldest_row_of_a_window_is_found_without_reading_what_is_settled_of_it() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    database.batch_execute(&put(0..20_000)).await.unwrap();
    database
        .batch_execute(
            "INSERT INTO delayq_outbox_progress (before, until, seq, added) \
             SELECT before, pg_current_snapshot(), 19990, now() - interval '1 hour' FROM delayq_outbox_progress; \
             ANALYZE",
        )
        .await
        .unwrap();
    // A session reports its reads up to a second late, and must not do so after the reset.
    database.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    database.batch_execute("SELECT pg_stat_reset()").await.unwrap();
    let books = stand.keeper().books().await.unwrap();
    assert!(books.oldest.is_some_and(|age| age >= Duration::from_secs(3600)), "{books:?}");
    // The keeper's connection has reported its reads by its end.
    let read = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint, sum(seq_scan + idx_scan)::bigint \
                FROM pg_stat_user_tables WHERE relname LIKE 'delayq_outbox%'";
    let found = wait_for("what was read", LONG, async || {
        let found = database.query_one(read, &[]).await.unwrap();
        (found.get::<_, i64>(1) > 0).then(|| found.get::<_, i64>(0))
    })
    .await;
    assert!(found < 100, "{found} rows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_does_not_answer_is_reported_and_asked_again_over_few_connections() {
    let stand = Stand::start_with(|config| config.deadline = ms(1000)).await;
    let (locking, database) = (stand.database().await, stand.database().await);
    database.batch_execute(&put(0..5)).await.unwrap();
    locking.batch_execute("BEGIN; LOCK TABLE delayq_outbox IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let why = stand.keeper().books().await.unwrap_err().to_string();
    assert!(why.contains("no reply within 1s"), "{why}");
    let reader = stand.read();
    wait_until("four tries", LONG, async || stand.held_turns() >= 4).await;
    wait_until("the end of former tries", LONG, async || {
        let of = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'delayq'";
        database.query_one(of, &[]).await.unwrap().get::<_, i64>(0) <= 1
    })
    .await;
    locking.batch_execute("COMMIT").await.unwrap();
    stand.is_settled(5).await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_that_is_read_for_long_is_reported_and_given_up_at_a_shutdown() {
    let stand = Stand::start_with(|config| config.deadline = ms(1000)).await;
    let database = stand.database().await;
    database.batch_execute(&put(0..5)).await.unwrap();
    let length = "octet_length(bytea) RETURNS integer";
    database.batch_execute(&shadow(length, "PERFORM pg_sleep(3600)")).await.unwrap();
    let reader = stand.read();
    stand.is_unready("took longer than 1s").await;
    reader.end().await;
    wait_until("the end of the statement", LONG, async || {
        let of =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'delayq' AND state = 'active'";
        database.query_one(of, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
}
