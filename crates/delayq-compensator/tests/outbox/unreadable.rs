//! A row that cannot be read, or is no write, holds up no other.

use crate::stand::Stand;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_any_content_holds_up_no_other() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    database
        .batch_execute(
            "INSERT INTO delayq_outbox (topic, id, due) VALUES ('orders', 'a', 'infinity'), ('orders', 'a', '-infinity'),
                 ('orders', 'a', '4713-01-01 BC'), ('orders', 'a', '294276-01-01');
             INSERT INTO delayq_outbox (topic, id, delay_ms) VALUES ('orders', 'a', 9223372036854775807);
             INSERT INTO delayq_outbox (topic, id, expires) VALUES ('orders', 'a', '-infinity');
             INSERT INTO delayq_outbox (topic, id) VALUES (repeat('t', 100000), 'a'), ('orders', repeat('i', 100000)),
                 ('orders', ''), ('orders', '~none');
             INSERT INTO delayq_outbox (topic, id, group_id) VALUES ('orders', 'a', repeat('g', 100000));
             INSERT INTO delayq_outbox (topic, id, headers) VALUES ('orders', 'a', '[1]'), ('orders', 'a', '5'),
                 ('orders', 'a', jsonb_build_object('h', repeat('x', 200000)));
             INSERT INTO delayq_outbox (topic, id, headers) VALUES ('orders', 'no headers', 'null');
             INSERT INTO delayq_outbox (topic, id, payload)
                 VALUES ('orders', 'a', convert_to(repeat('x', 2097152), 'UTF8'));
             INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'last')",
        )
        .await
        .unwrap();
    let infinite = "INSERT INTO delayq_outbox (topic, id, added) VALUES ('orders', 'a', '-infinity')";
    assert!(database.batch_execute(infinite).await.is_err(), "it would have no age");
    let large = ["payload: 2097152 bytes; at most 1048576", "headers: 200009 bytes; at most 131072"];
    stand.is_read(&["no headers", "last"], 15, large).await;
}
