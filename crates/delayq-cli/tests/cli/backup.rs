//! Backups: their content while everything moves, and the result of a restore elsewhere.

use super::printed::assert_is_documented;
use super::{delayq, deployed, deployment, done, flow, run};
use delayq::{
    Client, Consumer, ConsumerOptions, Due, MessageId, Producer, ProducerOptions, Reschedule, Settings,
    ShardCount, Target, Topic, UnixMillis,
};
use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::{LONG, SHORT, within};
use delayq_tests::folder::Folder;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_nodes::RedisNodes;
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

const DUE_MS: u64 = 4_102_444_800_000;

fn client(redis: &SharedRedis) -> Client {
    Client::new(Settings::new(redis.url()).shards(ShardCount::new(4).unwrap()))
}

/// 5,000 messages with own ids, groups, headers, attempts, expiries and bytes that are no text; 200 with
/// generated ids.
fn lines() -> String {
    let mut lines = String::new();
    for n in 0..5000_u64 {
        let mut line = json!({ "id": format!("order-{n}"), "due": DUE_MS + n * 1000 });
        line["payload"] = json!(format!("{{\"order\":{n},\"text\":\"{}\"}}\n\u{2028}", "same ".repeat(10)));
        match n % 5 {
            0 => line["group"] = json!(format!("user-{}", n % 50)),
            1 => line["headers"] = json!({ "trace": n.to_string(), "a": "b" }),
            2 => line["headers"] = json!([["z", "1"], ["a", "2"], ["z", "3"]]),
            3 => (line["expires"], line["max_attempts"]) = (json!(DUE_MS + n * 1000 + 1), json!(n % 100 + 1)),
            _ => line["backoff"] = json!("1s..10m"),
        }
        if n % 7 == 0 {
            line.as_object_mut().unwrap().remove("payload");
            line["payload_base64"] = json!("AAH/gA==");
        }
        if n % 100 == 9 {
            line["due"] = json!(DUE_MS - 3_600_000 * 24 * 365 * 80);
        }
        lines.push_str(&format!("{line}\n"));
    }
    for n in 0..200 {
        let mut line = json!({ "topic": "made", "due": DUE_MS + n, "payload": n.to_string() });
        if n % 2 == 0 {
            line["group"] = json!(format!("user-{}", n % 20));
        }
        lines.push_str(&format!("{line}\n"));
    }
    lines
}

async fn filled() -> SharedRedis {
    let redis = deployment().await;
    for set in [
        &[
            "topic",
            "set",
            "orders",
            "--create",
            "--lease",
            "1m 30s",
            "--codec",
            "zstd",
            "--remember-own",
            "2h",
        ][..],
        &["topic", "set", "made", "--create", "--backoff", "1s,5s"],
        &["topic", "pause", "made"],
        &["topic", "pause", "made", "--group", "customer-7"],
        &["topic", "rate", "orders", "100"],
    ] {
        done(&redis, set).await;
    }
    let put = delayq(&redis).args(["put", "orders", "--from", "-"]).run(lines().as_bytes(), LONG).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    done(&redis, &["topic", "rate", "orders", "1000"]).await;
    for _ in 0..3 {
        done(&redis, &["put", "broken", "{}"]).await;
    }
    let options = ConsumerOptions::new([Topic::new("broken").unwrap()]);
    let mut consumer = Consumer::start(client(&redis), options).unwrap();
    for _ in 0..3 {
        within("a delivery", SHORT, consumer.next()).await.unwrap().bury("bad").await.unwrap();
    }
    consumer.stop().await;
    redis
}

fn elsewhere(redis: &SharedRedis) -> Binary {
    let binary = Binary::new("delayq").env("DELAYQ__ETCD__ENABLED", "false");
    binary.args(["--redis", &redis.url(), "--namespace", "moved", "--shards", "7"])
}

async fn done_elsewhere(redis: &SharedRedis, args: &[&str]) -> String {
    let finished = elsewhere(redis).args(args).run(b"", LONG).await;
    assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
    finished.stdout
}

/// Generated ids appear without their shards.
fn told(backup: &str) -> (BTreeMap<String, Value>, Vec<Value>) {
    let (mut messages, mut policies) = (BTreeMap::new(), Vec::new());
    for line in backup.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if let Some(policy) = line.get("policy") {
            policies.push(policy.clone());
        }
        let Some(id) = line["id"].as_str() else { continue };
        let id = if id.starts_with('~') { format!("{}{}", &id[..16], &id[19..]) } else { id.to_owned() };
        let name = format!("{} {id}", line["topic"].as_str().unwrap());
        for counted in ["id", "attempt", "delivery"] {
            line.as_object_mut().unwrap().remove(counted);
        }
        messages.insert(name, line);
    }
    (messages, policies)
}

