//! `doctor` and `check` judge alike: on one real deployment in each state, both report the same findings.

use super::printed::assert_is_documented;
use super::{delayq, deployed, done};
use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::ports::free_port;
use delayq_tests::redis_nodes::section;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::sentinel_group::SentinelGroup;
use serde_json::Value;
use std::collections::BTreeSet;

/// The object, its status in the words of `check`, the finding up to a number, and the advice.
type Said = (String, &'static str, String, String);

fn said(check: &Value, status: &str) -> Said {
    let text = |key: &str| check[key].as_str().unwrap().to_owned();
    let found = text("found").split(|c: char| c.is_ascii_digit()).next().unwrap().to_owned();
    let status = match status {
        "good" | "OK" => "OK",
        "warning" | "WARNING" => "WARNING",
        "bad" | "CRITICAL" => "CRITICAL",
        other => panic!("{other} is no verdict"),
    };
    (text("what"), status, found, text("advice"))
}

/// Returns the common findings, after comparing both outputs and the exit codes. Only `doctor` prints pure advice.
pub(super) fn agreed(doctor: &Finished, check: &Finished) -> Vec<(String, &'static str)> {
    let doctor_said: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let check_said: Value = serde_json::from_str(&check.stdout).unwrap();
    assert_is_documented(&doctor_said, &["doctor"]);
    assert_is_documented(&check_said, &["check"]);
    let alarms = doctor_said.as_array().unwrap().iter().filter(|one| one["alarms"] == true);
    let by_doctor: BTreeSet<Said> = alarms.map(|one| said(one, one["verdict"].as_str().unwrap())).collect();
    let by_check = check_said["checks"].as_array().unwrap().iter();
    let by_check: BTreeSet<Said> = by_check.map(|one| said(one, one["status"].as_str().unwrap())).collect();
    assert_eq!(by_doctor, by_check);
    let is_bad = |verdict: &str| doctor_said.as_array().unwrap().iter().any(|one| one["verdict"] == verdict);
    assert_eq!(doctor.code == Some(0), !is_bad("bad"), "{doctor:?}");
    let has = |status: &str| by_check.iter().any(|one| one.1 == status);
    let expected = if has("CRITICAL") { 2 } else { i32::from(has("WARNING")) };
    assert_eq!(check.code, Some(expected), "{check:?}");
    by_check.into_iter().map(|(what, status, ..)| (what, status)).collect()
}

async fn both(binary: impl Fn() -> Binary) -> Vec<(String, &'static str)> {
    let run = async |command: &str| binary().args([command, "--json"]).run(b"", LONG).await;
    agreed(&run("doctor").await, &run("check").await)
}

/// Waits until a check finds something: meanwhile, two runs may differ.
async fn comes(binary: impl Fn() -> Binary, found: &str) {
    wait_until(found, LONG, async || binary().arg("check").run(b"", LONG).await.stdout.contains(found)).await;
}

#[track_caller]
fn says(said: &[(String, &'static str)], what: &str, status: &str) {
    assert!(said.iter().any(|one| (one.0.as_str(), one.1) == (what, status)), "{what} {status}: {said:?}");
}

#[tokio::test]
async fn doctor_and_check_give_one_verdict_and_one_advice_for_each_cause() {
    let redis = RedisServer::private().await;
    let set = async |name: &str, value: &str| redis.command::<()>(&["CONFIG", "SET", name, value]).await;
    let here = || delayq(&redis);
    says(&both(here).await, "deployment", "CRITICAL");
    done(&redis, &["init"]).await;
    let said = both(here).await;
    says(&said, "timers", "CRITICAL");
    for well in ["redis", "deployment", "overdue", "ready age", "ready messages", "dead letters"] {
        says(&said, well, "OK");
    }
    for advice in ["persistence", "failover", "clocks", "spread", "drained"] {
        assert!(said.iter().all(|(what, _)| what != advice), "{advice} is no alarm: {said:?}");
    }

    done(&redis, &["put", "orders", "{}"]).await;
    let used: u64 = redis.field("used_memory").await.parse().unwrap();
    set("maxmemory", &(used / 95 * 100).to_string()).await;
    says(&both(here).await, "memory", "WARNING");
    set("maxmemory", "0").await;
    let meta: Vec<String> = redis.command(&["KEYS", "*:meta"]).await;
    redis.command::<()>(&["HSET", &meta[0], "hold", "1"]).await;
    says(&both(here).await, "clock guard", "CRITICAL");
    redis.command::<()>(&["HDEL", &meta[0], "hold"]).await;
    done(&redis, &["topic", "set", "orders", "--durability", "replica:1"]).await;
    says(&both(here).await, "durability", "CRITICAL");
    done(&redis, &["topic", "set", "orders", "--durability", "memory"]).await;

    let endpoint = format!("[\"http://127.0.0.1:{}\"]", free_port());
    let etcd = || here().env("DELAYQ__ETCD__ENABLED", "true").env("DELAYQ__ETCD__ENDPOINTS", &endpoint);
    says(&both(etcd).await, "etcd", "WARNING");
    let process = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = process.local_addr().unwrap().to_string();
    drop(process);
    let elsewhere = || here().env("DELAYQ__ADMIN__LISTEN", &address).env("DELAYQ__SPOOL__DIR", "/no/folder");
    says(&both(elsewhere).await, "spool", "CRITICAL");
    says(&both(|| here().args(["--namespace", "none"])).await, "deployment", "CRITICAL");
    set("maxmemory-policy", "allkeys-lru").await;
    says(&both(here).await, "redis", "CRITICAL");
    let away = format!("redis://127.0.0.1:{}", free_port());
    let away = || Binary::new("delayq").args(["--redis", &away]).env("DELAYQ__ETCD__ENABLED", "false");
    says(&both(away).await, "redis", "CRITICAL");
}

#[tokio::test]
async fn a_shard_that_is_overdue_is_a_warning_of_both_and_not_bad_for_one() {
    let redis = deployed(RedisServer::private().await).await;
    done(&redis, &["put", "orders", "{}", "--in", "1ms"]).await;
    let here = || delayq(&redis);
    comes(here, "overdue: a shard has been due for ").await;
    says(&both(here).await, "overdue", "WARNING");
}

#[tokio::test]
async fn a_frozen_replica_that_confirms_nothing_is_named_by_doctor_and_check() {
    let redis = deployed(RedisServer::private().await).await;
    let replica = redis.replica().await;
    done(&redis, &["topic", "set", "orders", "--create", "--durability", "replica:1"]).await;
    let here = || delayq(&redis);
    says(&both(here).await, "durability", "OK");
    replica.freeze();
    comes(here, "have been silent for 5 s").await;
    says(&both(here).await, "durability", "CRITICAL");
    replica.thaw();
}

#[tokio::test]
async fn each_node_that_cannot_confirm_a_topic_is_named() {
    let (nodes, folder) =
        ([RedisServer::private().await, RedisServer::private().await], Folder::new("agreement"));
    let rows = [("a", &nodes[0], "0-1"), ("b", &nodes[1], "2-3")];
    let rows = rows.map(|(name, node, shards)| [name.to_owned(), node.url(), shards.to_owned()]);
    let file = folder.join("delayq.toml");
    let text = format!("[deployment]\nshards = 4\n{}[etcd]\nenabled = false\n", section(&rows));
    std::fs::write(&file, text).unwrap();
    let here = || Binary::new("delayq").arg("--config").arg(&file);
    assert_eq!(here().arg("init").run(b"", LONG).await.code, Some(0));
    let set = ["topic", "set", "orders", "--create", "--durability", "replica:1"];
    assert_eq!(here().args(set).run(b"", LONG).await.code, Some(0));
    let doctor = here().args(["doctor", "--json"]).run(b"", LONG).await.stdout;
    assert_eq!(doctor.matches("0 replicas follow at ").count(), nodes.len(), "{doctor}");
}

#[tokio::test]
async fn the_sentinels_of_a_node_behind_them_are_judged_like_those_of_one_redis() {
    let (mut group, folder) = (SentinelGroup::start().await, Folder::new("agreement"));
    let other = RedisServer::private().await;
    let rows = [("a", group.url(), "0-1"), ("b", other.url(), "2-3")];
    let rows = rows.map(|(name, url, shards)| [name.to_owned(), url, shards.to_owned()]);
    let file = folder.join("delayq.toml");
    let text = format!("[deployment]\nshards = 4\n{}[etcd]\nenabled = false\n", section(&rows));
    std::fs::write(&file, text).unwrap();
    let here = || Binary::new("delayq").arg("--config").arg(&file);
    assert_eq!(here().arg("init").run(b"", LONG).await.code, Some(0));
    says(&both(here).await, "sentinels", "OK");
    let doctor = here().args(["doctor", "--json"]).run(b"", LONG).await;
    assert!(
        doctor.stdout.contains("node a (redis+sentinel://") && doctor.stdout.contains("3 of 3 named"),
        "{doctor:?}"
    );
    group.sentinels[0].kill().await;
    says(&both(here).await, "sentinels", "WARNING");
    group.sentinels[1].kill().await;
    says(&both(here).await, "sentinels", "CRITICAL");
}

#[tokio::test]
async fn a_redis_at_its_limit_of_clients_is_named_with_what_to_do_by_every_command() {
    for options in [RedisOptions::default(), RedisOptions::default().password("s3cret")] {
        let redis = RedisServer::private_with(options).await;
        let _only = redis.connect().await;
        redis.command::<()>(&["CONFIG", "SET", "maxclients", "1"]).await;
        let urls = [redis.url(), redis.socket_url()];
        for url in urls {
            let on = |args: &[&str]| {
                let binary = Binary::new("delayq").args(["--redis", &url]).args(args);
                binary.env("DELAYQ__ETCD__ENABLED", "false")
            };
            for args in [&["topics"][..], &["put", "orders", "{}"], &["shards"], &["init"]] {
                let finished = on(args).run(b"", SHORT).await;
                for word in ["DQ-R010", "has reached its maxclients limit", "CLIENT LIST"] {
                    assert!(finished.stderr.contains(word), "{url}, {args:?}: {word}: {finished:?}");
                }
                assert!(!finished.stderr.contains("roken pipe"), "{finished:?}");
            }
            let said = both(|| on(&[])).await;
            says(&said, "redis", "CRITICAL");
        }
    }
}
