//! All of delayq over Sentinel while the master changes.

use crate::flow::{Flow, Load, delayq};
use delayq::{Producer, ProducerOptions};
use delayq_tests::deadline::LONG;
use delayq_tests::deployment::settings;
use delayq_tests::folder::Folder;
use delayq_tests::outages::{BOUND, Window, now_ms};
use delayq_tests::sentinel::SERVICE;
use delayq_tests::sentinel_group::SentinelGroup;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use serde_json::Value;
use std::time::Instant;

const SHARDS: u16 = 2;

pub(crate) fn section(group: &SentinelGroup) -> String {
    let nodes: Vec<String> =
        group.sentinels.iter().map(|sentinel| format!("'{}'", sentinel.address())).collect();
    format!("[redis.sentinel]\nnodes = [{}]\nservice = '{SERVICE}'", nodes.join(", "))
}

async fn failover(
    (group, flow): (&mut SentinelGroup, &Flow),
    producer: &Producer,
    break_it: impl AsyncFn(&mut SentinelGroup),
    what: &str,
) -> (Window, Timing) {
    let (former, stall) = (group.master_by(0).await.unwrap(), Stall::watch());
    let broken = now_ms();
    break_it(group).await;
    group.master_after(former).await;
    group.demoted(former).await;
    let known = Instant::now();
    flow.flows(producer, what).await;
    let timing = Timing::of(what, known.elapsed(), BOUND, stall.allow(BOUND));
    (Window::since(broken), timing)
}

async fn whole_run() -> Timing {
    let mut group = SentinelGroup::start().await;
    let flow = Flow::start(&section(&group), settings(group.url(), SHARDS)).await;
    let producer = Producer::start(flow.client.clone(), ProducerOptions::default());
    flow.flows(&producer, "begin").await;
    let doctor = delayq(&flow.configuration, &["doctor", "--json"]).run(b"", LONG).await;
    for named in ["3 of 3 named answer and see 3, quorum 2", "2 replicas", "min-replicas-to-write is 0"] {
        assert!(doctor.stdout.contains(named), "{doctor:?}");
    }
    let load = Load::start(producer.clone());
    let kill = async |group: &mut SentinelGroup| _ = group.redises[0].kill().await;
    let (killed, timing) = failover((&mut group, &flow), &producer, kill, "killed").await;
    group.redises[0].resume().await;
    group.all_follow().await;
    let by_hand = async |group: &mut SentinelGroup| {
        group.sentinels[2].command::<()>(&["SENTINEL", "FAILOVER", SERVICE]).await;
    };
    let (moved, second) = failover((&mut group, &flow), &producer, by_hand, "moved").await;
    flow.check(load, &[killed, moved]).await;
    timing.and(second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_service_follows_the_master_and_only_what_was_not_replicated_is_lost_or_repeated() {
    conclusive(whole_run).await;
}

#[tokio::test]
async fn the_rules_that_are_printed_for_the_sentinels_are_enough() {
    let (group, folder) = (SentinelGroup::start().await, Folder::new("sentinel"));
    let file = folder.join("delayq.toml");
    std::fs::write(&file, format!("{}\n[etcd]\nenabled = false\n", section(&group))).unwrap();
    let printed = delayq(&file, &["acl", "print", "--role", "admin", "--json"]).run(b"", LONG).await;
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    let rule = printed[0]["sentinel"].as_str().unwrap();
    for sentinel in &group.sentinels {
        let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(rule.split(' ').skip(1)).collect();
        sentinel.command::<()>(&words).await;
    }
    let init = |user: &'static str| {
        let init = delayq(&file, &["init"]).env("DELAYQ__REDIS__SENTINEL__USERNAME", user);
        init.env("DELAYQ__REDIS__SENTINEL__PASSWORD", "PASSWORD").run(b"", LONG)
    };
    let refused = init("stranger").await;
    assert!(refused.stderr.contains("WRONGPASS"), "{refused:?}");
    assert_eq!(init("delayq-admin").await.code, Some(0));
}
