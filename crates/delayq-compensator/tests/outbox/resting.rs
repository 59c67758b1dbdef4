//! Rows that cannot be carried out rest alone, although Redis is usable, and are carried out in order later.

use crate::mysql::stand::Stand as MariaDb;
use crate::readers::Readers;
use crate::stand::{Stand, put};
use delayq_tests::deadline::{LONG, wait_until};

const MESSAGES: u64 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_missing_holds_up_its_own_messages_alone_and_each_in_order() {
    // Fewer than the resting rows of one shard.
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
    let numbers = stand.deployment.admin.topic(&crate::stand::topic()).count().await.unwrap();
    assert_eq!(
        (numbers.accepted, numbers.cancelled),
        (MESSAGES, MESSAGES),
        "each cancel came behind its put"
    );
    let books = stand.keeper().books().await.unwrap();
    assert_eq!((books.rejected, books.resting), (0, 0));
    reader.end().await;
}

/// Rows of one id in many groups, with one shard that takes no rows.
async fn rest_by_groups(readers: &Readers, insert: impl AsyncFn(String)) {
    const GROUPS: u64 = 24;
    let server = &readers.deployment.server;
    let _: String = server.command(&["RENAME", "{dq:2}:meta", "{dq:2}:away"]).await;
    let rows = async |verb: &str, delay: &str| {
        let rows: Vec<String> =
            (0..GROUPS).map(|n| format!("('{verb}', 'orders', 'a', 'g{n}', {delay})")).collect();
        let columns = "verb, topic, id, group_id, delay_ms";
        insert(format!("INSERT INTO delayq_outbox ({columns}) VALUES {}", rows.join(", "))).await;
    };
    rows("put", "1000000000").await;
    let reader = readers.read();
    let resting = async || readers.keeper().books().await.unwrap().resting;
    let all_but = async |rows: u64| {
        let (done, resting) = (readers.done().await, resting().await);
        done > 0 && resting > 0 && done + resting == rows
    };
    wait_until("the groups of the other shards", LONG, async || all_but(GROUPS).await).await;
    let rest = resting().await;
    rows("cancel", "NULL").await;
    wait_until("the cancels of the other groups", LONG, async || {
        all_but(2 * GROUPS).await && resting().await == 2 * rest
    })
    .await;
    let _: String = server.command(&["RENAME", "{dq:2}:away", "{dq:2}:meta"]).await;
    readers.is_all_settled().await;
    let numbers = readers.deployment.admin.topic(&crate::stand::topic()).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.cancelled), (GROUPS, GROUPS));
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_does_not_rest_behind_one_of_the_same_id_in_another_group() {
    let stand = Stand::start().await;
    rest_by_groups(&stand, async |rows| stand.database().await.batch_execute(&rows).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_a_row_does_not_rest_behind_one_of_the_same_id_in_another_group() {
    let stand = MariaDb::start().await;
    rest_by_groups(&stand, async |rows| stand.database().await.run(&rows).await).await;
}
