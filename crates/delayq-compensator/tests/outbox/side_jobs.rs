//! A reader's work besides carrying out rows holds up no row.

use crate::stand::{Stand, ms, put, shadow};
use delayq_service::config::Secret;
use delayq_tests::deadline::{LONG, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_that_hang_or_fail_hold_up_no_row() {
    for body in ["PERFORM pg_sleep(3600)", "RAISE 'no books'"] {
        let stand = Stand::start_with(|config| config.deadline = ms(3000)).await;
        let database = stand.database().await;
        let size = "pg_total_relation_size(regclass) RETURNS bigint";
        database.batch_execute(&shadow(size, body)).await.unwrap();
        let rename = async |from: &str, to: &str| {
            let _: String = stand.deployment.server.command(&["RENAME", from, to]).await;
        };
        let reader = stand.read();
        database.batch_execute(&put(0..10)).await.unwrap();
        stand.is_settled(10).await;
        rename("{dq:2}:meta", "{dq:2}:away").await;
        database.batch_execute(&put(10..50)).await.unwrap();
        wait_until("rows that rest", LONG, async || stand.settled("resting") > 0).await;
        rename("{dq:2}:away", "{dq:2}:meta").await;
        stand.is_settled(50).await;
        assert_eq!((stand.accepted().await, stand.held_turns()), (50, 0), "{body}");
        reader.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_privilege_that_is_missing_for_a_truncation_is_reported_and_costs_no_connection() {
    let mut stand = Stand::start_with(|config| config.rotate_every = ms(1000)).await;
    let database = stand.database().await;
    database
        .batch_execute(
            "CREATE ROLE reader LOGIN; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO reader;
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO reader",
        )
        .await
        .unwrap();
    stand.config.url = Some(Secret::plain(stand.postgres.url().replace("postgres@", "reader@")));
    let reader = stand.read();
    database.batch_execute(&put(0..10)).await.unwrap();
    let says = async || stand.metrics().contains("delayq_outbox_truncation_held 1");
    wait_until("a truncation that is refused", LONG, says).await;
    let number = async |statement: &str| database.query_one(statement, &[]).await.unwrap().get::<_, i64>(0);
    let process = "SELECT max(pid)::bigint FROM pg_stat_activity WHERE usename = 'reader'";
    let rolled_back = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let (of, before) = (number(process).await, number(rolled_back).await);
    wait_until("more tries", LONG, async || number(rolled_back).await > before + 5).await;
    database.batch_execute(&put(10..20)).await.unwrap();
    stand.is_settled(20).await;
    assert_eq!((number(process).await, stand.held_turns()), (of, 0));
    reader.end().await;
}

#[tokio::test]
async fn rows_aside_are_counted_without_reading_them() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    database
        .batch_execute(
            "INSERT INTO delayq_outbox_aside (resting, reason, tx, seq, slot, added, verb, topic, id, payload, replaces)
             SELECT n % 2 = 0, 'why', '3', n, 0, now(), 'put', 'orders', 'm' || n, decode(repeat('ab', 1000), 'hex'), false
             FROM generate_series(1, 10000) n",
        )
        .await
        .unwrap();
    database.batch_execute("VACUUM ANALYZE delayq_outbox_aside").await.unwrap();
    let scans = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'delayq_outbox_aside'";
    let index = "SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'delayq_outbox_aside'";
    let number = async |statement: &str| database.query_one(statement, &[]).await.unwrap().get::<_, i64>(0);
    let (scanned, before) = (number(scans).await, number(index).await);
    let books = stand.keeper().books().await.unwrap();
    assert_eq!((books.rejected, books.resting), (5000, 5000));
    // The keeper's connection has reported its reads by its end.
    wait_until("a read by the index", LONG, async || number(index).await > before).await;
    assert_eq!(number(scans).await, scanned);
}