fn ids(backup: &str) -> BTreeSet<String> {
    told(backup).0.into_keys().collect()
}

fn assert_unusable(finished: &Finished, why: &str) {
    assert_eq!(finished.code, Some(65), "{finished:?}");
    assert!(finished.stderr.contains("DQ-U018") && finished.stderr.contains(why), "{}", finished.stderr);
}

#[tokio::test]
async fn a_backup_restored_twice_into_another_redis_with_other_shards_is_the_same_pending_set() {
    let (redis, folder) = (filled().await, Folder::new("backup"));
    let file = folder.join("all.ndjson");
    let path = file.to_str().unwrap();
    assert_eq!(done(&redis, &["backup", path]).await, "backed up 5200 messages\n");
    let (messages, policies) = told(&std::fs::read_to_string(&file).unwrap());
    assert_eq!((messages.len(), policies.len()), (5200, 3));

    let other = RedisServer::start().await;
    done_elsewhere(&other, &["init"]).await;
    let first = done_elsewhere(&other, &["restore", path]).await;
    assert!(first.contains("50 ready, 5150 stored"), "{first}");
    let again = done_elsewhere(&other, &["restore", path]).await;
    assert!(again.contains(": 5200 exists, "), "{again}");
    let (restored, restored_policies) = told(&done_elsewhere(&other, &["backup", "-"]).await);
    for (name, message) in &messages {
        assert_eq!(restored.get(name), Some(message), "{name}");
    }
    assert_eq!((restored.len(), restored_policies), (5200, policies));
    done_elsewhere(&other, &["audit"]).await;
    done_elsewhere(&other, &["audit", "--bodies"]).await;
    let count = done_elsewhere(&other, &["count", "made", "--json"]).await;
    assert!(count.contains("\"delayed\": 200,"), "{count}");
    // A listing finds a group in its new shard, generated ids included.
    let group = done_elsewhere(&other, &["list", "made", "--group", "user-2", "--json"]).await;
    let found = group.matches("\"group\": \"user-2\"").count();
    assert_eq!(found, 10, "{group}");
}

#[tokio::test]
async fn a_restore_into_a_new_deployment_leaves_that_deployment_its_own_identity() {
    let (redis, folder) = (deployment().await, Folder::new("backup"));
    let identity = |printed: String| serde_json::from_str::<Value>(&printed).unwrap()["identity"].clone();
    done(&redis, &["put", "orders", "{}", "--id", "one", "--in", "1h"]).await;
    let path = folder.join("all.ndjson").display().to_string();
    done(&redis, &["backup", &path]).await;
    let other = RedisServer::start().await;
    let before = identity(done_elsewhere(&other, &["init", "--json"]).await);
    done_elsewhere(&other, &["restore", &path]).await;
    assert_eq!(identity(done_elsewhere(&other, &["init", "--json"]).await), before);
    let backed_up = identity(done(&redis, &["init", "--json"]).await);
    assert!(before.is_string() && before != backed_up, "{before} {backed_up}");
}

#[tokio::test]
async fn a_backup_names_the_odd_topics_ids_and_keys_that_it_leaves_out_and_a_command_removes_them() {
    let (redis, folder) = (deployment().await, Folder::new("backup"));
    done(&redis, &["put", "orders", "{}", "--id", "fine", "--in", "1h"]).await;
    done(&redis, &["put", "spaced", "{}", "--id", "a"]).await;
    let script = r"
        local shard = '{dq:' .. ARGV[1] .. '}:'
        local no = redis.call('HGET', shard .. 'meta', 'topic:spaced')
        if not no then return 0 end
        redis.call('HDEL', shard .. 'meta', 'topic:spaced')
        redis.call('HSET', shard .. 'meta', 'topic:my orders', no)
        redis.call('HSET', shard .. 't:' .. no, 'name', 'my orders')
        return 1";
    for shard in ["0", "1", "2", "3"] {
        let meta = format!("{{dq:{shard}}}:meta");
        let _: i64 = redis.command(&["EVAL", script, "1", &meta, shard]).await;
        let has: Option<String> = redis.command(&["HGET", &meta, "topic:orders"]).await;
        if let Some(number) = has {
            let _: i64 = redis.command(&["SADD", &format!("{{dq:{shard}}}:m:{number}:a-set"), "x"]).await;
        }
    }
    let file = folder.join("odd.ndjson");
    let made = run(&redis, &["backup", file.to_str().unwrap()]).await;
    assert!(made.code != Some(0) && made.stderr.contains("DQ-U017"), "{made:?}");
    for named in ["~odd-my%20orders: ", "~odd-my%20orders a: ", "orders a-set: "] {
        assert!(made.stderr.contains(named), "{named} in {made:?}");
    }
    assert_eq!(ids(&std::fs::read_to_string(&file).unwrap()), BTreeSet::from(["orders fine".to_owned()]));
    assert!(done(&redis, &["topics"]).await.contains("~odd-my%20orders"));
    done(&redis, &["cancel", "~odd-my%20orders", "a"]).await;
    done(&redis, &["topic", "delete", "~odd-my%20orders"]).await;
    assert!(!done(&redis, &["topics"]).await.contains("~odd-"));
}

