//! Writes of few messages with one content, in every order, while compensators are killed: each message ends as the order of
//! the commits says.

use crate::readers::{Readers, topic};
use crate::stand::Stand;
use delayq::State;
use delayq::admin::Policy;
use delayq_tests::deadline::{LONG, wait_until};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MESSAGES: u64 = 5;
const WRITERS: u64 = 4;
/// The due time of the n-th write.
const FIRST_DUE_S: u64 = 4_102_444_800;

/// How many writes there are: `DELAYQ_TEST_WRITES`.
#[allow(
    clippy::disallowed_methods,
    reason = "how many writes there are is for the user who runs the tests to say"
)]
fn writes() -> u64 {
    std::env::var("DELAYQ_TEST_WRITES").map_or(1000, |text| text.parse().expect("a number of writes"))
}

/// What a message is, by the writes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Is {
    #[default]
    Unknown,
    Due(u64),
    Cancelled,
}

// === impl Is ===

impl Is {
    fn after(self, verb: &str, due: u64) -> Self {
        match (verb, self) {
            ("replace", _) | ("put", Self::Unknown) | ("reschedule", Self::Due(_)) => Self::Due(due),
            ("cancel", Self::Due(_)) => Self::Cancelled,
            (_, is) => is,
        }
    }
}

/// A transaction of one write, which is inserted before or after the lock that orders it.
fn transaction(n: u64, random: &mut fastrand::Rng) -> String {
    let (message, due) = (random.u64(0..MESSAGES), FIRST_DUE_S + n);
    let verb = ["put", "replace", "replace", "cancel", "cancel", "reschedule"][random.usize(0..6)];
    let row = match verb {
        "cancel" => {
            format!("INSERT INTO delayq_outbox (verb, topic, id) VALUES ('cancel', 'orders', 'm{message}')")
        }
        "reschedule" => format!(
            "INSERT INTO delayq_outbox (verb, topic, id, due) VALUES ('reschedule', 'orders', 'm{message}', to_timestamp({due}))"
        ),
        _ => format!(
            "INSERT INTO delayq_outbox (topic, id, due, payload, replaces) \
             VALUES ('orders', 'm{message}', to_timestamp({due}), 'x', {})",
            verb == "replace"
        ),
    };
    let locked = format!(
        "SELECT FROM locks WHERE id = {message} FOR UPDATE; \
         INSERT INTO commits (message, verb, due) VALUES ({message}, '{verb}', {due})"
    );
    match random.bool() {
        true => format!("BEGIN; {row}; {locked}; COMMIT"),
        false => format!("BEGIN; {locked}; {row}; COMMIT"),
    }
}

/// Ends readers at random places, two at a time, until all is written.
async fn kill_readers(readers: &Readers, is_over: &AtomicBool, mut random: fastrand::Rng) {
    while !is_over.load(Ordering::Relaxed) {
        let (one, other) = (readers.read(), readers.read());
        tokio::time::sleep(Duration::from_millis(random.u64(5..120))).await;
        one.abort().await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..40))).await;
        other.abort().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_ends_as_the_order_of_the_commits_says_wherever_compensators_are_killed() {
    let (stand, total) = (Stand::start_with(|config| config.batch = 40).await, writes());
    let remember = Policy {
        remember_own: Some(Duration::from_secs(86_400)),
        remember_cancelled: Some(Duration::from_secs(86_400)),
        ..Policy::default()
    };
    stand.deployment.admin.set_policy(&topic(), &remember).await.unwrap();
    let database = stand.database().await;
    database
        .batch_execute(&format!(
            "CREATE TABLE locks (id bigint PRIMARY KEY); INSERT INTO locks SELECT generate_series(0, {});
             CREATE TABLE commits (n bigserial PRIMARY KEY, message bigint, verb text, due bigint)",
            MESSAGES - 1
        ))
        .await
        .unwrap();
    let is_over = AtomicBool::new(false);
    let writing = async {
        join_all((0..WRITERS).map(async |writer| {
            let (database, mut random) = (stand.database().await, fastrand::Rng::with_seed(writer));
            for n in (writer..total).step_by(WRITERS as usize) {
                database.batch_execute(&transaction(n, &mut random)).await.unwrap();
            }
        }))
        .await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(writing, kill_readers(&stand, &is_over, fastrand::Rng::with_seed(7)));
    let reader = stand.read();
    wait_until("all rows to be settled", 10 * LONG, async || {
        stand.keeper().books().await.is_ok_and(|books| books.oldest.is_none())
    })
    .await;
    let mut expected = BTreeMap::<i64, Is>::new();
    for row in database.query("SELECT message, verb, due FROM commits ORDER BY n", &[]).await.unwrap() {
        let is = expected.entry(row.get(0)).or_default();
        *is = is.after(row.get(1), row.get::<_, i64>(2).unsigned_abs());
    }
    for (message, expected) in expected {
        let found = match stand.stored(&format!("m{message}"), None).await {
            None => Is::Unknown,
            Some(kept) if kept.state == State::Cancelled => Is::Cancelled,
            Some(kept) => Is::Due(kept.due.get() / 1000),
        };
        assert_eq!(found, expected, "m{message}");
    }
    reader.end().await;
}
