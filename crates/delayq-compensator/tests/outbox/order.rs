//! No row is passed over, and writes of one message are carried out in the order of their transactions.

use crate::readers::{OVERLAPPING, write_overlapping};
use crate::stand::Stand;
use delayq::State;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_commits_late_is_not_passed_over_and_holds_up_nobody() {
    let stand = Stand::start().await;
    let (late, other) = (stand.database().await, stand.database().await);
    late.batch_execute("BEGIN; INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'late-1')")
        .await
        .unwrap();
    // A prepared transaction has no session.
    let prepared =
        "BEGIN; INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'prepared'); PREPARE TRANSACTION 'p'";
    other.batch_execute(prepared).await.unwrap();
    let reader = stand.read();
    for n in 0..20 {
        other.batch_execute(&crate::stand::put(n..n + 1)).await.unwrap();
        stand.is_settled(n + 1).await;
    }
    // A transaction with a number, begun before its row was written.
    late.batch_execute("INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'late-2'); COMMIT")
        .await
        .unwrap();
    stand.is_settled(22).await;
    other.batch_execute("COMMIT PREPARED 'p'").await.unwrap();
    stand.is_settled(23).await;
    for id in ["late-1", "late-2", "prepared"] {
        assert!(stand.stored(id, None).await.is_some(), "{id}");
    }
    assert_eq!(stand.accepted().await, 23);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_overlap_at_random_are_all_carried_out() {
    let stand = Stand::start_with(|config| config.batch = 7).await;
    let reader = stand.read();
    write_overlapping(async || {
        let database = stand.database().await;
        async move |statements: String| database.batch_execute(&statements).await.unwrap()
    })
    .await;
    stand.is_settled(OVERLAPPING).await;
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, OVERLAPPING);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_waited_for_another_comes_after_it_whatever_their_numbers() {
    let stand = Stand::start().await;
    let (first, second) = (stand.database().await, stand.database().await);
    first
        .batch_execute("CREATE TABLE orders (id int, paid bool); INSERT INTO orders VALUES (17, false)")
        .await
        .unwrap();
    // The second transaction takes its number first, and its lock last.
    second.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    first
        .batch_execute(
            "BEGIN; UPDATE orders SET paid = false WHERE id = 17;
             INSERT INTO delayq_outbox (topic, id, due) VALUES ('orders', 'order-17', '2100-01-01Z');
             INSERT INTO delayq_outbox (verb, topic, id, due) VALUES ('reschedule', 'orders', 'order-17', '2100-01-02Z');
             COMMIT",
        )
        .await
        .unwrap();
    second
        .batch_execute(
            "UPDATE orders SET paid = true WHERE id = 17;
             INSERT INTO delayq_outbox (verb, topic, id) VALUES ('cancel', 'orders', 'order-17'); COMMIT",
        )
        .await
        .unwrap();
    let reader = stand.read();
    stand.is_settled(3).await;
    let kept = stand.stored("order-17", None).await.unwrap();
    assert_eq!((kept.state, kept.due.get()), (State::Cancelled, 4_102_531_200_000));
    reader.end().await;
}