#[tokio::test]
async fn dead_letters_are_in_a_backup_and_restored_where_both_are_asked_for() {
    let (redis, folder) = (filled().await, Folder::new("backup"));
    let file = folder.join("all.ndjson");
    let path = file.to_str().unwrap();
    let made = done(&redis, &["backup", path, "--dead", "--topic", "broken", "--json"]).await;
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_is_documented(&made, &["backup"]);
    assert_eq!(made, json!({ "pending": 0, "dead": 3, "missing": 0 }));
    let other = RedisServer::start().await;
    done_elsewhere(&other, &["init"]).await;
    let without = done_elsewhere(&other, &["restore", path, "--json"]).await;
    let without: Value = serde_json::from_str(&without).unwrap();
    assert_is_documented(&without, &["restore"]);
    assert_eq!(without["left_out"], 3, "{without}");
    let with = done_elsewhere(&other, &["restore", path, "--dead"]).await;
    assert!(with.contains("3 ready"), "{with}");
    let put = elsewhere(&other).args(["put", "--from", path]).run(b"", SHORT).await;
    assert!(put.code == Some(65) && put.stderr.contains("delayq restore --dead"), "{put:?}");
}

#[tokio::test]
async fn a_backup_that_was_cut_is_told_from_a_whole_one_and_continues() {
    let (redis, folder) = (filled().await, Folder::new("backup"));
    let file = folder.join("all.ndjson");
    let path = file.to_str().unwrap();
    done(&redis, &["backup", path]).await;
    let whole = std::fs::read_to_string(&file).unwrap();
    assert_unusable(&run(&redis, &["backup", path]).await, "the file exists");
    assert_unusable(&run(&redis, &["backup", path, "--resume"]).await, "already complete");

    let cut = whole.char_indices().map(|(at, _)| at).find(|&at| at > whole.len() * 3 / 5).unwrap();
    let cut = if whole[..cut].ends_with('\n') { cut - 1 } else { cut };
    std::fs::write(&file, &whole[..cut]).unwrap();
    let other = RedisServer::start().await;
    done_elsewhere(&other, &["init"]).await;
    let half = elsewhere(&other).args(["restore", path]).run(b"", LONG).await;
    assert!(half.stderr.contains("all.ndjson:"), "the line that was cut is named: {half:?}");
    assert_unusable(&half, "interrupted");
    let lines: Vec<&str> = whole[..cut].lines().collect();
    let (_, kept) = lines.split_last().unwrap();
    std::fs::write(&file, format!("{}\n", kept.join("\n"))).unwrap();
    assert_unusable(&elsewhere(&other).args(["restore", path]).run(b"", LONG).await, "interrupted");

    // The backup may contain the later message, and must contain the earlier messages.
    done(&redis, &["put", "orders", "{}", "--id", "later", "--in", "1h"]).await;
    done(&redis, &["backup", path, "--resume"]).await;
    let resumed = std::fs::read_to_string(&file).unwrap();
    assert!(ids(&resumed).is_superset(&ids(&whole)), "{} of {}", ids(&resumed).len(), ids(&whole).len());
    assert!(resumed.lines().count() < whole.lines().count() + 1100, "it continued, and did not begin again");
    let all = done_elsewhere(&other, &["restore", path]).await;
    assert!(all.contains(" exists") && all.contains(" stored"), "{all}");
    assert!(ids(&done_elsewhere(&other, &["backup", "-"]).await).is_superset(&ids(&whole)));
    let last = resumed.lines().count() - 3;
    let tail = done_elsewhere(&other, &["restore", path, "--from-line", &last.to_string()]).await;
    assert!(tail.contains(" left out"), "{tail}");
}

