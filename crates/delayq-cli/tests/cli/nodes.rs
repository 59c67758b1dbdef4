//! All of delayq over several independent Redises while one is away, and the command's report of the nodes.

use crate::flow::{Flow, Load, delayq};
use delayq::{Producer, ProducerOptions, ShardCount};
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::outages::{Window, now_ms};
use delayq_tests::redis_nodes::{RedisNodes, section};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_away_stops_its_shards_alone_and_nothing_is_lost() {
    let mut nodes = RedisNodes::start(2).await;
    let mut flow = Flow::start(&nodes.section(), nodes.settings()).await;
    let producer = Producer::start(flow.client.clone(), ProducerOptions::default());
    flow.flows(&producer, "begin").await;
    let load = Load::start(producer.clone());

    let broken = now_ms();
    nodes.servers[1].kill().await;
    // Generated ids avoid the node, so both services continue with new messages.
    for _ in 0..3 {
        flow.flows_anywhere(&producer).await;
    }
    let doctor = delayq(&flow.configuration, &["doctor", "--json"]).run(b"", LONG).await;
    assert!(doctor.stdout.contains("b (redis://"), "{doctor:?}");
    // A timer and a forwarder that start meanwhile serve the other nodes.
    flow.restart_services().await;
    flow.flows_anywhere(&producer).await;

    nodes.servers[1].resume().await;
    let away = Window::since(broken);
    wait_until("the node's shards to be served again", LONG, async || {
        let doctor = delayq(&flow.configuration, &["doctor", "--json"]).run(b"", LONG).await;
        doctor.code == Some(0)
    })
    .await;
    flow.flows(&producer, "back").await;
    flow.check_losses(load, &[], &[away]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_came_back_empty_stops_its_shards_alone_until_they_are_created() {
    let nodes = RedisNodes::start(2).await;
    let mut flow = Flow::start(&nodes.section(), nodes.settings()).await;
    let producer = Producer::start(flow.client.clone(), ProducerOptions::default());
    // A name whose two messages both have shards in this range.
    let within = |what: &str, shards: std::ops::Range<u16>| {
        let is_in = |id: String| shards.contains(&flow.client.shards().shard_of_name(&id).get());
        let mut whats = (0..).map(|n| format!("{what}-{n}"));
        whats.find(|what| ["out", "work"].iter().all(|topic| is_in(format!("{what}-{topic}")))).unwrap()
    };
    let [begin, emptied, restarted] = ["begin", "emptied", "restarted"].map(|what| within(what, 2..6));
    let created = within("created", 0..2);
    flow.flows(&producer, &begin).await;
    nodes.servers[0].command::<()>(&["FLUSHALL"]).await;
    flow.flows(&producer, &emptied).await;
    flow.restart_services().await;
    flow.flows(&producer, &restarted).await;
    let init = delayq(&flow.configuration, &["init"]).run(b"", LONG).await;
    assert!(init.stdout.contains("created 2 of 6 shards"), "{init:?}");
    flow.flows(&producer, &created).await;
}

#[tokio::test]
async fn a_growth_gives_the_new_shards_to_the_node_that_was_asked_for_and_to_no_other() {
    let nodes = RedisNodes::start(2).await;
    let folder = Folder::new("nodes");
    let file = folder.join("delayq.toml");
    let run = async |rows: &[[String; 3]], args: &[&str]| {
        let text = format!("[deployment]\nshards = 4\n{}[etcd]\nenabled = false\n", section(rows));
        std::fs::write(&file, text).unwrap();
        delayq(&file, args).run(b"", LONG).await
    };
    let (rows, grow) = (nodes.rows(), ["shards", "grow", "--to", "6", "--yes", "--node"]);
    let init = run(&rows[..2], &["init"]).await;
    assert_eq!(init.code, Some(0), "{init:?}");
    for (rows, node) in [(&rows[..2], "c"), (&rows, "b"), (&rows, "d")] {
        let refused = run(rows, &[&grow[..], &[node]].concat()).await;
        assert_eq!(refused.code, Some(64), "{refused:?}");
        assert!(refused.stderr.contains(&format!("shard 4 is not one of node {node}")), "{}", refused.stderr);
    }
    assert_eq!(nodes.servers[2].command::<u64>(&["DBSIZE"]).await, 0, "nothing was created");

    let grown = run(&rows, &[&grow[..], &["c"]].concat()).await;
    assert!(grown.stdout.starts_with("there are 6 shards now: 2 added, 4 updated"), "{grown:?}");
    let shards = run(&rows, &["shards", "--json"]).await;
    let lines: Vec<serde_json::Value> = serde_json::from_str(&shards.stdout).unwrap();
    let homes: Vec<&str> = lines.iter().map(|line| line["node"].as_str().unwrap()).collect();
    assert_eq!(homes, ["a", "a", "b", "b", "c", "c"], "{shards:?}");
}

#[tokio::test]
async fn of_several_redises_the_one_without_room_or_with_another_clock_is_named() {
    let (clock, folder) = (ClockShim::new(), Folder::new("nodes"));
    let b = RedisServer::start_with(RedisOptions::default().clock(&clock)).await;
    let a = RedisServer::start_with(RedisOptions::default()).await;
    let row =
        |name: &str, server: &RedisServer, shards: &str| [name, &server.url(), shards].map(str::to_owned);
    let rows = [row("a", &a, "0-1"), row("b", &b, "2-3")];
    let file = folder.join("delayq.toml");
    let text = format!("[deployment]\nshards = 4\n{}[etcd]\nenabled = false\n", section(&rows));
    std::fs::write(&file, text).unwrap();
    let run = async |args: &[&str]| delayq(&file, args).run(b"", LONG).await.stdout;
    run(&["init"]).await;
    for (server, megabytes) in [(&a, 40), (&b, 20)] {
        server.command::<()>(&["SETRANGE", "filler", &(megabytes << 20).to_string(), "x"]).await;
    }
    let used: u64 = b.field("used_memory").await.parse().unwrap();
    b.command::<()>(&["CONFIG", "SET", "maxmemory", &(used / 95 * 100).to_string()]).await;
    let check = run(&["check"]).await;
    assert!(check.contains("memory: node b (redis://") && !check.contains("node a"), "{check}");
    b.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;

    let doctor = run(&["doctor"]).await;
    assert!(doctor.contains("ms between this machine's and that of node "), "{doctor}");
    clock.set_offset_ms(3_600_000);
    let doctor = run(&["doctor"]).await;
    assert!(doctor.contains("ms between this machine's and that of node b "), "{doctor}");
}

#[tokio::test]
async fn doctor_names_each_redis_that_is_away_and_shows_the_others() {
    let (mut nodes, folder) = (RedisNodes::start(2).await, Folder::new("nodes"));
    let file = folder.join("delayq.toml");
    let text = format!("[deployment]\nshards = 6\n{}[etcd]\nenabled = false\n", nodes.section());
    std::fs::write(&file, text).unwrap();
    delayq(&file, &["init"]).run(b"", LONG).await;
    for away in [0, 2] {
        nodes.servers[away].kill().await;
    }
    let doctor = delayq(&file, &["doctor", "--json"]).run(b"", LONG).await;
    assert_eq!(doctor.code, Some(68), "the rest is seen: {doctor:?}");
    let checks: Vec<Value> = serde_json::from_str(&doctor.stdout).unwrap();
    let about = |node: &str, verdict: &str| {
        let named = format!("{node} (redis://");
        checks.iter().any(|one| one["verdict"] == verdict && one["found"].to_string().contains(&named))
    };
    let seen = ["a", "b", "c"].map(|node| (about(node, "bad"), about(node, "good")));
    assert_eq!(seen, [(true, false), (false, true), (true, false)], "{checks:?}");
}

/// The ids of a backup, the parts that were left out, and the policies.
pub(crate) fn told(file: &std::path::Path) -> (BTreeSet<String>, Vec<Value>, Vec<Value>) {
    let (mut ids, mut left_out, mut policies) = (BTreeSet::new(), Vec::new(), Vec::new());
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        ids.extend(line["id"].as_str().map(str::to_owned));
        left_out.extend(line.get("left_out").cloned());
        policies.extend(line.get("policy").cloned());
    }
    (ids, left_out, policies)
}

#[tokio::test]
async fn a_backup_leaves_out_a_node_that_is_lost_only_by_its_name_and_says_so_everywhere() {
    let mut nodes = RedisNodes::start(2).await;
    let folder = Folder::new("nodes");
    let (file, other) = (folder.join("delayq.toml"), folder.join("other.toml"));
    let text = |deployment: &str| {
        format!("[deployment]\n{deployment}\n[etcd]\nenabled = false\n{}", nodes.section())
    };
    std::fs::write(&file, text("shards = 6")).unwrap();
    std::fs::write(&other, text("shards = 6\nnamespace = 'other'")).unwrap();
    let run = async |args: &[&str]| delayq(&file, args).run(b"", LONG).await;
    let count = ShardCount::new(6).unwrap();
    let ids: Vec<String> = (0..300).map(|n| format!("own-{n}")).collect();
    let without = |node: usize| -> BTreeSet<String> {
        let lost = |id: &&String| nodes.shards_of(node).contains(&count.shard_of_name(id).get());
        ids.iter().filter(|id| !lost(id)).cloned().collect()
    };
    let lines: String = ids.iter().map(|id| format!("{{\"id\":\"{id}\",\"due\":4102444800000}}\n")).collect();
    for args in [
        &["init"][..],
        &["topic", "set", "orders", "--create", "--lease", "90s"],
        &["topic", "rate", "orders", "60"],
    ] {
        let set = run(args).await;
        assert_eq!(set.code, Some(0), "{set:?}");
    }
    let put = delayq(&file, &["put", "orders", "--from", "-"]).run(lines.as_bytes(), LONG).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    let [whole, first, third] = ["whole", "first", "third"].map(|name| folder.join(name));
    let [whole_path, first_path, third_path] =
        [&whole, &first, &third].map(|path| path.display().to_string());
    let backup = run(&["backup", &whole_path]).await;
    assert_eq!((backup.code, told(&whole).1), (Some(0), Vec::new()), "{backup:?}");
    let (expected_first, expected_third) = (without(0), without(2));
    // As after an interruption before the first message.
    let text = std::fs::read_to_string(&whole).unwrap();
    let begun: Vec<&str> = text.lines().take_while(|line| !line.contains("\"own-")).collect();
    std::fs::write(&third, begun.join("\n") + "\n").unwrap();

    nodes.servers[0].kill().await;
    let stopped = run(&["backup", &first_path]).await;
    assert_eq!(stopped.code, Some(69), "{stopped:?}");
    assert!(stopped.stderr.contains("a (redis://") && !first.exists(), "{stopped:?}");
    for (name, why) in [("x", "no node x to leave out: its nodes are a, b, c"), ("b", "a (redis://")] {
        let refused = run(&["backup", &first_path, "--without-node", name]).await;
        assert!(refused.code != Some(0) && refused.stderr.contains(why) && !first.exists(), "{refused:?}");
    }
    let done = run(&["backup", &first_path, "--without-node", "a"]).await;
    let (backed_up, left_out, policies) = told(&first);
    assert_eq!((done.code, &backed_up), (Some(0), &expected_first), "{done:?}");
    assert_eq!(left_out[0], json!({ "nodes": ["a"], "shards": "0-1" }));
    assert_eq!((&policies[0]["settings"]["lease"], &policies[0]["rate"]), (&json!("1m 30s"), &json!(60.0)));
    let sentence = "left out of the backup on request: shards 0-1 of node a";
    assert_eq!(done.stderr.matches(sentence).count(), 2, "at the beginning and the end: {done:?}");
    nodes.servers[0].resume().await;

    nodes.servers[2].kill().await;
    let stopped = run(&["backup", &third_path, "--resume"]).await;
    assert!(stopped.code == Some(69) && stopped.stderr.contains("c (redis://"), "{stopped:?}");
    let done = run(&["backup", &third_path, "--resume", "--without-node", "c", "--json"]).await;
    let printed: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(printed["left_out"], json!({ "nodes": ["c"], "shards": "4-5" }), "{done:?}");
    assert_eq!((done.code, told(&third).0), (Some(0), expected_third), "{done:?}");
    nodes.servers[2].resume().await;

    let init = delayq(&other, &["init"]).run(b"", LONG).await;
    assert_eq!(init.code, Some(0), "{init:?}");
    let restored = delayq(&other, &["restore", &first_path]).run(b"", LONG).await;
    assert!(restored.code == Some(0) && restored.stderr.contains(sentence), "{restored:?}");
}
