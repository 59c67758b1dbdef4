//! Writes that replicas confirmed survive every failover that the replicas can survive; see
//! docs/operations/durability.md.
//!
//! The short form makes two failovers each. With `DELAYQ_TEST_FAILOVERS=N`, the first test makes N and waits
//! for 100,000 answered puts, and the other tests a quarter of that.

use crate::failovers::load::{Load, ask_for};
use delayq::LinkSettings;
use delayq::admin::Durability;
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::environment::failovers;
use delayq_tests::redis_server::{RedisOptions, RedisServer, replicated};
use delayq_tests::sentinel::SERVICE;
use delayq_tests::sentinel_group::SentinelGroup;
use std::time::{Duration, Instant};

const SHARDS: u16 = 4;
const FAILOVERS: usize = 2;
/// Answered puts between two failovers.
const PUTS: usize = 300;
/// In the long form, over all failovers of the first test.
const PUTS_IN_ALL: usize = 100_000;
const CALL: Duration = Duration::from_secs(6);
const CONFIRM: Duration = Duration::from_secs(3);
/// Longer than a failover by hand takes, retries included.
const ORDERED: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy)]
enum By {
    Kill,
    Freeze,
    Hand,
}

struct Trial {
    replicas: usize,
    confirmations: u8,
    by: &'static [By],
    /// Divisor of the long form's numbers.
    share: usize,
}

// === impl Trial ===

impl Trial {
    async fn run(self) {
        let failovers_in_all = failovers().map_or(FAILOVERS, |many| many.div_ceil(self.share));
        let puts = failovers().map_or(PUTS, |many| PUTS_IN_ALL.div_ceil(many));
        let mut group = self.group().await;
        let link = LinkSettings::new(group.url()).deadline(CALL).confirm_timeout(CONFIRM);
        let (_, admin, producer) = created(settings(link, SHARDS)).await;
        ask_for(&admin, Durability::Replicas(self.confirmations)).await;
        replicated(&group.redises, 0).await;
        let (load, began, mut master) = (Load::start(&producer), Instant::now(), 0);
        let mut slowest = Duration::ZERO;
        for (n, by) in (0..failovers_in_all).zip(self.by.iter().cycle()) {
            let enough = load.answered() + puts;
            wait_until("answered puts", 10 * LONG, async || load.answered() >= enough).await;
            let former = master;
            let broken = Instant::now();
            master = fail(&mut group, former, *by).await;
            let known = broken.elapsed();
            let before = load.answered();
            wait_until("a put that the new master answers", LONG, async || load.answered() > before).await;
            mend(&mut group, former, *by).await;
            group.followed(master).await;
            let whole = broken.elapsed();
            slowest = slowest.max(whole);
            println!(
                "failover {} by {by:?}: known after {known:.1?}, whole after {whole:.1?}, {} answered",
                n + 1,
                load.answered()
            );
        }
        let enough = load.answered() + puts.min(PUTS);
        wait_until("more puts", LONG, async || load.answered() >= enough).await;
        let answers = load.stop().await;
        println!(
            "replica:{} of {}: {failovers_in_all} failovers, {} answered puts, {} answered cancels, {} calls not applied, {} \
             unknown, {:.0?} in all, the slowest failover {slowest:.0?}",
            self.confirmations,
            self.replicas,
            answers.put.len(),
            answers.cancelled.len(),
            answers.not_applied,
            answers.unknown,
            began.elapsed(),
        );
        answers.hold(&admin).await;
    }

    /// Masters without a replica refuse writes.
    async fn group(&self) -> SentinelGroup {
        let options = RedisOptions::default().set("repl-diskless-sync-delay", "0");
        let options = options.set("min-replicas-to-write", "1");
        SentinelGroup::with_replicas(RedisServer::start_with(options).await, self.replicas, "").await
    }
}

async fn fail(group: &mut SentinelGroup, master: usize, by: By) -> usize {
    match by {
        By::Kill => _ = group.redises[master].kill().await,
        By::Freeze => group.redises[master].freeze(),
        By::Hand => return fail_over(group, master).await,
    }
    group.master_after(master).await
}

/// A sentinel refuses while the previous failover is unfinished, and gives up if the replica is not promoted
/// within three seconds.
async fn fail_over(group: &SentinelGroup, master: usize) -> usize {
    let ordered = async {
        loop {
            let _ = group.sentinels[1].try_command::<String>(&["SENTINEL", "FAILOVER", SERVICE]).await;
            if let Ok(master) = tokio::time::timeout(ORDERED, group.master_after(master)).await {
                return master;
            }
        }
    };
    within("a failover by hand", 4 * LONG, ordered).await
}

async fn mend(group: &mut SentinelGroup, former: usize, by: By) {
    match by {
        By::Kill => group.redises[former].resume().await,
        By::Freeze => group.redises[former].thaw(),
        By::Hand => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_confirmed_outlives_masters_that_die_and_hang() {
    Trial { replicas: 2, confirmations: 1, by: &[By::Kill, By::Freeze], share: 1 }.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_every_replica_confirmed_outlives_failovers_by_hand() {
    Trial { replicas: 2, confirmations: 2, by: &[By::Hand], share: 4 }.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_only_replica_confirmed_outlives_failovers_by_hand() {
    Trial { replicas: 1, confirmations: 1, by: &[By::Hand], share: 4 }.run().await;
}