#[tokio::test]
async fn a_backup_that_continues_behind_a_restart_of_redis_has_everything() {
    let redis = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
    let (mut redis, folder) = (deployed(redis).await, Folder::new("backup"));
    done(&redis, &["put", "orders", "{}", "--id", "a", "--in", "1h"]).await;
    let file = folder.join("all.ndjson");
    let path = file.to_str().unwrap();
    done(&redis, &["backup", path]).await;
    let whole = std::fs::read_to_string(&file).unwrap();
    let checkpoint = whole.lines().position(|line| line.starts_with("{\"checkpoint\"")).unwrap();
    let cut: Vec<&str> = whole.lines().take(checkpoint + 1).collect();
    std::fs::write(&file, format!("{}\n", cut.join("\n"))).unwrap();
    redis.stop().await;
    redis.resume().await;
    done(&redis, &["backup", path, "--resume"]).await;
    assert_eq!(ids(&std::fs::read_to_string(&file).unwrap()), ids(&whole));
}

#[tokio::test]
async fn an_expiry_of_the_topic_moves_on_after_a_restore_and_a_dead_letter_that_expired_is_named() {
    let (redis, folder) = (deployment().await, Folder::new("backup"));
    let file = folder.join("all.ndjson");
    let path = file.to_str().unwrap();
    done(&redis, &["topic", "set", "orders", "--create", "--expire-after", "1h"]).await;
    done(&redis, &["put", "orders", "{}", "--id", "a", "--in", "1h"]).await;
    done(&redis, &["backup", path]).await;
    let other = RedisServer::start().await;
    done_elsewhere(&other, &["init"]).await;
    done_elsewhere(&other, &["restore", path]).await;
    done_elsewhere(&other, &["reschedule", "orders", "a", "--in", "2days"]).await;

    let whole = std::fs::read_to_string(&file).unwrap();
    let (begin, rest) = whole.split_once('\n').unwrap();
    let dead = json!({ "topic": "orders", "id": "d", "due": 1_600_000_000_000_u64, "expires": 1_600_000_001_000_u64,
        "state": "dead", "payload": "{}" });
    std::fs::write(&file, format!("{begin}\n{dead}\n{rest}")).unwrap();
    let restored = elsewhere(&other).args(["restore", path, "--dead"]).run(b"", LONG).await;
    assert!(restored.code == Some(65) && restored.stderr.contains("expir"), "{restored:?}");
}

#[tokio::test]
async fn a_strict_restore_goes_on_behind_a_bad_line_and_a_backup_that_is_replaced_is_private() {
    let (redis, folder) = (deployment().await, Folder::new("backup"));
    let file = folder.join("all.ndjson");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    done(&redis, &["put", "orders", "{}", "--id", "a", "--in", "1h"]).await;
    done(&redis, &["backup", path, "--overwrite"]).await;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let whole = std::fs::read_to_string(&file).unwrap();
    let (begin, rest) = whole.split_once('\n').unwrap();
    std::fs::write(&file, format!("{begin}\nno line of a backup\n{rest}")).unwrap();
    let stopped = run(&redis, &["restore", path, "--strict"]).await;
    assert!(stopped.code != Some(0) && stopped.stderr.contains(":2:"), "{stopped:?}");
    let rest = done(&redis, &["restore", path, "--strict", "--from-line", "3"]).await;
    assert!(rest.contains("1 exists"), "{rest}");
}

#[tokio::test]
async fn put_reads_a_backup_too() {
    let (redis, other) = (filled().await, deployment().await);
    let backup = done(&redis, &["backup", "-", "--topic", "orders"]).await;
    let put = delayq(&other).args(["put", "--from", "-"]).run(backup.as_bytes(), LONG).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    assert!(
        put.stdout.contains("50 ready, 4950 stored") && put.stdout.contains("about the backup"),
        "{put:?}"
    );
}

