//! A pooler in between, which lends a connection for one transaction only.

use crate::stand::{Stand, ms, put};
use delayq_service::config::Secret;
use delayq_tests::pgbouncer::PgBouncer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_work_through_a_pooler_of_transactions_and_while_the_database_behind_it_is_killed() {
    let mut stand = Stand::start_with(|config| {
        config.batch = 20;
        config.rotate_every = ms(1000);
    })
    .await;
    let pooler = PgBouncer::start(&stand.postgres).await;
    stand.config.url = Some(Secret::plain(pooler.url()));
    let (first, second) = (stand.read(), stand.read());
    let mut rows = 0;
    for _ in 0..2 {
        let database = stand.database().await;
        for _ in 0..20 {
            database.batch_execute(&put(rows..rows + 50)).await.unwrap();
            rows += 50;
        }
        stand.waits_for_more_than(rows - 900).await;
        stand.postgres.kill().await;
        stand.postgres.resume().await;
    }
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, rows);
    stand.is_truncated().await;
    first.end().await;
    second.end().await;
}
