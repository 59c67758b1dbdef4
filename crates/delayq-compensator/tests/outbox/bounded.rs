//! The tables stay small, whatever other transactions of the database do.

use crate::stand::{Stand, ms, put};
use delayq_tests::deadline::{LONG, wait_until};
use tokio_postgres::Client;

/// Dead versions of all tables of the outbox, as they are counted by a vacuum.
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
    // Rows go on meanwhile.
    database.batch_execute(&put(10..20)).await.unwrap();
    stand.is_settled(20).await;
    long.batch_execute("COMMIT").await.unwrap();
    stand.is_settled(21).await;
    stand.is_truncated().await;
    assert_eq!(stand.accepted().await, 21);
    reader.end().await;
}
