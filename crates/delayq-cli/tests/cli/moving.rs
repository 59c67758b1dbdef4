//! The whole of delayq while one Redis becomes several.

use crate::flow::{BOUND, Flow, Load, delayq};
use delayq::{Client, Producer, ProducerOptions, ShardCount};
use delayq_tests::binary::Finished;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings as one_redis};
use delayq_tests::redis_nodes::{section, settings};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const SHARDS: u16 = 8;

async fn run(file: &Path, args: &[&str]) -> Finished {
    let done = delayq(file, args).run(b"", LONG).await;
    assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    done
}

async fn move_half() -> Timing {
    let persistent = RedisOptions::default().append_only("everysec").set("repl-diskless-sync-delay", "0");
    let (a, b) =
        (RedisServer::start_with(persistent.clone()).await, RedisServer::start_with(persistent).await);
    let row =
        |name: &str, server: &RedisServer, shards: &str| [name.to_owned(), server.url(), shards.to_owned()];
    // A deployment of one Redis, and processes that have nodes already beside one that has not.
    let (_, _, by_url) = created(one_redis(a.url(), SHARDS)).await;
    let before = [row("a", &a, "0-7"), row("b", &b, "")];
    let mut flow = Flow::start(&section(&before), settings(&before, SHARDS)).await;
    let producer = Producer::start(flow.client.clone(), ProducerOptions::default());
    flow.flows(&by_url, "by-url").await;
    flow.flows(&producer, "begin").await;
    let load = Load::start(producer.clone());
    assert!(run(&flow.configuration, &["shards", "name"]).await.stdout.starts_with("8 shards record"));

    let port = a.url().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    b.command::<()>(&["REPLICAOF", "127.0.0.1", &port]).await;
    wait_until("the copy", LONG, async || b.field("master_link_status").await == "up").await;
    let stall = Stall::watch();
    let moved = run(&flow.configuration, &["shards", "move", "4-7", "--to", "b", "--yes", "--json"]).await;
    let served = Instant::now();
    let report: Value = serde_json::from_str(&moved.stdout).unwrap();
    assert_eq!((&report["from"], &report["moved"]), (&"a".into(), &4.into()), "{report}");
    let count = ShardCount::new(SHARDS).unwrap();
    let is_moved = |id: String| (4..SHARDS).contains(&count.shard_of_name(&id).get());
    let what = (0..).map(|n| format!("moved-{n}"));
    let what =
        what.clone().find(|what| ["out", "work"].iter().all(|topic| is_moved(format!("{what}-{topic}"))));
    flow.flows(&producer, &what.unwrap()).await;
    let away = Duration::from_millis(report["away_ms"].as_u64().unwrap());
    let timing = Timing::of("moved", away + served.elapsed(), BOUND, stall.allow(BOUND));

    // Configurations of both kinds, before what is left behind is deleted and afterwards.
    flow.restart_services().await;
    flow.flows(&producer, "restarted").await;
    run(&flow.configuration, &["shards", "clean"]).await;
    let after = [row("a", &a, "0-3"), row("b", &b, "4-7")];
    let text = std::fs::read_to_string(&flow.configuration).unwrap();
    std::fs::write(&flow.configuration, text.replace(&section(&before), &section(&after))).unwrap();
    flow.restart_services().await;
    flow.flows(&producer, "new-map").await;
    let doctor = run(&flow.configuration, &["doctor"]).await;
    assert!(!doctor.stdout.contains("FAILED"), "{doctor:?}");
    let shards = run(&flow.configuration, &["shards", "--json"]).await;
    let lines: Vec<Value> = serde_json::from_str(&shards.stdout).unwrap();
    let homes: Vec<&str> = lines.iter().map(|line| line["node"].as_str().unwrap()).collect();
    assert_eq!(homes, ["a", "a", "a", "a", "b", "b", "b", "b"]);
    flow.check(load, &[]).await;
    Client::connect(settings(&before, SHARDS)).await.unwrap();
    timing
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_move_to_a_new_node_under_load_and_nothing_is_lost_or_comes_twice() {
    conclusive(move_half).await;
}
