//! Rows of a topic whose writes no replica confirms rest, and hold up no row of another topic.

use crate::stand::{Stand, ms, topic};
use delayq::Client;
use delayq::admin::{Durability, Policy};
use delayq_tests::deployment::{confirming, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_no_replica_confirms_hold_up_no_other_topic_however_many_runs_they_take() {
    let mut stand = Stand::start_with(|config| config.deadline = ms(60_000)).await;
    stand.deployment.client = Client::new(settings(confirming(&stand.deployment.server.url()), 4));
    let replica = stand.deployment.server.replica().await;
    let policy = Policy { durability: Some(Durability::Replicas(1)), ..Policy::default() };
    stand.deployment.admin.topic(&topic()).change_policy(&policy, &[]).await.unwrap();
    replica.freeze();
    // With a separate confirmation for each row, the rows take longer than a turn may.
    stand
        .database()
        .await
        .batch_execute(
            "INSERT INTO delayq_outbox (verb, topic, id) SELECT verb, 'orders', verb || n FROM generate_series(1, 20) n, \
             (VALUES ('put'), ('cancel')) verbs (verb) ORDER BY n; \
             INSERT INTO delayq_outbox (topic, id) VALUES ('mail', 'behind')",
        )
        .await
        .unwrap();
    let reader = stand.read();
    stand.is_settled(1).await;
    let books = stand.keeper().books().await.unwrap();
    assert_eq!((stand.done().await, books.rejected, books.resting), (1, 0, 40));
    assert_eq!(stand.accepted().await, 20, "each was tried once");

    replica.thaw();
    stand.is_all_settled().await;
    assert_eq!((stand.accepted().await, stand.done().await), (20, 41));
    reader.end().await;
}
