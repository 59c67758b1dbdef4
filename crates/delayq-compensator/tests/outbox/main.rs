//! The way of a row from a producer's transaction in PostgreSQL or MySQL to Redis.
#![cfg(all(feature = "mysql", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod adopted;
mod aside;
mod backlog;
mod bounded;
mod hosts;
mod last_word;
mod mysql;
mod order;
mod pooled;
mod process;
mod readers;
mod reconcile;
mod resting;
mod side_jobs;
mod stand;
mod stress;
mod tls;
mod unconfirmed;
mod unreadable;

use delayq::UnixMillis;
use stand::{Stand, put};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_is_put_once_with_all_that_it_says_and_a_rollback_leaves_nothing() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    database
        .batch_execute(
            "BEGIN; INSERT INTO delayq_outbox (topic, id, payload) VALUES ('orders', 'gone', 'x'); ROLLBACK;
             BEGIN; CREATE TABLE orders (id bigint); INSERT INTO orders VALUES (17);
             INSERT INTO delayq_outbox (topic, id, group_id, due, payload, headers, expires, max_attempts)
             VALUES ('orders', 'order-17', 'user-5', '2100-01-01T00:00:00.0001Z', '{\"order\":17}', '{\"h\":\"v\"}',
                     '2100-01-02Z', 3); COMMIT;
             INSERT INTO delayq_outbox (topic, id, delay_ms) VALUES ('orders', 'later', 3600000)",
        )
        .await
        .unwrap();
    let reader = stand.read();
    stand.is_settled(2).await;
    let kept = stand.stored("order-17", Some("user-5")).await.unwrap();
    assert_eq!(kept.due.get(), 4_102_444_800_001, "never before the time that was written");
    assert_eq!((kept.payload.as_slice(), kept.max_attempts), (&br#"{"order":17}"#[..], 3));
    assert_eq!(kept.headers, [("h".to_owned(), "v".to_owned())]);
    assert_eq!(kept.expires.map(UnixMillis::get), Some(4_102_531_200_000));
    let late = stand.stored("later", None).await.unwrap().due.get() - stand.deployment.now().await.get();
    assert!((3_500_000..=3_600_000).contains(&late), "{late}");
    assert!(stand.stored("gone", None).await.is_none());
    assert_eq!(stand.accepted().await, 2);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_wait_while_redis_is_away_and_are_put_once_when_it_is_back() {
    let mut stand = Stand::start().await;
    let reader = stand.read();
    stand.deployment.server.kill().await;
    let database = stand.database().await;
    database.batch_execute(&put(0..50)).await.unwrap();
    stand.held().await;
    stand.deployment.server.resume().await;
    stand.is_settled(50).await;
    assert_eq!(stand.accepted().await, 50);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_killed_in_the_middle_loses_nothing_and_nothing_is_put_twice() {
    let mut stand = Stand::start_with(|config| config.batch = 50).await;
    let reader = stand.read();
    for round in 0..3_u64 {
        let database = stand.database().await;
        for n in 0..40 {
            let from = round * 4000 + n * 100;
            database.batch_execute(&put(from..from + 100)).await.unwrap();
        }
        stand.waits_for_more_than(stand.accepted().await + 100).await;
        stand.postgres.kill().await;
        stand.postgres.resume().await;
    }
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, 12_000);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_readers_one_works_at_a_time_and_the_other_takes_over() {
    let stand = Stand::start_with(|config| config.batch = 20).await;
    let (first, second) = (stand.read(), stand.read());
    let database = stand.database().await;
    database.batch_execute(&put(0..2000)).await.unwrap();
    stand.waits_for_more_than(200).await;
    first.abort().await;
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, 2000);
    // Each row was carried out once: the second reader would count a row done by both a second time. The
    // aborted reader may have committed one batch without counting its rows.
    let done = stand.done().await;
    assert!((1980..=2020).contains(&done), "{done}");
    second.end().await;
}

#[tokio::test]
async fn an_outbox_that_is_missing_is_refused() {
    let stand = Stand::start().await;
    stand.database().await.batch_execute("DROP TABLE delayq_outbox_state").await.unwrap();
    let refused = stand.try_read().await.unwrap_err();
    assert!(refused.contains("delayq outbox init"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_rows_are_put_once_while_the_tables_are_rotated() {
    let stand = Stand::start_with(|config| config.rotate_every = stand::ms(1000)).await;
    let reader = stand.read();
    let writers = (0..4_u64).map(async |writer| {
        let database = stand.database().await;
        for n in 0..250 {
            let from = writer * 25_000 + n * 100;
            database.batch_execute(&put(from..from + 100)).await.unwrap();
        }
    });
    let [a, b, c, d] = writers.collect::<Vec<_>>().try_into().ok().unwrap();
    tokio::join!(a, b, c, d);
    stand.is_all_settled().await;
    assert_eq!(stand.accepted().await, 100_000);
    stand.is_truncated().await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statement_of_the_guide_takes_a_text_of_any_content_byte_for_byte() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    database.batch_execute("CREATE TABLE orders (id bigint, paid bool)").await.unwrap();
    let guide = include_str!("../../../../examples/outbox/place_order.sql");
    let (payload, id) = (r#"{"order":17}"#, "order-17");
    assert!(guide.contains(payload) && guide.contains(id));
    let texts = [r"C:\temp", r#"a\n\"\u00e9"#, "it's \"quoted\"", "two\nlines\ttab", &"é\\".repeat(60_000)];
    for (n, text) in texts.iter().enumerate() {
        let statement = guide.replace(payload, &text.replace('\'', "''")).replace(id, &format!("m{n}"));
        database.batch_execute(&statement).await.unwrap();
    }
    let bytes: &[u8] = b"\0\xff\\'\"\n";
    let insert =
        "INSERT INTO delayq_outbox (topic, id, due, payload) VALUES ('orders', 'bytes', '2100-01-01Z', $1)";
    database.execute(insert, &[&bytes]).await.unwrap();
    let reader = stand.read();
    stand.is_settled(texts.len() as u64 + 1).await;
    for (n, text) in texts.iter().enumerate() {
        let kept = stand.stored(&format!("m{n}"), None).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&kept.payload), *text);
    }
    assert_eq!(stand.stored("bytes", None).await.unwrap().payload, bytes);
    reader.end().await;
}
