//! A row that cannot be read, or is no write, holds up no other.

use super::stand::Stand;

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
