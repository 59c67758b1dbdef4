//! An unreadable or invalid row holds up no other row.

use crate::stand::{Stand, shadow};
use delayq_tests::deadline::{LONG, wait_until};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_the_database_cannot_hand_over_is_set_aside_and_blocks_no_other() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    let insert = "INSERT INTO delayq_outbox (topic, id, due) SELECT 'orders', 'm' || n, '2100-01-01Z' FROM generate_series(1, 200) n";
    database.batch_execute(insert).await.unwrap();
    let damaged = "IF $1 = 'm77' THEN RAISE EXCEPTION 'invalid page in block 7'; END IF; RETURN pg_catalog.left($1, $2)";
    database.batch_execute(&shadow("left(text, int) RETURNS text", damaged)).await.unwrap();
    let reader = stand.read();
    stand.is_settled(199).await;
    wait_until("the row aside", LONG, async || stand.keeper().books().await.unwrap().rejected == 1).await;
    let aside = "SELECT id || ' ' || reason FROM delayq_outbox_aside";
    let aside: String = database.query_one(aside, &[]).await.unwrap().get(0);
    assert!(aside.starts_with("m77 the database cannot read the row: invalid page"), "{aside}");
    reader.end().await;
}
