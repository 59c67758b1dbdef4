//! The last write of a message counts, despite repeats and faults in between.

use crate::mysql::stand::{Stand as MariaDb, payload_by, put};
use crate::readers::{Readers, topic};
use crate::stand::{Stand, shadow};
use delayq::admin::{Policy, Repeats};
use delayq::protocol::{Holder, ReserveRequest, ShardId};
use delayq::{Message, Settled, State};
use delayq_service::config::Secret;
use delayq_service::host_now;
use delayq_tests::deadline::{LONG, wait_until};
use futures_util::future::join_all;

/// A put, its cancel, and another put of the same content that replaces the first.
const BACKLOG: &str = "
    INSERT INTO delayq_outbox (topic, id, delay_ms, payload) VALUES ('orders', 'a', 86400000, 'x');
    INSERT INTO delayq_outbox (verb, topic, id) VALUES ('cancel', 'orders', 'a');
    INSERT INTO delayq_outbox (topic, id, delay_ms, payload, replaces) VALUES ('orders', 'a', 86400000, 'x', TRUE)";

/// Inserted by a handler before its ack.
const NEXT: &str = "INSERT INTO delayq_outbox (topic, id, delay_ms, payload, replaces)
    VALUES ('orders', 'daily', 86400000, 'x', TRUE)";

/// Puts again in each mode: `a` keeps its due time and content, `b` takes the later time and the new content, `c` is debounced
/// with a longest wait that is shorter than its delay. The mode of `d` does not exist. `e` is edited where it is, and `f` is
/// expected to be due at another time. `g` is throttled, and `h` swallowed.
const AGAIN: &str = "
    INSERT INTO delayq_outbox (topic, id, delay_ms, payload) VALUES
        ('orders', 'a', 80000000, 'x'), ('orders', 'b', 80000000, 'x'), ('orders', 'c', 80000000, 'x'),
        ('orders', 'e', 80000000, 'x'), ('orders', 'f', 80000000, 'x'), ('orders', 'g', 80000000, 'x'),
        ('orders', 'h', 80000000, 'x');
    INSERT INTO delayq_outbox (topic, id, delay_ms, payload, replaces, again) VALUES
        ('orders', 'a', 160000000, 'y', TRUE, 'sooner keep'), ('orders', 'b', 160000000, 'y', TRUE, 'later'),
        ('orders', 'c', 160000000, 'y', TRUE, 'within=120000000'), ('orders', 'd', 160000000, 'y', TRUE, 'soon'),
        ('orders', 'e', 160000000, 'y', TRUE, 'content'), ('orders', 'f', 160000000, 'y', TRUE, 'expected=1'),
        ('orders', 'g', 0, 'y', TRUE, 'throttle=60000'), ('orders', 'h', 0, 'y', TRUE, 'swallow=60000')";

