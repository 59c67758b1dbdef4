//! An unreadable or invalid row holds up no other row.

use super::stand::{Stand, payload_by, put};
use delayq_tests::deadline::{LONG, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_any_content_holds_up_no_other() {
    let stand = Stand::start().await;
    let mut database = stand.database().await;
    database
        .run(
            "INSERT INTO delayq_outbox (topic, id, replaces) VALUES ('orders', 'twice true', 2), ('orders', 'negative', -1);
             INSERT INTO delayq_outbox (topic, id, delay_ms) VALUES ('orders', 'never', 9223372036854775807);
             INSERT INTO delayq_outbox (topic, id) VALUES (REPEAT('t', 65535), 'a'), ('orders', REPEAT('i', 65535)),
                 ('orders', ''), ('orders', '~none');
             INSERT INTO delayq_outbox (topic, id, headers) VALUES ('orders', 'a', '[1]'), ('orders', 'a', '5'),
                 ('orders', 'a', CONCAT('{\"h\":\"', REPEAT('x', 200000), '\"}'));
             INSERT INTO delayq_outbox (topic, id, headers) VALUES ('orders', 'no headers', 'null');
             INSERT INTO delayq_outbox (topic, id, payload) VALUES ('orders', 'a', REPEAT('x', 2097152));
             SET sql_mode = ''; INSERT INTO delayq_outbox (topic, id, added) VALUES ('orders', 'no age', '0000-00-00');
             INSERT INTO delayq_outbox (topic, id) VALUES ('orders', 'last')",
        )
        .await;
    let large = ["payload: 2097152 bytes; at most 1048576", "headers: 200008 bytes; at most 131072"];
    stand.is_read(&["twice true", "negative", "no headers", "no age", "last"], 9, large).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_larger_than_the_servers_packets_is_put_and_blocks_no_other() {
    let stand = Stand::start().await;
    let mut database = stand.database().await;
    database.run(&put(0..5)).await;
    database
        .run("INSERT INTO delayq_outbox (topic, id, payload) VALUES ('orders', 'large', REPEAT('x', 200000))")
        .await;
    // Applies to later connections.
    database.run("SET GLOBAL max_allowed_packet = 131072").await;
    let reader = stand.read();
    stand.is_settled(6).await;
    assert_eq!(stand.stored("large", None).await.unwrap().payload.len(), 200_000);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_the_database_cannot_hand_over_is_set_aside_and_blocks_no_other() {
    let stand = Stand::start().await;
    let mut database = stand.database().await;
    database.run(&put(0..100)).await;
    database.run(&payload_by("IF(id = 'm77', (SELECT 1 UNION SELECT 2), payload)")).await;
    let reader = stand.read();
    stand.is_settled(99).await;
    wait_until("the row aside", LONG, async || stand.keeper().books().await.unwrap().rejected == 1).await;
    let aside = stand.keeper().aside(false, 0, 10).await.unwrap();
    assert!(
        aside[0].row.id() == "m77" && aside[0].reason.starts_with("the database cannot read the row"),
        "{aside:?}"
    );
    reader.end().await;
}
