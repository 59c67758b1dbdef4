//! Outages of a master behind sentinels, and of the sentinels.

use super::Scene;
use crate::redis_server::{RedisOptions, RedisServer};
use crate::sentinel::{SERVICE, Sentinel};
use crate::sentinel_group::SentinelGroup;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::sleep;

/// An outage of sentinels or their master.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// The master is killed, and another Redis is promoted.
    Killed,
    /// Two of three sentinels are killed while every connection is reset: clients are cut off while asking for the
    /// master.
    HalfWay,
    /// The sentinels promote another master by order.
    Ordered,
    /// The master is frozen until another Redis is promoted.
    Frozen,
    /// Every connection is reset while two of three sentinels are frozen, and stay so: a client that asks a frozen
    /// sentinel gets neither an answer nor an error.
    Mute,
    /// All sentinels are killed while every connection is reset.
    NoSentinel,
}

/// A master with two replicas and three sentinels.
#[derive(Debug)]
pub struct SentinelScene {
    group: Mutex<SentinelGroup>,
    url: String,
}

// === impl SentinelScene ===

impl Scene for SentinelScene {
    type Kind = Kind;
    const NAME: &'static str = "sentinels";
    /// Sentinels frozen for two seconds take part in no failover for thirty (TILT), unless restarted.
    const KINDS: &'static [Kind] =
        &[Kind::HalfWay, Kind::Killed, Kind::Mute, Kind::NoSentinel, Kind::Ordered, Kind::Frozen];
    const OF_CLIENTS: &'static [Kind] = &[Kind::Killed, Kind::HalfWay, Kind::Frozen, Kind::Mute];
    const SHARDS: u16 = 2;
    const LOSES: bool = true;

    async fn start() -> Self {
        let options = RedisOptions::default().append_only("everysec").set("repl-diskless-sync-delay", "0");
        let group = SentinelGroup::around(RedisServer::start_with(options).await, "").await;
        Self { url: group.url(), group: Mutex::new(group) }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    async fn outage(&self, kind: Kind, lasts: Duration) -> Instant {
        let mut group = self.group.lock().await;
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
                group.demoted(former).await;
            }
            Kind::Mute => {
                for sentinel in some(2) {
                    group.sentinels[sentinel].freeze();
                }
                reset(&group.redises[former]).await;
                // go-redis asks its known sentinel twice, then all sentinels: three times its ReadTimeout.
                sleep(lasts).await;
            }
            Kind::HalfWay | Kind::NoSentinel => {
                let which = some(if matches!(kind, Kind::HalfWay) { 2 } else { 3 });
                for &sentinel in &which {
                    group.sentinels[sentinel].kill().await;
                }
                reset(&group.redises[former]).await;
                sleep(lasts).await;
                for sentinel in which {
                    group.sentinels[sentinel].resume();
                }
                // Counts from the first answer.
                group.master().await;
            }
        }
        Instant::now()
    }

    /// Makes a former master, if any, follow the current one.
    async fn mend(&self) {
        let mut group = self.group.lock().await;
        group.sentinels.iter().for_each(Sentinel::thaw);
        for redis in &mut group.redises {
            redis.resume().await;
            redis.thaw();
        }
        group.all_follow().await;
    }
}

fn some(count: usize) -> Vec<usize> {
    let first = fastrand::usize(..3);
    (0..count).map(|n| (first + n) % 3).collect()
}

async fn reset(master: &RedisServer) {
    for of in ["normal", "pubsub"] {
        master.command::<()>(&["CLIENT", "KILL", "TYPE", of]).await;
    }
}
