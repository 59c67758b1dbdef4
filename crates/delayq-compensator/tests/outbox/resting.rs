//! What cannot be carried out although Redis can be used rests alone, and is carried out in order once it can be.

use crate::stand::{Stand, put};
use delayq_tests::deadline::{LONG, wait_until};

const MESSAGES: u64 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_missing_holds_up_its_own_messages_alone_and_each_in_order() {
    // Less than what rests of one shard.
    let stand = Stand::start_with(|config| config.batch = 20).await;
    let rename = async |from: &str, to: &str| {
        let _: String = stand.deployment.server.command(&["RENAME", from, to]).await;
    };
    rename("{dq:2}:meta", "{dq:2}:away").await;
    let database = stand.database().await;
    database.batch_execute(&put(0..MESSAGES)).await.unwrap();
    database
        .batch_execute(&format!(
            "INSERT INTO delayq_outbox (verb, topic, id) SELECT 'cancel', 'orders', 'm' || n \
             FROM generate_series(0, {}) n",
            MESSAGES - 1
        ))
        .await
        .unwrap();
    let reader = stand.read();
    wait_until("all but the missing shard's", LONG, async || {
        let resting = stand.keeper().books().await.unwrap().resting;
        resting > 40 && stand.done().await + resting == 2 * MESSAGES
    })
    .await;
    rename("{dq:2}:away", "{dq:2}:meta").await;
    stand.is_all_settled().await;
    let numbers = stand.deployment.admin.count(&crate::stand::topic()).await.unwrap();
    assert_eq!(
        (numbers.accepted, numbers.cancelled),
        (MESSAGES, MESSAGES),
        "each cancel came behind its put"
    );
    let books = stand.keeper().books().await.unwrap();
    assert_eq!((books.rejected, books.resting), (0, 0));
    reader.end().await;
}
