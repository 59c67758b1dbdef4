//! Outages of a master behind sentinels, and of the sentinels.

use super::{Outage, Run};
use crate::sentinel::section;
use delayq_tests::deployment::settings;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::sentinel::SERVICE;
use delayq_tests::sentinel_group::SentinelGroup;
use std::time::Instant;
use tokio::sync::Mutex;
use tokio::time::sleep;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The master is killed, and another one is promoted.
    Killed,
    /// Two of three sentinels are gone while every connection is reset: who asks for the master is left alone half-way.
    HalfWay,
    /// The sentinels promote another master by order.
    Ordered,
    /// The master is frozen until another one is promoted.
    Frozen,
    /// All sentinels are gone while every connection is reset.
    NoSentinel,
}

const KINDS: [Kind; 5] = [Kind::HalfWay, Kind::Killed, Kind::NoSentinel, Kind::Ordered, Kind::Frozen];

async fn outage(group: &mut SentinelGroup, Outage { kind, lasts }: Outage<Kind>) -> Instant {
    let former = group.master().await;
    match kind {
        Kind::Killed => {
            group.redises[former].kill().await;
            group.master_after(former).await;
        }
        Kind::Frozen => {
            group.redises[former].freeze();
            group.master_after(former).await;
        }
        Kind::Ordered => {
            group.sentinels[fastrand::usize(..3)].command::<()>(&["SENTINEL", "FAILOVER", SERVICE]).await;
            group.master_after(former).await;
        }
        Kind::HalfWay | Kind::NoSentinel => {
            let gone = if matches!(kind, Kind::HalfWay) { 2 } else { 3 };
            let first = fastrand::usize(..3);
            let which: Vec<usize> = (0..gone).map(|n| (first + n) % 3).collect();
            for &sentinel in &which {
                group.sentinels[sentinel].kill().await;
            }
            for of in ["normal", "pubsub"] {
                group.redises[former].command::<()>(&["CLIENT", "KILL", "TYPE", of]).await;
            }
            sleep(lasts).await;
            for sentinel in which {
                group.sentinels[sentinel].resume();
            }
            // From when they answer.
            group.master().await;
        }
    }
    Instant::now()
}

/// The former master, if there is one, follows the present one.
async fn mend(group: &mut SentinelGroup) {
    for redis in &mut group.redises {
        redis.resume().await;
        redis.thaw();
    }
    group.all_known().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_goes_on_within_three_seconds_after_each_outage_behind_sentinels() {
    let options = RedisOptions::default().append_only("everysec").set("repl-diskless-sync-delay", "0");
    let group = SentinelGroup::around(RedisServer::start_with(options).await, "").await;
    let run = Run::start("sentinels", &section(&group), settings(group.url(), 2)).await;
    let group = Mutex::new(group);
    let outage = async |what| outage(&mut *group.lock().await, what).await;
    run.through(&KINDS, true, outage, async || mend(&mut *group.lock().await).await).await;
}
