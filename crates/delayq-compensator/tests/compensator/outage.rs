//! A Redis that is away for a whole run: the end equals a run without an outage.

use super::writes::{Write, known_by_ids, writes};
use super::{Host, drain, message, resubmitted, target, topic};
use delayq::{Admin, CancelOutcome, PutOutcome};

const WRITES: u64 = 20_000;
const IDS: u64 = 1_000;
/// Each caller writes its own messages, one after the other.
const CALLERS: usize = 64;

async fn carry_out(host: &Host) {
    let mut callers: Vec<Vec<Write>> = vec![Vec::new(); CALLERS];
    for write in writes(WRITES, IDS) {
        let id: usize = write.id[1..].parse().unwrap();
        callers[id % CALLERS].push(write);
    }
    let tasks = callers.into_iter().map(|writes| {
        let producer = host.producer.clone();
        tokio::spawn(async move {
            for write in writes {
                write.carry_out(&producer).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn twenty_thousand_mixed_writes_during_an_outage_end_as_without_it() {
    let calm = Host::start().await;
    carry_out(&calm).await;

    let mut host = Host::start().await;
    host.deployment.server.kill().await;
    carry_out(&host).await;
    let mut resubmitter = host.resubmitter().await;
    let spooled = resubmitter.stats().await.unwrap();
    assert_eq!((spooled.spooled, spooled.waiting), (WRITES, WRITES));
    host.deployment.server.resume().await;
    host.is_reached().await;
    drain(&mut resubmitter).await;

    assert_eq!(known_by_ids(&host, IDS).await, known_by_ids(&calm, IDS).await);
    let numbers =
        async |host: &Host| Admin::new(host.deployment.client.clone()).topic(&topic()).count().await.unwrap();
    assert_eq!(numbers(&host).await, numbers(&calm).await);
    let stats = resubmitter.stats().await.unwrap();
    // Records set aside came too late without an outage as well.
    assert!(stats.waiting == 0 && stats.replayed > WRITES / 2 && stats.balances(), "{stats:?}");
}

#[tokio::test]
async fn what_an_emptied_redis_or_one_that_denies_the_user_does_not_take_is_spooled() {
    let host = Host::start().await;
    let acl = async |rule: &str| {
        let () = host.deployment.server.command(&["ACL", "SETUSER", "default", rule]).await;
    };
    acl("-evalsha").await;
    acl("-eval").await;
    assert_eq!(host.put(message("denied")).await, PutOutcome::Spooled);
    acl("+@all").await;
    let mut resubmitter = host.resubmitter().await;
    assert_eq!(drain(&mut resubmitter).await, resubmitted(1));
    let _: String = host.deployment.server.command(&["FLUSHALL"]).await;
    assert_eq!(host.put(message("emptied")).await, PutOutcome::Spooled);
    let cancel = host.producer.cancel(&topic(), &target("other")).await.unwrap();
    assert_eq!(cancel, CancelOutcome::Spooled);
    assert_eq!(resubmitter.stats().await.unwrap().waiting, 2);
}
