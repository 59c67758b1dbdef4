//! Rows that cannot be carried out are kept aside with their reasons, and hold up no other row.

use crate::readers::pages_of_rows_that_rest;
use crate::stand::{Stand, topic};
use delayq::Message;
use delayq_tests::deadline::{LONG, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_can_never_be_carried_out_is_kept_with_its_reason_until_it_is_retried_or_discarded() {
    let stand = Stand::start().await;
    stand.deployment.put([Message::new(topic(), "another").id("taken").unwrap()]).await;
    let database = stand.database().await;
    database
        .batch_execute(
            "INSERT INTO delayq_outbox (topic, id, payload, added) VALUES
               ('orders', 'taken', 'x', now()), ('a b', 'm', 'x', now());
             INSERT INTO delayq_outbox (verb, topic, id, delay_ms) VALUES ('reschedule', 'orders', 'not yet', 1);
             INSERT INTO delayq_outbox (topic, id, payload) VALUES ('orders', 'fine', 'x')",
        )
        .await
        .unwrap();
    let reader = stand.read();
    stand.is_settled(1).await;
    let mut keeper = stand.keeper();
    let aside = keeper.aside(false, 0, 10).await.unwrap();
    let shown: Vec<_> =
        aside.iter().map(|found| (found.row.topic(), found.row.id(), found.reason.as_str())).collect();
    assert_eq!(shown[0], ("orders", "taken", "the id is taken by another message"));
    assert!(shown[1].0 == "a b" && shown[1].2.contains("only ASCII letters"), "{shown:?}");
    assert_eq!(shown[2].2, "no such message");
    let books = keeper.books().await.unwrap();
    assert_eq!((books.rejected, books.resting, books.oldest), (3, 0, None));

    stand.deployment.put([Message::new(topic(), "x").id("not yet").unwrap()]).await;
    let numbers: Vec<u64> = aside.iter().map(|found| found.number).collect();
    assert_eq!(keeper.retry(&[numbers[2], 999], false).await.unwrap(), [numbers[2]]);
    stand.is_settled(2).await;
    assert_eq!(keeper.discard(&numbers).await.unwrap(), numbers[..2]);
    let books = keeper.books().await.unwrap();
    assert_eq!((books.rejected, books.resting, books.oldest), (0, 0, None));
    reader.end().await;
}

#[tokio::test]
async fn what_no_write_can_be_is_refused_where_it_is_inserted() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    for values in [
        "(verb, topic, id) VALUES ('delete', 'orders', 'a')",
        "(topic, id, due, delay_ms) VALUES ('orders', 'a', now(), 1)",
        "(topic, id, delay_ms) VALUES ('orders', 'a', -1)",
        "(verb, topic, id) VALUES ('reschedule', 'orders', 'a')",
        "(verb, topic, id, due) VALUES ('cancel', 'orders', 'a', now())",
        "(verb, topic, id, payload) VALUES ('cancel', 'orders', 'a', 'x')",
        "(topic, id, expected) VALUES ('orders', 'a', now())",
        "(topic) VALUES ('orders')",
    ] {
        let refused = database.batch_execute(&format!("INSERT INTO delayq_outbox {values}")).await;
        assert!(refused.is_err(), "{values}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_behind_one_that_waits_are_rejected_and_counted_once() {
    let mut stand = Stand::start().await;
    let reader = stand.read();
    stand.deployment.server.kill().await;
    let database = stand.database().await;
    database
        .batch_execute("INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'waits'), ('a b', 'never')")
        .await
        .unwrap();
    wait_until("more tries", LONG, async || stand.held_turns() >= 4).await;
    assert_eq!(stand.settled("rejected"), 0);
    stand.deployment.server.resume().await;
    stand.is_all_settled().await;
    stand.is_settled(1).await;
    wait_until("a rejected row", LONG, async || stand.settled("rejected") > 0).await;
    assert_eq!((stand.settled("done"), stand.settled("rejected")), (1, 1));
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_rows_aside_are_bounded_by_their_bytes() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    pages_of_rows_that_rest(&stand, async |range| {
        let rows = format!(
            "INSERT INTO delayq_outbox (topic, id, due, payload) SELECT 'orders', 'm' || n, '2100-01-01Z', \
             convert_to(repeat('x', 200000), 'UTF8') FROM generate_series({}, {}) n",
            range.start,
            range.end - 1
        );
        database.batch_execute(&rows).await.unwrap();
    })
    .await;
}
