//! All of delayq while one Redis becomes several.

use super::agreement::agreed;
use crate::flow::{Flow, Load, delayq};
use delayq::admin::MoveStep;
use delayq::protocol::ShardId;
use delayq::{Admin, Client, Message, Producer, ProducerOptions, PutOutcome, ShardCount, Topic};
use delayq_tests::binary::Finished;
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings as one_redis};
use delayq_tests::folder::Folder;
use delayq_tests::outages::BOUND;
use delayq_tests::redis_nodes::{section, settings};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

const SHARDS: u16 = 8;

async fn run(file: &Path, args: &[&str]) -> Finished {
    let done = delayq(file, args).run(b"", LONG).await;
    assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    done
}

async fn replicate(a: &RedisServer, b: &RedisServer) {
    b.command::<()>(&["REPLICAOF", "127.0.0.1", &a.port().to_string()]).await;
    wait_until("the copy", LONG, async || b.field("master_link_status").await == "up").await;
}

fn moves(id: &str) -> bool {
    (4..SHARDS).contains(&ShardCount::new(SHARDS).unwrap().shard_of_name(id).get())
}

async fn move_half() -> Timing {
    let persistent = RedisOptions::default().append_only("everysec").set("repl-diskless-sync-delay", "0");
    let (a, b) =
        (RedisServer::start_with(persistent.clone()).await, RedisServer::start_with(persistent).await);
    let row =
        |name: &str, server: &RedisServer, shards: &str| [name.to_owned(), server.url(), shards.to_owned()];
    // A deployment of one Redis: some processes already have a map of nodes, one does not.
    let (_, _, by_url) = created(one_redis(a.url(), SHARDS)).await;
    let before = [row("a", &a, "0-7"), row("b", &b, "")];
    let mut flow = Flow::start(&section(&before), settings(&before, SHARDS)).await;
    let producer = Producer::start(flow.client.clone(), ProducerOptions::default());
    flow.flows(&by_url, "by-url").await;
    flow.flows(&producer, "begin").await;
    let load = Load::start(producer.clone());
    assert!(run(&flow.configuration, &["shards", "name"]).await.stdout.starts_with("8 shards now record"));

    replicate(&a, &b).await;
    let stall = Stall::watch();
    let moved = run(&flow.configuration, &["shards", "move", "4-7", "--to", "b", "--yes", "--json"]).await;
    let served = Instant::now();
    let report: Value = serde_json::from_str(&moved.stdout).unwrap();
    assert_eq!((&report["from"], &report["moved"]), (&"a".into(), &4.into()), "{report}");
    let mut what = (0..).map(|n| format!("moved-{n}"));
    let what = what.find(|what| ["out", "work"].iter().all(|topic| moves(&format!("{what}-{topic}"))));
    flow.flows(&producer, &what.unwrap()).await;
    let away = Duration::from_millis(report["away_ms"].as_u64().unwrap());
    let timing = Timing::of("moved", away + served.elapsed(), BOUND, stall.allow(BOUND));

    // Configurations of both kinds, before and after the leftovers are deleted.
    flow.restart_services().await;
    flow.flows(&producer, "restarted").await;
    run(&flow.configuration, &["shards", "clean"]).await;
    let after = [row("a", &a, "0-3"), row("b", &b, "4-7")];
    flow.rewrite(&section(&before), &section(&after));
    flow.restart_services().await;
    flow.flows(&producer, "new-map").await;
    // A timer delivers before its subscription is complete.
    let healthy = async || delayq(&flow.configuration, &["doctor"]).run(b"", LONG).await.code == Some(0);
    wait_until("the doctor to find nothing", LONG, healthy).await;
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

#[tokio::test]
async fn an_older_copy_of_a_node_that_comes_back_after_a_move_is_named_by_doctor_and_check() {
    let options = RedisOptions::default().set("repl-diskless-sync-delay", "0");
    let mut a = RedisServer::start_with(options.clone()).await;
    let (b, folder) = (RedisServer::start_with(options).await, Folder::new("moving"));
    let nodes = [["a".to_owned(), a.url(), "0-3".to_owned()], ["b".to_owned(), b.url(), String::new()]];
    let file = folder.join("delayq.toml");
    let text = format!("[deployment]\nshards = 4\n{}[etcd]\nenabled = false\n", section(&nodes));
    std::fs::write(&file, text).unwrap();
    run(&file, &["init"]).await;
    replicate(&a, &b).await;
    // Refused while Redis saves the copy for the replica.
    wait_until("a snapshot", LONG, async || a.try_command::<()>(&["SAVE"]).await.is_ok()).await;
    run(&file, &["shards", "move", "2-3", "--to", "b", "--yes"]).await;
    let says = async || {
        let look = async |command: &str| delayq(&file, &[command, "--json"]).run(b"", LONG).await;
        let (doctor, check) = (look("doctor").await, look("check").await);
        assert!(!agreed(&doctor, &check).is_empty());
        check.stdout.contains("shards 2-3 are served by several nodes at once: a and b")
    };
    assert!(!says().await, "a keeps the fence");
    // Redis has no append-only file: the snapshot is older than the move.
    a.kill_and_resume().await;
    assert!(says().await);
}

/// A fleet of all services, with shards 4 to 7 on their way from `a` to `b`, which has no shards.
async fn fleet_moves() {
    let persistent = RedisOptions::default().append_only("everysec").set("repl-diskless-sync-delay", "0");
    let (a, b) =
        (RedisServer::start_with(persistent.clone()).await, RedisServer::start_with(persistent).await);
    let row =
        |name: &str, server: &RedisServer, shards: &str| [name.to_owned(), server.url(), shards.to_owned()];
    let nodes = [row("a", &a, "0-7"), row("b", &b, "")];
    let flow = Flow::start_fleet(&section(&nodes), settings(&nodes, SHARDS)).await;
    let producer = flow.producer();
    flow.flows(&producer, "begin").await;
    let load = Load::start(producer.clone());
    assert_eq!(run(&flow.configuration, &["shards", "clean"]).await.stdout, "nothing to delete\n");
    replicate(&a, &b).await;

    // The move is killed once no node serves the shards: puts meanwhile wait in the spool.
    let admin = Admin::new(flow.client.clone());
    let shards: BTreeSet<ShardId> = (4..SHARDS).map(ShardId::new).collect();
    let killed = tokio::spawn(async move {
        let die = |step| assert!(step != MoveStep::Copied, "killed");
        admin.shards().move_to(&shards, &"b".parse().unwrap(), die).await
    });
    assert!(within("the end", LONG, killed).await.unwrap_err().is_panic());
    for topic in ["out", "work"] {
        let mut ids = (0..).map(|n| format!("spooled-{topic}-{n}"));
        let id = ids.find(|id| moves(id)).unwrap();
        let message = Message::new(Topic::new(topic).unwrap(), "spooled").id(id).unwrap();
        let put = producer.put(message).await.unwrap();
        assert_eq!(put.outcome, PutOutcome::Spooled, "{topic}");
    }
    let back = ["shards", "move", "4-7", "--to", "b", "--back"];
    assert_eq!(run(&flow.configuration, &back).await.stdout, "4 shards taken back\n");
    flow.flows(&producer, "back").await;
    assert_eq!(run(&flow.configuration, &back).await.stdout, "0 shards taken back\n", "a repeat");
    assert_eq!(run(&flow.configuration, &["shards", "clean"]).await.stdout, "nothing to delete\n");

    let there = ["shards", "move", "4-7", "--to", "b", "--yes"];
    let moved = run(&flow.configuration, &there).await.stdout;
    assert!(moved.starts_with("node b serves shards 4-7 now: 4 moved from a"), "{moved}");
    flow.flows(&producer, "moved").await;
    let refused = delayq(&flow.configuration, &back).run(b"", LONG).await;
    assert!(refused.code != Some(0) && refused.stderr.contains("already"), "{refused:?}");
    let deleted = run(&flow.configuration, &["shards", "clean"]).await.stdout;
    assert!(deleted.contains("at node a") && deleted.contains("at node b"), "{deleted}");
    flow.flows(&producer, "clean").await;

    wait_until("the spool to be empty", LONG, async || flow.spooled().waiting == 0).await;
    flow.check(load, &[]).await;
    let stats = flow.spooled();
    assert!(
        stats.replayed >= 2 && stats.waiting == 0 && stats.rejected == 0 && stats.balances(),
        "{stats:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_fleet_follows_shards_that_are_taken_back_and_moved_and_its_spool_ends_empty() {
    fleet_moves().await;
}
