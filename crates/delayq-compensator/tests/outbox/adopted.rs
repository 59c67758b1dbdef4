//! Tables from another cluster, whose transactions had other numbers.

use crate::stand::{Stand, ms, put};
use delayq::State;
use delayq_compensator::{Reconcile, Reconciled};
use delayq_service::config::Secret;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::postgres_server::PostgresServer;
use std::time::Duration;
use tokio_postgres::NoTls;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_that_is_adopted_keeps_what_waits_what_is_settled_and_what_was_inserted_since() {
    let mut stand = Stand::start_with(|config| {
        config.keep = ms(3_600_000);
        config.batch = 4;
    })
    .await;
    let database = stand.database().await;
    // Numbers that the new cluster has not reached.
    database
        .batch_execute(
            "DO $$BEGIN FOR n IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END$$",
        )
        .await
        .unwrap();
    database.batch_execute(&put(0..10)).await.unwrap();
    let reader = stand.read();
    stand.is_settled(10).await;
    reader.end().await;
    database.batch_execute(&put(10..13)).await.unwrap();
    let restored = PostgresServer::start().await;
    let (new, driver) = tokio_postgres::connect(&restored.url(), NoTls).await.unwrap();
    tokio::spawn(driver);
    restored.run(stand.postgres.dump());
    // Like producers that are not stopped.
    new.batch_execute(&put(13..15)).await.unwrap();
    new.batch_execute(&format!("BEGIN; SAVEPOINT one; {}; COMMIT", put(15..16))).await.unwrap();

    stand.config.url = Some(Secret::plain(restored.url()));
    let refused = stand.try_read().await.unwrap_err();
    assert!(refused.contains("DQ-K011") && refused.contains("--adopt"), "{refused}");
    let mut keeper = stand.keeper();
    assert!(keeper.init().await.is_err());
    assert_eq!(keeper.adopt().await.unwrap(), 6);
    assert!(!keeper.init().await.unwrap());
    new.batch_execute(&put(16..20)).await.unwrap();
    let reader = stand.read();
    stand.is_settled(20).await;
    assert_eq!((stand.accepted().await, stand.done().await), (20, 20), "what was settled is not repeated");
    let what = Reconcile { since: Duration::from_secs(3600), overdue: Duration::ZERO, dry_run: true };
    let found = keeper.reconcile(&stand.deployment.producer, what, |_, _| {}).await.unwrap();
    assert_eq!(found, Reconciled { rows: 20, known: 20, ..Reconciled::default() });
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_were_inserted_before_the_sequence_was_restored_come_last_and_none_is_lost() {
    let mut stand = Stand::start_with(|config| config.batch = 1).await;
    let database = stand.database().await;
    database.batch_execute("SELECT setval('delayq_outbox_seq', 900)").await.unwrap();
    let due = "('put', 'orders', 'order-17', '2100-01-01Z')";
    database
        .batch_execute(&format!("INSERT INTO delayq_outbox (verb, topic, id, due) VALUES {due}"))
        .await
        .unwrap();
    database.batch_execute(&put(0..20)).await.unwrap();
    let restored = PostgresServer::start().await;
    let (new, driver) = tokio_postgres::connect(&restored.url(), NoTls).await.unwrap();
    tokio::spawn(driver);
    restored.run(stand.postgres.dump());
    // As while the dump is still being restored.
    new.batch_execute("SELECT setval('delayq_outbox_seq', 2)").await.unwrap();
    let cancel = "INSERT INTO delayq_outbox (verb, topic, id) VALUES ('cancel', 'orders', 'order-17')";
    new.batch_execute(cancel).await.unwrap();
    // Numbers in use by waiting rows.
    new.batch_execute("SELECT setval('delayq_outbox_seq', 905)").await.unwrap();
    new.batch_execute(&put(20..30)).await.unwrap();

    stand.config.url = Some(Secret::plain(restored.url()));
    assert_eq!(stand.keeper().adopt().await.unwrap(), 32);
    new.batch_execute(&put(30..40)).await.unwrap();
    // Each reader reads the window again after the other reader's turn.
    let (first, second) = (stand.read(), stand.read());
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, 41);
    assert_eq!(stand.stored("order-17", None).await.unwrap().state, State::Cancelled);
    first.end().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adoption_while_others_commit_loses_nothing() {
    let stand = Stand::start().await;
    let (database, other) = (stand.database().await, stand.database().await);
    database.batch_execute(&put(0..10)).await.unwrap();
    database.batch_execute("UPDATE delayq_outbox_state SET cluster = 'another'").await.unwrap();
    // The adoption has its transaction number by then, and waits for this lock.
    database.batch_execute("BEGIN; LOCK TABLE delayq_outbox_progress IN ACCESS SHARE MODE").await.unwrap();
    let mut keeper = stand.keeper();
    let adopting = tokio::spawn(async move { keeper.adopt().await });
    wait_until("an adoption that waits", LONG, async || {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        other.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    other.batch_execute("SELECT pg_current_xact_id()").await.unwrap();
    database.batch_execute("COMMIT").await.unwrap();
    assert_eq!(adopting.await.unwrap().unwrap(), 10);
    let reader = stand.read();
    stand.is_settled(10).await;
    assert_eq!(stand.accepted().await, 10);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_the_migrations_own_transaction_are_carried_out() {
    let stand = Stand::start().await;
    let (database, other) = (stand.database().await, stand.database().await);
    let migration = stand.keeper().migration();
    database
        .batch_execute(
            "DROP TABLE delayq_outbox, delayq_outbox_aside, delayq_outbox_progress, delayq_outbox_state;
             DROP SEQUENCE delayq_outbox_seq, delayq_outbox_turn; DROP FUNCTION delayq_outbox_current, delayq_outbox_number;
             DROP SEQUENCE delayq_outbox_slot; BEGIN; SELECT pg_current_xact_id()",
        )
        .await
        .unwrap();
    other.batch_execute("SELECT pg_current_xact_id()").await.unwrap();
    database.batch_execute(&format!("{migration}; {}; COMMIT", put(0..10))).await.unwrap();
    let reader = stand.read();
    stand.is_settled(10).await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_whose_database_becomes_another_clusters_carries_out_nothing() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    let reader = stand.read();
    database.batch_execute(&put(0..1)).await.unwrap();
    stand.is_settled(1).await;
    // As behind a pooler, whose connections stay.
    database
        .batch_execute(&format!(
            "BEGIN; UPDATE delayq_outbox_state SET cluster = 'another ' || cluster; {}; COMMIT",
            put(1..2)
        ))
        .await
        .unwrap();
    stand.held().await;
    assert_eq!(stand.accepted().await, 1);
    database
        .batch_execute("UPDATE delayq_outbox_state SET cluster = replace(cluster, 'another ', '')")
        .await
        .unwrap();
    stand.is_settled(2).await;
    reader.end().await;
}
