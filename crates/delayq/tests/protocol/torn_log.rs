//! A torn append-only file and two restarts. Redis 7.0 leaves the beginning of a torn transaction in the
//! file, until the next EXEC: the second restart runs half a script before the writes in between.

use crate::bare_shard::BareShard;
use crate::power_cut::{log, moves, topic, work};
use crate::snapshot::Name;
use delayq::admin::Policy;
use delayq::protocol::{Owner, Scripts, ShardId};
use delayq::{Admin, Client, Message, MessageId, Producer};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const SHARD: ShardId = ShardId::new(0);
const MESSAGES: usize = 24;
const CUTS: usize = 24;
const FAR: Duration = Duration::from_secs(24 * 3600);

struct Scene {
    server: RedisServer,
    client: Client,
    producer: Producer,
    admin: Admin,
    log: PathBuf,
    whole: Vec<u8>,
    begun: usize,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let Deployment { server, client, producer, admin } =
            Deployment::on(RedisServer::private_with(RedisOptions::default().append_only("always")).await, 1)
                .await;
        // Every move leaves a trace.
        let keeps = Policy { remember_own: Some(FAR), remember_cancelled: Some(FAR), ..Policy::default() };
        moves(&client, &producer, 1).await;
        admin.topic(&topic()).set_policy(&keeps).await.unwrap();
        let log = log(&server);
        let begun = fs::read(&log).unwrap().len();
        moves(&client, &producer, MESSAGES).await;
        let whole = fs::read(&log).unwrap();
        Self { server, client, producer, admin, log, whole, begun }
    }

    async fn restart(&mut self) {
        self.server.kill().await;
        self.server.resume().await;
        self.is_back().await;
    }

    async fn is_back(&self) {
        wait_until("the client to be back", LONG, || async {
            self.admin.topic(&topic()).count().await.is_ok()
        })
        .await;
    }

    async fn tear(&mut self, end: usize) {
        self.server.kill().await;
        fs::write(&self.log, &self.whole[..end]).unwrap();
        self.server.resume().await;
        self.is_back().await;
    }

    async fn bodies(&self) -> BTreeSet<Name> {
        let mut bare = BareShard::uncreated(&self.server, "dq", Arc::new(Scripts::published())).await;
        bare.snapshot().await.bodies.keys().cloned().collect()
    }

    /// Runs some scripts, each with an EXEC that may also run the half script.
    async fn goes_on(&self, name: &str) {
        let order = Message::new(topic(), "x").with_id(MessageId::own(name).unwrap());
        assert!(self.producer.put(order).await.unwrap().outcome.is_accepted());
        Owner::new(self.client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0).unwrap();
        work(&self.client, 2).await;
    }

    /// True if a message needed repair; afterwards nothing is stuck, and due messages finish.
    async fn is_mended(&self, what: &str) -> bool {
        let audit = self.admin.audit().run(|_| {}).await.unwrap();
        let counters_alone = audit.findings.is_empty();
        let repaired = self.admin.audit().repair(audit, |_| {}).await.unwrap();
        assert!(repaired.left.is_clean() && repaired.failed.is_empty(), "{what}: {repaired:#?}");
        println!("{what}: {:?}, {} counters", repaired.mended, repaired.recounted);
        wait_until("what is due to be over", LONG, || async {
            Owner::new(self.client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0).unwrap();
            let none = work(&self.client, 2).await == 0;
            let numbers = self.admin.topic(&topic()).count().await.unwrap();
            none && (numbers.ready, numbers.leased) == (0, 0)
        })
        .await;
        assert!(self.admin.audit().run(|_| {}).await.unwrap().is_clean(), "{what}, drained");
        !counters_alone
    }

    /// Tears the file, restarts twice with work in between, and repairs; true if more than counters needed repair.
    async fn twice(&mut self, end: usize, rewrites: bool) -> bool {
        let what = format!("torn at byte {end}");
        self.tear(end).await;
        let before = self.bodies().await;
        if rewrites {
            self.rewrite().await;
        }
        self.goes_on(&format!("between-{end}")).await;
        self.restart().await;
        let needed = self.is_mended(&what).await;
        let after = self.bodies().await;
        let lost: Vec<_> = before.difference(&after).collect();
        assert!(lost.is_empty(), "{what}: lost {lost:?}");
        needed
    }

    async fn rewrite(&self) {
        assert!(Admin::new(self.client.clone()).check_server().await.unwrap().aof_as_loaded);
        self.server.command::<String>(&["BGREWRITEAOF"]).await;
        wait_until("the file to be rewritten", LONG, || async {
            let info: String = self.server.command(&["INFO", "persistence"]).await;
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrites:1")
        })
        .await;
        assert!(!Admin::new(self.client.clone()).check_server().await.unwrap().aof_as_loaded);
    }

    /// Ends to try: the end of each command, one byte before and one byte after.
    fn ends(&self) -> Vec<usize> {
        let mut at = self.begun;
        let mut ends = Vec::new();
        while at < self.whole.len() {
            at = command_end(&self.whole, at);
            ends.extend([at - 1, at, at + 1].into_iter().filter(|&end| end < self.whole.len()));
        }
        ends
    }
}

fn command_end(log: &[u8], mut at: usize) -> usize {
    let words = number(log, &mut at);
    for _ in 0..words {
        let length = number(log, &mut at);
        at += length + 2;
    }
    at
}

/// Such as `*3` or `$5`.
fn number(log: &[u8], at: &mut usize) -> usize {
    let end = *at + log[*at..].windows(2).position(|pair| pair == b"\r\n").unwrap();
    let number = std::str::from_utf8(&log[*at + 1..end]).unwrap().parse().unwrap();
    *at = end + 2;
    number
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_torn_log_and_two_restarts_a_repair_leaves_nothing_stuck_and_nothing_is_lost() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut scene = Scene::new().await;
    let ends = scene.ends();
    let mut needed = 0;
    for _ in 0..CUTS {
        needed += usize::from(scene.twice(ends[dice.usize(..ends.len())], false).await);
    }
    println!("{needed} of {CUTS} needed more than their counters repaired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_log_that_is_rewritten_before_the_next_restart_needs_no_repair() {
    let mut scene = Scene::new().await;
    let end = scene.ends().into_iter().rev().find(|&end| torn_in_a_transaction(&scene.whole, end)).unwrap();
    assert!(!scene.twice(end, true).await);
    let numbers = scene.admin.topic(&topic()).count().await.unwrap();
    assert!(numbers.balances(), "{numbers:?}");
}

fn torn_in_a_transaction(log: &[u8], end: usize) -> bool {
    let (mut at, mut inside) = (0, false);
    loop {
        let next = command_end(log, at);
        if next >= end {
            return inside && next != end;
        }
        match &log[at..next] {
            b"*1\r\n$5\r\nMULTI\r\n" => inside = true,
            b"*1\r\n$4\r\nEXEC\r\n" => inside = false,
            _ => {}
        }
        at = next;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole sweep takes many minutes: a measurement"]
async fn at_every_byte_a_torn_log_and_two_restarts_leave_nothing_stuck_after_a_repair() {
    let mut scene = Scene::new().await;
    let mut needed = 0;
    for end in scene.begun..scene.whole.len() {
        needed += usize::from(scene.twice(end, false).await);
    }
    println!("{needed} of {} needed more than their counters repaired", scene.whole.len() - scene.begun);
}
