//! Two hundred timers at once, in a test program of their own: their start delays everything else on the machine.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]
#![allow(dead_code, reason = "what the tests of the timer share is not all of use here")]

#[path = "../timer/bounds.rs"]
mod bounds;
#[path = "../timer/drill.rs"]
mod drill;
#[path = "../timer/fleet.rs"]
mod fleet;
#[path = "../timer/pulse.rs"]
mod pulse;
#[path = "../timer/stand.rs"]
mod stand;
#[path = "../timer/witness.rs"]
mod witness;

use bounds::CROWD;
use delayq_tests::timing::conclusive;
use drill::Drill;
use fleet::{Fleet, Route};
use futures_util::future::join_all;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_timers_started_at_once_share_and_nothing_is_late() {
    conclusive(async || {
        const CROWD_SIZE: usize = 200;
        let mut fleet = Fleet::with(256).await;
        // The test is about the start, not about 200 keep-alives in this machine's spare time.
        fleet.times.lease = Duration::from_secs(10);
        fleet.times.poll = Duration::from_secs(5);
        // One connection, on which 200 starts check 256 shards each.
        fleet.times.call = Duration::from_secs(30);
        fleet.etcd_call = Duration::from_secs(5);
        let client = fleet.client_at(&fleet.stand.server.address());
        let drill = Drill::new(fleet).await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        let names: Vec<String> = (0..CROWD_SIZE).map(|n| format!("m{n}")).collect();
        let route = || Route { client: client.clone(), ..drill.fleet.direct() };
        let crowd = join_all(names.iter().map(|name| drill.timer_by(name, route()))).await;
        drill.settled(&crowd.iter().chain([&one, &other]).collect::<Vec<_>>()).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&CROWD).await.timing
    })
    .await;
}
