//! A Redis that is known to be silent: producers do not wait, and return to Redis after the next answer.

use super::{FAR, Host, drain, message, target, topic};
use delayq::{Admin, CancelOutcome, PutOutcome, State};
use delayq_tests::deadline::{LONG, wait_for, within};

/// Enough that a deadline for each put would add up to more than ten minutes.
const PUTS: u64 = 300;

async fn is_spooled(host: &Host) {
    assert_eq!(host.put(message("first")).await, PutOutcome::Spooled);
    within("the others", LONG, async {
        for n in 0..PUTS {
            assert_eq!(host.put(message(&format!("m{n}"))).await, PutOutcome::Spooled);
        }
        let cancelled = host.producer.cancel(&topic(), &target("m0")).await.unwrap();
        assert_eq!(cancelled, CancelOutcome::Spooled);
    })
    .await;
}

async fn returns(host: &Host) {
    let mut late = 0;
    wait_for("a put that goes to Redis", LONG, || {
        late += 1;
        let put = host.put(message(&format!("late{late}")));
        async { (put.await == PutOutcome::Stored(FAR)).then_some(()) }
    })
    .await;
    assert_eq!(host.put(message("m1")).await, PutOutcome::Spooled, "it goes behind what waits");
    let mut resubmitter = host.resubmitter().await;
    drain(&mut resubmitter).await;
    assert_eq!(host.put(message("m1")).await, PutOutcome::Exists(State::Delayed, FAR));
    let numbers = Admin::new(host.deployment.client.clone()).topic(&topic()).count().await.unwrap();
    let put = 1 + PUTS + late;
    assert_eq!((numbers.accepted, numbers.cancelled, numbers.delayed), (put, 1, put - 1));
    let stats = resubmitter.stats().await.unwrap();
    // The puts, the cancel, the write behind, and the writes before the answer of Redis was noticed.
    assert_eq!((stats.spooled, stats.rejected), (1 + PUTS + 1 + 1 + late - 1, 0));
    assert!(stats.waiting == 0 && stats.balances(), "{stats:?}");
}

#[tokio::test]
async fn of_a_frozen_redis_no_write_after_the_first_waits_for_the_deadline() {
    let host = Host::start().await;
    let before = host.deployment.server.scripts_run().await;
    host.deployment.server.freeze();
    is_spooled(&host).await;
    host.deployment.server.thaw();
    let sent = host.deployment.server.scripts_run().await - before;
    assert!(sent < PUTS / 10, "only what was sent before it was known: {sent}");
    returns(&host).await;
}

#[tokio::test]
async fn of_a_stopped_redis_writes_go_to_the_spool_until_it_answers() {
    let mut host = Host::start().await;
    host.deployment.server.kill().await;
    is_spooled(&host).await;
    host.deployment.server.resume().await;
    returns(&host).await;
}
