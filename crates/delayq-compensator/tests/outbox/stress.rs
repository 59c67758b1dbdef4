//! Writes of few messages in every order under kills: the order of the commits decides the end.

use crate::mysql::stand::Stand as MariaDb;
use crate::readers::{Readers, topic};
use crate::stand::Stand;
use delayq::State;
use delayq::admin::Policy;
use delayq_service::config::Secret;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::last_word::{Is, PAYLOAD, Verb, Write, id, writes};
use delayq_tests::pgbouncer::PgBouncer;
use futures_util::future::join_all;
use mysql_async::prelude::Queryable as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_postgres::NoTls;

const WRITERS: u64 = 4;
const TABLES: [&str; 2] = [
    "CREATE TABLE locks (id bigint PRIMARY KEY)",
    "CREATE TABLE commits (n SERIAL PRIMARY KEY, write_number bigint NOT NULL)",
];
const COMMITS: &str = "SELECT write_number FROM commits ORDER BY n";

fn all_writes() -> Vec<Write> {
    let mut random = fastrand::Rng::with_seed(11);
    (0..writes()).map(|n| Write::random(n, &mut random)).collect()
}

fn row(write: &Write, time: &str) -> String {
    let (id, verb, due) = (write.id(), write.verb.name(), format!("{time}({})", write.due_s));
    let (columns, values) = match write.verb {
        Verb::Cancel => ("", String::new()),
        Verb::Reschedule => (", due", format!(", {due}")),
        Verb::Put => (", due, payload", format!(", {due}, '{PAYLOAD}'")),
        Verb::Replace => (", due, payload, replaces", format!(", {due}, '{PAYLOAD}', true")),
    };
    format!(
        "INSERT INTO delayq_outbox (verb, topic, id{columns}) VALUES ('{verb}', 'orders', '{id}'{values})"
    )
}

fn locked(n: usize, write: &Write) -> String {
    format!(
        "SELECT id FROM locks WHERE id = {} FOR UPDATE; INSERT INTO commits (write_number) VALUES ({n})",
        write.message
    )
}

/// Ends two readers at a time, at random places.
async fn kill_readers(readers: &Readers, is_over: &AtomicBool, mut random: fastrand::Rng) {
    while !is_over.load(Ordering::Relaxed) {
        let (one, other) = (readers.read(), readers.read());
        tokio::time::sleep(Duration::from_millis(random.u64(5..120))).await;
        one.abort().await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..40))).await;
        other.abort().await;
    }
}

async fn write_all<R: AsyncFnMut(String)>(
    readers: &Readers,
    connect: impl AsyncFn() -> R,
    transaction: impl Fn(usize, &Write, &mut fastrand::Rng) -> String,
) {
    let remember = Policy {
        remember_own: Some(Duration::from_secs(86_400)),
        remember_cancelled: Some(Duration::from_secs(86_400)),
        ..Policy::default()
    };
    readers.deployment.admin.topic(&topic()).set_policy(&remember).await.unwrap();
    let mut run = connect().await;
    let (all, is_over) = (all_writes(), AtomicBool::new(false));
    let locks = Is::of_each(all.iter().copied()).into_keys().map(|message| format!("({message})"));
    let fill = format!("INSERT INTO locks VALUES {}", locks.collect::<Vec<_>>().join(", "));
    for statement in TABLES.into_iter().chain([fill.as_str()]) {
        run(statement.to_owned()).await;
    }
    let writing = async {
        join_all((0..WRITERS).map(async |writer| {
            let (mut run, mut random) = (connect().await, fastrand::Rng::with_seed(writer));
            for (n, write) in all.iter().enumerate().skip(writer as usize).step_by(WRITERS as usize) {
                run(transaction(n, write, &mut random)).await;
            }
        }))
        .await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(writing, kill_readers(readers, &is_over, fastrand::Rng::with_seed(7)));
    let reader = readers.read();
    wait_until("all rows to be settled", 10 * LONG, async || {
        readers.keeper().books().await.is_ok_and(|books| books.oldest.is_none())
    })
    .await;
    reader.end().await;
}

async fn each_is_as_committed(readers: &Readers, commits: Vec<u64>) {
    let all = all_writes();
    assert_eq!(commits.len(), all.len());
    let expected = Is::of_each(commits.iter().map(|&n| all[n as usize]));
    for (message, expected) in expected {
        let found = match readers.stored(&id(message), None).await {
            None => Is::Unknown,
            Some(kept) if kept.state == State::Cancelled => Is::Cancelled,
            Some(kept) => Is::Due(kept.due.get() / 1000),
        };
        assert_eq!(found, expected, "{}", id(message));
    }
}

/// Rows come before or after the lock that orders their transactions.
async fn in_postgres(stand: &Stand, url: &str) {
    let connect = async || {
        let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(driver);
        async move |statements: String| client.batch_execute(&statements).await.unwrap()
    };
    let transaction = |n, write: &Write, random: &mut fastrand::Rng| {
        let (row, locked) = (row(write, "to_timestamp"), locked(n, write));
        match random.bool() {
            true => format!("BEGIN; {row}; {locked}; COMMIT"),
            false => format!("BEGIN; {locked}; {row}; COMMIT"),
        }
    };
    write_all(stand, connect, transaction).await;
    let found = stand.database().await.query(COMMITS, &[]).await.unwrap();
    each_is_as_committed(stand, found.iter().map(|row| row.get::<_, i64>(0).unsigned_abs()).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_ends_as_the_order_of_the_commits_says_wherever_compensators_are_killed() {
    let stand = Stand::start_with(|config| config.batch = 40).await;
    in_postgres(&stand, &stand.postgres.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_pooler_each_message_ends_as_the_order_of_the_commits_says() {
    let mut stand = Stand::start_with(|config| config.batch = 40).await;
    let pooler = PgBouncer::start(&stand.postgres).await;
    stand.config.url = Some(Secret::plain(pooler.url()));
    in_postgres(&stand, &pooler.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_each_message_ends_as_the_order_of_the_commits_says_if_rows_come_behind_the_lock() {
    let stand = MariaDb::start_with(|config| config.batch = 40).await;
    let connect = async || {
        let mut database = stand.database().await;
        async move |statements: String| database.run(&statements).await
    };
    let transaction = |n, write: &Write, _: &mut fastrand::Rng| {
        format!("BEGIN; {}; {}; COMMIT", locked(n, write), row(write, "FROM_UNIXTIME"))
    };
    write_all(&stand, connect, transaction).await;
    let commits = stand.database().await.0.query(COMMITS).await.unwrap();
    each_is_as_committed(&stand, commits).await;
}
