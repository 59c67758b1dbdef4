//! All of delayq over a Redis Cluster while slots move, and while a master dies.

use crate::flow::{Flow, Load, delayq};
use crate::nodes::told;
use delayq::protocol::{Keys, ShardId};
use delayq::{Namespace, Producer, ProducerOptions, ShardCount};
use delayq_tests::deadline::LONG;
use delayq_tests::deployment::settings;
use delayq_tests::folder::Folder;
use delayq_tests::outages::{BOUND, Window, now_ms};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

const SHARDS: u16 = 6;

fn slot(shard: u16) -> u16 {
    Keys::new(Namespace::default()).slot(ShardId::new(shard))
}

async fn whole_run() -> Timing {
    let mut cluster = RedisCluster::with_replicas().await;
    let redis = format!("[redis]\nurl = '{}'", cluster.url());
    let flow = Flow::start(&redis, settings(cluster.url(), SHARDS)).await;
    let producer = Producer::start(flow.client.clone(), ProducerOptions::default());
    flow.flows(&producer, "begin").await;
    let load = Load::start(producer.clone());

    // There and back: a move costs only time, so no window is allowed.
    for to in [1, 0] {
        let masters = cluster.masters().await;
        for shard in 0..SHARDS {
            let master = cluster.master_of(slot(shard)).await;
            let at = masters.iter().position(|&one| one == master).expect("it is one of the masters");
            cluster.move_slot(slot(shard), masters[(at + 1 + to) % masters.len()]).await;
        }
        flow.flows(&producer, &format!("moved-{to}")).await;
    }

    let doctor = delayq(&flow.configuration, &["doctor", "--json"]).run(b"", LONG).await;
    for named in ["a cluster of 3 masters", "shards: ", "1 replicas"] {
        assert!(doctor.stdout.contains(named), "{doctor:?}");
    }
    let shards = delayq(&flow.configuration, &["shards", "--json"]).run(b"", LONG).await;
    let shards: Vec<Value> = serde_json::from_str(&shards.stdout).unwrap();
    for (line, shard) in shards.iter().zip(0..) {
        let master = cluster.master_of(slot(shard)).await;
        assert_eq!(line["node"], cluster.nodes[master].address(), "{line}");
    }

    let (victim, stall) = (cluster.master_of(slot(0)).await, Stall::watch());
    let broken = now_ms();
    cluster.nodes[victim].kill().await;
    cluster.take_over(victim, slot(0)).await;
    let known = Instant::now();
    flow.flows(&producer, "killed").await;
    let timing = Timing::of("killed", known.elapsed(), BOUND, stall.allow(BOUND));
    let killed = Window::since(broken);
    cluster.nodes[victim].resume().await;
    cluster.settled().await;
    flow.check(load, &[killed]).await;
    timing
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_service_follows_the_slots_and_only_a_failover_loses_or_repeats_anything() {
    conclusive(whole_run).await;
}

#[tokio::test]
async fn the_rules_that_are_printed_are_enough_for_a_cluster() {
    let cluster = RedisCluster::start().await;
    let folder = Folder::new("cluster");
    let file = folder.join("delayq.toml");
    let text = format!("[redis]\nurl = '{}'\n[etcd]\nenabled = false\n", cluster.url());
    std::fs::write(&file, text).unwrap();
    let printed = delayq(&file, &["acl", "print", "--role", "admin", "--json"]).run(b"", LONG).await;
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    let rule = printed[0]["redis"].as_str().unwrap();
    for node in &cluster.nodes {
        let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(rule.split(' ').skip(1)).collect();
        node.command::<()>(&words).await;
        node.command::<()>(&["ACL", "SETUSER", "poor", "on", ">PASSWORD", "-@all", "+hello", "+auth"]).await;
    }
    let init = |user: &'static str| {
        let init = delayq(&file, &["init"]).env("DELAYQ__REDIS__USERNAME", user);
        init.env("DELAYQ__REDIS__PASSWORD", "PASSWORD").run(b"", LONG)
    };
    let refused = init("poor").await;
    assert!(refused.stderr.contains("cluster|info"), "{refused:?}");
    assert_eq!(init("delayq-admin").await.code, Some(0));
}

#[tokio::test]
async fn after_a_master_is_lost_for_good_the_others_take_its_slots_and_init_creates_its_shards_again() {
    let mut cluster = RedisCluster::start().await;
    let folder = Folder::new("cluster");
    let (file, backup) = (folder.join("delayq.toml"), folder.join("backup"));
    let redis = format!("[redis]\nurl = '{}'\n[etcd]\nenabled = false\n", cluster.url());
    std::fs::write(&file, format!("[deployment]\nshards = {SHARDS}\n{redis}")).unwrap();
    let path = backup.display().to_string();
    let run = async |args: &[&str], input: &str| delayq(&file, args).run(input.as_bytes(), LONG).await;
    let ids: Vec<String> = (0..60).map(|n| format!("own-{n}")).collect();
    let lines: String = ids.iter().map(|id| format!("{{\"id\":\"{id}\",\"due\":4102444800000}}\n")).collect();
    for (args, input) in [(&["init"][..], ""), (&["put", "orders", "--from", "-"], &lines)] {
        let done = run(args, input).await;
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let (lost, mut lost_shards) = (cluster.master_of(slot(0)).await, BTreeSet::new());
    for shard in 0..SHARDS {
        if cluster.master_of(slot(shard)).await == lost {
            lost_shards.insert(shard);
        }
    }
    let count = ShardCount::new(SHARDS).unwrap();
    let is_lost = |id: &&String| lost_shards.contains(&count.shard_of_name(id).get());
    let (gone, left): (BTreeSet<String>, BTreeSet<String>) = ids.iter().cloned().partition(|id| is_lost(&id));

    cluster.nodes[lost].kill().await;
    let stopped = run(&["backup", &path], "").await;
    assert!(stopped.code == Some(69) && !backup.exists(), "{stopped:?}");
    cluster.give_up(lost).await;
    let refused = run(&["backup", &path], "").await;
    assert!(refused.code != Some(0) && refused.stderr.contains("delayq init"), "{refused:?}");
    for args in [&["init"][..], &["backup", &path]] {
        let done = run(args, "").await;
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    }
    assert_eq!(told(&backup).0, left);
    let again = run(&["put", "orders", "--from", "-", "--json"], &lines).await;
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["outcomes"], json!({ "stored": gone.len(), "exists": left.len() }), "{again}");
}