async fn are_put_again(readers: &Readers) {
    let reader = readers.read();
    readers.is_all_settled().await;
    assert_eq!(readers.keeper().books().await.unwrap().rejected, 2, "the odd mode, and the other time");
    let now = host_now().get();
    for (id, delay_ms, payload) in [
        ("a", 80_000_000, "x"),
        ("b", 160_000_000, "y"),
        ("c", 120_000_000, "y"),
        ("e", 80_000_000, "y"),
        ("f", 80_000_000, "x"),
        ("g", 80_000_000, "y"),
        ("h", 80_000_000, "x"),
    ] {
        let kept = readers.stored(id, None).await.unwrap();
        let ahead = kept.due.get() - now;
        assert!((delay_ms - 600_000..=delay_ms).contains(&ahead), "{id} is due in {ahead} ms");
        assert_eq!(kept.payload, payload.as_bytes(), "{id}");
    }
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_again_meets_the_pending_message_as_its_mode_says() {
    let stand = Stand::start().await;
    stand.database().await.batch_execute(AGAIN).await.unwrap();
    are_put_again(&stand).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_a_put_again_meets_the_pending_message_as_its_mode_says() {
    let stand = MariaDb::start().await;
    stand.database().await.run(AGAIN).await;
    are_put_again(&stand).await;
}

async fn is_put_in_the_end(readers: &Readers, id: &str) {
    readers.is_all_settled().await;
    assert_eq!(readers.keeper().books().await.unwrap().rejected, 0);
    assert_eq!(readers.stored(id, None).await.map(|kept| kept.state), Some(State::Delayed), "{id}");
}

async fn hold(readers: &Readers) -> (Holder, delayq::protocol::Receipt) {
    let holder = Holder::new(readers.deployment.client.clone());
    let request = || ReserveRequest { topics: vec![topic()], most: 1, max_bytes: 0, lease: None };
    let shards: Vec<_> = (0..4).map(|shard| (ShardId::new(shard), request())).collect();
    let found = holder.reserve(&shards).await;
    let held = found.into_iter().flat_map(|report| report.unwrap().messages).next().unwrap();
    (holder, held.receipt)
}

/// A put due at once, whose repeat would put the message again.
const REPLACING: &str =
    "INSERT INTO delayq_outbox (topic, id, payload, replaces) VALUES ('orders', 'a', 'x', TRUE)";

/// Asserts that the row's message is delivered once, although the database notes no result before `make_well`.
async fn is_delivered_once(readers: &Readers, make_well: impl AsyncFnOnce()) {
    let forgetful = Policy { remember_own: Some(std::time::Duration::ZERO), ..Policy::default() };
    readers.deployment.admin.topic(&topic()).set_policy(&forgetful).await.unwrap();
    let reader = readers.read();
    readers.is_unready("no space left").await;
    let (holder, receipt) = hold(readers).await;
    assert_eq!(holder.ack(&[receipt]).await.remove(0).unwrap(), Settled::Delivered);
    let turns = readers.held_turns();
    wait_until("more turns", LONG, async || readers.held_turns() > turns + 3).await;
    make_well().await;
    readers.is_all_settled().await;
    assert_eq!(readers.accepted().await, 1, "what was delivered came again");
    reader.end().await;
}

async fn comes_after_the_ack(readers: &Readers, insert: impl AsyncFnOnce()) {
    readers.deployment.put([Message::new(topic(), "x").id("daily").unwrap()]).await;
    let (holder, receipt) = hold(readers).await;
    insert().await;
    let reader = readers.read();
    wait_until("a row that rests", LONG, async || readers.keeper().books().await.unwrap().resting == 1).await;
    assert_eq!(holder.ack(&[receipt]).await.remove(0).unwrap(), Settled::Delivered);
    is_put_in_the_end(readers, "daily").await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_put_of_a_backlog_is_not_taken_for_the_one_that_was_cancelled() {
    let stand = Stand::start().await;
    stand.database().await.batch_execute(BACKLOG).await.unwrap();
    let reader = stand.read();
    is_put_in_the_end(&stand, "a").await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_the_last_put_of_a_backlog_is_not_taken_for_the_one_that_was_cancelled() {
    let stand = MariaDb::start().await;
    stand.database().await.run(BACKLOG).await;
    let reader = stand.read();
    is_put_in_the_end(&stand, "a").await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_occurrence_that_a_handler_adds_before_its_ack_is_put_after_it() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    comes_after_the_ack(&stand, async || database.batch_execute(NEXT).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_an_occurrence_that_a_handler_adds_before_its_ack_is_put_after_it() {
    let stand = MariaDb::start().await;
    let mut database = stand.database().await;
    comes_after_the_ack(&stand, async || database.run(NEXT).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_whose_result_cannot_be_noted_is_carried_out_once_and_waits() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    let full = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
           $$BEGIN RAISE EXCEPTION 'no space left'; END$$;
         CREATE TRIGGER full_disk BEFORE INSERT ON delayq_outbox_progress_0 FOR EACH ROW EXECUTE FUNCTION full_disk()";
    database.batch_execute(full).await.unwrap();
    database.batch_execute(REPLACING).await.unwrap();
    is_delivered_once(&stand, async || {
        database.batch_execute("DROP TRIGGER full_disk ON delayq_outbox_progress_0").await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_a_row_whose_result_cannot_be_noted_is_carried_out_once_and_waits() {
    let stand = MariaDb::start().await;
    let mut database = stand.database().await;
    let full = "CREATE TRIGGER full_disk BEFORE DELETE ON delayq_outbox FOR EACH ROW
         SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no space left'";
    database.run(full).await;
    database.run(REPLACING).await;
    is_delivered_once(&stand, async || database.run("DROP TRIGGER full_disk").await).await;
}

async fn is_not_stale(readers: &Readers, insert: impl AsyncFnOnce()) {
    let refuse = Policy { repeats: Some(Repeats::Refuse), ..Policy::default() };
    readers.deployment.admin.topic(&topic()).set_policy(&refuse).await.unwrap();
    insert().await;
    let reader = readers.read();
    is_put_in_the_end(readers, "a").await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_was_never_tried_is_not_stale_however_old_it_is() {
    let stand = Stand::start().await;
    let old = "INSERT INTO delayq_outbox (topic, id, due, added) VALUES ('orders', 'a', '2100-01-01Z', now() - interval '1 day')";
    let database = stand.database().await;
    is_not_stale(&stand, async || database.batch_execute(old).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_a_row_that_was_never_tried_is_not_stale_however_old_it_is() {
    let stand = MariaDb::start().await;
    let old = "INSERT INTO delayq_outbox (topic, id, due, added) VALUES ('orders', 'a', '2037-01-01', NOW(6) - INTERVAL 1 DAY)";
    let mut database = stand.database().await;
    is_not_stale(&stand, async || database.run(old).await).await;
}

async fn is_expired(readers: &Readers) {
    let reader = readers.read();
    readers.is_all_settled().await;
    assert_eq!(readers.keeper().books().await.unwrap().rejected, 0);
    assert_eq!(readers.accepted().await, 1);
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_delay_and_expiry_passed_in_an_outage_is_expired_and_not_rejected() {
    let stand = Stand::start().await;
    let row = "INSERT INTO delayq_outbox (topic, id, delay_ms, expires, added)
        VALUES ('orders', 'a', 1000, now() - interval '1 minute', now() - interval '1 hour')";
    stand.database().await.batch_execute(row).await.unwrap();
    is_expired(&stand).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_a_message_whose_delay_and_expiry_passed_in_an_outage_is_expired_and_not_rejected() {
    let stand = MariaDb::start().await;
    let row = "INSERT INTO delayq_outbox (topic, id, delay_ms, expires, added)
        VALUES ('orders', 'a', 1000, NOW(6) - INTERVAL 1 MINUTE, NOW(6) - INTERVAL 1 HOUR)";
    stand.database().await.run(row).await;
    is_expired(&stand).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_inserted_before_the_statement_that_waits_comes_after_what_it_waited_for() {
    const ORDERS: usize = 30;
    let stand = Stand::start().await;
    let database = stand.database().await;
    database.batch_execute("CREATE TABLE orders (id int PRIMARY KEY, paid bool)").await.unwrap();
    let placed_and_paid = (0..ORDERS).map(async |n| {
        let (places, pays) = (stand.database().await, stand.database().await);
        places.batch_execute(&format!("INSERT INTO orders VALUES ({n}, false)")).await.unwrap();
        let locks = format!("BEGIN; UPDATE orders SET paid = false WHERE id = {n}");
        places.batch_execute(&locks).await.unwrap();
        pays.batch_execute(&format!(
            "BEGIN; INSERT INTO delayq_outbox (verb, topic, id) VALUES ('cancel', 'orders', 'o{n}')"
        ))
        .await
        .unwrap();
        let update = format!("UPDATE orders SET paid = true WHERE id = {n}; COMMIT");
        let waits = pays.batch_execute(&update);
        let place = async {
            places
                .batch_execute(&format!(
                    "INSERT INTO delayq_outbox (topic, id, due) \
                VALUES ('orders', 'o{n}', '2100-01-01Z'); COMMIT"
                ))
                .await
        };
        let (paid, placed) = tokio::join!(waits, place);
        paid.and(placed).unwrap();
    });
    join_all(placed_and_paid).await;
    let reader = stand.read();
    stand.is_settled(2 * ORDERS as u64).await;
    for n in 0..ORDERS {
        let kept = stand.stored(&format!("o{n}"), None).await.unwrap();
        assert_eq!(kept.state, State::Cancelled, "the paid order {n} kept its timeout");
    }
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_with_a_short_statement_timeout_reads_a_window_that_takes_longer() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    // Reading the sizes of the rows takes longer than the role's limit.
    let slow = shadow(
        "octet_length(bytea) RETURNS int",
        "PERFORM pg_catalog.pg_sleep(0.05); RETURN pg_catalog.octet_length($1)",
    );
    database.batch_execute(&crate::stand::put(0..60)).await.unwrap();
    database.batch_execute(&slow).await.unwrap();
    database.batch_execute("ALTER ROLE postgres SET statement_timeout = '1s'").await.unwrap();
    let reader = stand.read();
    stand.is_settled(60).await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_a_user_with_a_short_limit_for_statements_reads_a_page_that_takes_longer() {
    let mut stand = MariaDb::start().await;
    let mut database = stand.database().await;
    database.run(&put(0..60)).await;
    // Reading one of the rows takes longer than the user's limit, in any batch size.
    database.run(&payload_by("IF(id = 'm7' AND SLEEP(1.2), payload, payload)")).await;
    stand.config.url = Some(Secret::plain(database.limited_user(&stand.mariadb.url()).await));
    let reader = stand.read();
    stand.is_settled(60).await;
    stand.is_all_settled().await;
    assert_eq!((stand.accepted().await, stand.keeper().books().await.unwrap().rejected), (60, 0));
    reader.end().await;
}

/// A put that is rejected because its id is taken, and a cancel of that id in another group.
const REJECTED: &str = "
    INSERT INTO delayq_outbox (topic, id, payload) VALUES ('orders', 'taken', 'x');
    INSERT INTO delayq_outbox (verb, topic, id, group_id) VALUES ('cancel', 'orders', 'taken', 'g')";
const OVERTAKING: &str = "INSERT INTO delayq_outbox (verb, topic, id) VALUES ('cancel', 'orders', 'taken')";

async fn is_retried_only_by_force(readers: &Readers, insert: impl AsyncFn(&str)) {
    let another = Message::new(topic(), "another").id("taken").unwrap();
    readers.deployment.put([another.at(delayq::UnixMillis::new(4_102_444_800_000))]).await;
    insert(REJECTED).await;
    let reader = readers.read();
    readers.is_all_settled().await;
    let mut keeper = readers.keeper();
    let aside = keeper.aside(false, 0, 10).await.unwrap();
    assert!(aside.len() == 1 && !aside[0].overtaken, "that is another message: {aside:?}");
    insert(OVERTAKING).await;
    readers.is_settled(2).await;
    let aside = keeper.aside(false, 0, 10).await.unwrap();
    assert!(aside.len() == 1 && aside[0].overtaken, "{aside:?}");
    assert!(keeper.retry(&[aside[0].number], false).await.unwrap().is_empty(), "the cancel came after it");
    assert_eq!(keeper.retry(&[aside[0].number], true).await.unwrap(), [aside[0].number]);
    readers.is_all_settled().await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_whose_cancel_was_carried_out_is_retried_only_by_force() {
    let stand = Stand::start().await;
    let database = stand.database().await;
    is_retried_only_by_force(&stand, async |rows| database.batch_execute(rows).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_a_put_whose_cancel_was_carried_out_is_retried_only_by_force() {
    let stand = MariaDb::start().await;
    is_retried_only_by_force(&stand, async |rows| stand.database().await.run(rows).await).await;
}