/// Backs up a deployment with this `[redis]` section, interrupts and resumes the backup, and restores into one Redis.
async fn survives(redis: &str, shards: u16) {
    let folder = Folder::new("backup");
    let (configuration, file) = (folder.join("delayq.toml"), folder.join("all.ndjson"));
    let text = format!("[deployment]\nshards = {shards}\n{redis}[etcd]\nenabled = false\n");
    std::fs::write(&configuration, text).unwrap();
    let run = async |args: &[&str], input: &[u8]| {
        let finished = flow::delayq(&configuration, args).run(input, LONG).await;
        assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
        finished.stdout
    };
    run(&["init"], b"").await;
    for topic in ["orders", "made"] {
        run(&["topic", "set", topic, "--create", "--lease", "90s"], b"").await;
    }
    run(&["put", "orders", "--from", "-"], lines().as_bytes()).await;
    let path = file.to_str().unwrap();
    assert_eq!(run(&["backup", path], b"").await, "backed up 5200 messages\n");
    let whole = std::fs::read_to_string(&file).unwrap();
    // As after a kill, between two nodes and within one.
    for part in [2, 5, 8] {
        let kept: String = whole.lines().take(5200 * part / 10).map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, kept).unwrap();
        run(&["backup", path, "--resume"], b"").await;
        let resumed = std::fs::read_to_string(&file).unwrap();
        assert_eq!(resumed.lines().filter(|line| line.contains("\"id\":")).count(), 5200);
        assert_eq!(told(&resumed), told(&whole));
    }
    let other = RedisServer::start().await;
    done_elsewhere(&other, &["init"]).await;
    done_elsewhere(&other, &["restore", path]).await;
    assert_eq!(told(&done_elsewhere(&other, &["backup", "-"]).await), told(&whole));
    done_elsewhere(&other, &["audit", "--bodies"]).await;
}

#[tokio::test]
async fn a_backup_of_several_redises_is_restored_into_one() {
    let nodes = RedisNodes::start(2).await;
    survives(&nodes.section(), nodes.shards()).await;
}

#[tokio::test]
async fn a_backup_of_a_cluster_is_restored_into_one_redis() {
    let cluster = RedisCluster::start().await;
    survives(&format!("[redis]\nurl = '{}'\n", cluster.url()), 12).await;
}

/// Moves `stay-*` through all states until dropped: from one due time to another, to ready, leased and back.
async fn stir(client: Client, topic: Topic) {
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    let mover = async {
        for round in 0_u64.. {
            let targets = (0..1500).map(|n| {
                let far = DUE_MS + (n * 7919 + round * 104_729) % 4_000_000_000;
                let due = if (n + round) % 5 == 0 { 1 } else { far };
                let id = MessageId::own(format!("stay-{n}")).unwrap();
                (Target::from(id), Reschedule::To(Due::At(UnixMillis::new(due))))
            });
            let targets: Vec<_> = targets.collect();
            for some in targets.chunks(100) {
                let moved = producer.reschedule_many(&topic, some).await;
                assert!(moved.iter().all(Result::is_ok), "{moved:?}");
            }
        }
    };
    let mut consumer =
        Consumer::start(client, ConsumerOptions::new([topic.clone()]).concurrency(50)).unwrap();
    let worker = async {
        while let Some(delivery) = consumer.next().await {
            delivery.release(Some(Duration::from_secs(3600)), "again").await.unwrap();
        }
    };
    tokio::join!(mover, worker);
}

#[tokio::test]
async fn every_message_that_stays_is_in_the_backup_whatever_state_it_moves_to_meanwhile() {
    let redis = deployment().await;
    let topic = Topic::new("orders").unwrap();
    done(&redis, &["topic", "set", "orders", "--create", "--max-attempts", "0"]).await;
    let lines: String = (0..1500).map(|n| format!("{{\"id\":\"stay-{n}\",\"due\":\"+1h\"}}\n")).collect();
    let put = delayq(&redis).args(["put", "orders", "--from", "-"]).run(lines.as_bytes(), SHORT).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    let stirring = tokio::spawn(stir(client(&redis), topic));
    let expected: BTreeSet<String> = (0..1500).map(|n| format!("orders stay-{n}")).collect();
    let mut states = BTreeSet::new();
    for _ in 0..5 {
        let backup = done(&redis, &["backup", "-"]).await;
        let (messages, _) = told(&backup);
        states.extend(messages.values().map(|message| message["state"].as_str().unwrap().to_owned()));
        let found: BTreeSet<String> = messages.into_keys().collect();
        assert_eq!(expected.difference(&found).collect::<Vec<_>>(), Vec::<&String>::new());
    }
    assert!(!stirring.is_finished(), "it moved to the end");
    assert!(states.contains("ready") && states.contains("delayed"), "{states:?}");
    stirring.abort();
}
