//! A day without a compensator: memory does not grow with the waiting rows, nor do statements take long.

use crate::mysql::stand::Stand as MariaDb;
use crate::readers::{Readers, topic};
use crate::stand::Stand;
use delayq::Admin;
use delayq_service::config::{ExposeSecret as _, Secret};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::environment::at_length;
use delayq_tests::process::{Process, Signal};
use std::process::Command;
use std::time::{Duration, Instant};

const DAY_S: u64 = 86_400;
/// Every tenth row cancels the put five rows before.
const A_CANCEL_IN: u64 = 10;
const AT_ONCE: u64 = 5000;
/// Maximum resident memory of the process, in KiB: several times the memory of an idle process.
const MOST_KIB: u64 = 160 << 10;
/// Pause between two looks at the busy database.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A database's expressions for the numbers from `first` on, a payload, and a time a number of seconds ago.
struct Dialect {
    numbers: fn(first: u64, last: u64) -> String,
    payload: &'static str,
    ago: fn(seconds: &str) -> String,
}

const POSTGRES: Dialect = Dialect {
    numbers: |first, last| format!("generate_series({first}::bigint, {last}) n"),
    payload: "convert_to(repeat('x', 200), 'UTF8')",
    ago: |seconds| format!("now() - interval '1 second' * ({seconds})"),
};

const MARIADB: Dialect = Dialect {
    numbers: |first, last| format!("(SELECT seq AS n FROM seq_{first}_to_{last}) numbers"),
    payload: "REPEAT('x', 200)",
    ago: |seconds| format!("NOW(6) - INTERVAL ({seconds}) SECOND"),
};

impl Dialect {
    /// Inserts a day's rows, at even intervals. Most puts are due within the day.
    fn insert(&self, first: u64, count: u64) -> String {
        let last = A_CANCEL_IN - 1;
        let of = |put: &str, cancel: &str| {
            format!("CASE n % {A_CANCEL_IN} WHEN {last} THEN {cancel} ELSE {put} END")
        };
        format!(
            "INSERT INTO delayq_outbox (verb, topic, id, delay_ms, payload, added) SELECT {}, 'orders', CONCAT('m', {}), {}, \
             {}, {} FROM {} ORDER BY n",
            of("'put'", "'cancel'"),
            of("n", "n - 5"),
            of("21600000", "NULL"),
            of(self.payload, "NULL"),
            (self.ago)(&format!("({count} - n) * {DAY_S} / {count}")),
            (self.numbers)(first, first + AT_ONCE - 1),
        )
    }
}

async fn is_carried_out(readers: &Readers, count: u64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-compensator"));
    command.env("DELAYQ__REDIS__URL", readers.deployment.server.url()).env("DELAYQ__ADMIN__LISTEN", "");
    command.env("DELAYQ__DEPLOYMENT__SHARDS", readers.deployment.client.shards().get().to_string());
    command
        .env("DELAYQ__OUTBOX__URL", readers.config.url.as_ref().unwrap().reveal().unwrap().expose_secret());
    let (mut process, began) = (Process::spawn("delayq-compensator", command), Instant::now());
    let (cancels, puts) = (count / A_CANCEL_IN, count - count / A_CANCEL_IN);
    let admin = Admin::new(readers.deployment.client.clone());
    wait_until("every row in Redis", LONG * at_length(1, 20), async || {
        tokio::time::sleep(LOOK_EVERY).await;
        let numbers = admin.topic(&topic()).count().await.unwrap();
        numbers.accepted >= puts && numbers.cancelled >= cancels
    })
    .await;
    readers.is_all_settled().await;
    let most_kib = process.most_kib().unwrap();
    println!("{count} rows in {:?}, at most {most_kib} KiB resident", began.elapsed());
    process.ends_well_by(Signal::TERM, LONG).await;
    assert!(most_kib < MOST_KIB, "{most_kib} KiB");
    let numbers = admin.topic(&topic()).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.cancelled), (puts, cancels), "{numbers:?}");
    assert_eq!(numbers.ready + numbers.delayed, puts - cancels, "{numbers:?}");
    let books = readers.keeper().books().await.unwrap();
    assert_eq!((books.rejected, books.resting), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_rows_is_carried_out_in_memory_that_does_not_grow_with_them() {
    let (stand, count) = (Stand::start().await, at_length(20_000, 1_000_000));
    let database = stand.database().await;
    for first in (0..count).step_by(AT_ONCE as usize) {
        database.batch_execute(&POSTGRES.insert(first, count)).await.unwrap();
    }
    database.batch_execute("ALTER ROLE postgres SET statement_timeout = '1s'").await.unwrap();
    is_carried_out(&stand, count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_a_day_of_rows_is_carried_out_in_memory_that_does_not_grow_with_them() {
    let (mut stand, count) = (MariaDb::start().await, at_length(20_000, 1_000_000));
    let mut database = stand.database().await;
    for first in (0..count).step_by(AT_ONCE as usize) {
        database.run(&MARIADB.insert(first, count)).await;
    }
    stand.config.url = Some(Secret::plain(database.limited_user(&stand.mariadb.url()).await));
    is_carried_out(&stand, count).await;
}
