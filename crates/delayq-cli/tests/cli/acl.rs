//! The least permissions, printed by `delayq acl print`: each role works with them, and does not start with less.

use super::{deployed, done, run};
use delayq::admin::Role;
use delayq::{
    Client, Consumer, ConsumerOptions, Due, Message, Producer, ProducerOptions, Reschedule, Settings,
    Settled, ShardCount, Shift, Target, Topic, UnixMillis,
};
use delayq_tests::admin_endpoint::AdminEndpoint;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::folder::Folder;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

async fn rules(redis: &SharedRedis) -> HashMap<String, Vec<String>> {
    let printed: Value = serde_json::from_str(&done(redis, &["acl", "print", "--json"]).await).unwrap();
    let rule = |one: &Value| {
        let words: Vec<String> = one["redis"].as_str().unwrap().split(' ').map(str::to_owned).collect();
        let user = format!("delayq-{}", one["role"].as_str().unwrap());
        assert_eq!(
            (words[0].as_str(), &words[1], &one["user"]),
            ("user", &user, &Value::from(user.as_str()))
        );
        (one["role"].as_str().unwrap().to_owned(), words[2..].to_vec())
    };
    printed.as_array().unwrap().iter().map(rule).collect()
}

async fn set_user(redis: &SharedRedis, role: &str, rules: &[String]) -> String {
    let user = format!("delayq-{role}");
    let words = ["ACL", "SETUSER", &user, "reset"].into_iter().chain(rules.iter().map(String::as_str));
    redis.command::<()>(&words.collect::<Vec<_>>()).await;
    format!("redis://{user}:PASSWORD@{}/", redis.address())
}

fn configuration(folder: &Folder, name: &str, url: &str) -> std::path::PathBuf {
    let path = folder.join(&format!("{name}.toml"));
    let (out, spool) = (folder.join("out"), folder.join("spool"));
    std::fs::create_dir_all(&spool).unwrap();
    std::fs::create_dir_all(&out).unwrap();
    let text = format!(
        "[deployment]\nshards = 4\n[redis]\nurl = '{url}'\n[etcd]\nenabled = false\n[admin]\nlisten = ''\n\
         [spool]\ndir = '{}'\n[sinks.out.file]\ndir = '{}'\n[[routes]]\ntopic = 'out'\nsink = 'out'\nto = 'all.ndjson'\n\
         [gateway]\nlisten = '127.0.0.1:0'\n",
        spool.display(),
        out.display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn service(role: &str, configuration: &Path) -> Binary {
    Binary::new(&format!("delayq-{role}")).arg(configuration)
}

#[tokio::test]
async fn every_service_works_with_the_rules_that_are_printed_and_is_refused_by_name_with_less() {
    let (redis, folder) = (deployed(RedisServer::private().await).await, Folder::new("acl"));
    let rules = rules(&redis).await;
    let mut running = Vec::new();
    for role in ["timer", "forwarder", "compensator", "gateway"] {
        for less in ["+zadd", "+script|load", "+info"] {
            let fewer: Vec<String> = rules[role].iter().filter(|word| *word != less).cloned().collect();
            assert_eq!(fewer.len() + 1, rules[role].len(), "{role} needs {less}");
            let url = set_user(&redis, role, &fewer).await;
            let refused = service(role, &configuration(&folder, role, &url)).run(b"", LONG).await;
            let said = refused.stderr.to_lowercase();
            assert_eq!(refused.code, Some(69), "{role} without {less}: {refused:?}");
            assert!(said.contains(&less[1..]) && said.contains("acl print"), "{role} without {less}: {said}");
        }
        let url = set_user(&redis, role, &rules[role]).await;
        running.push(service(role, &configuration(&folder, role, &url)).start());
    }
    // The work of an operator, and writes that a producer without Redis leaves to the compensator.
    let url = set_user(&redis, "admin", &rules["admin"]).await;
    let admin = configuration(&folder, "admin", &url);
    let away = configuration(&folder, "away", "redis://127.0.0.1:1/");
    for (configuration, id, outcome) in [(&admin, "direct", "stored"), (&away, "spooled", "spooled")] {
        let put = Binary::new("delayq").args(["put", "out", "{}", "--in", "1s", "--id", id]);
        let put = put.arg("--config").arg(configuration).run(b"", LONG).await;
        assert!(put.code == Some(0) && put.stdout.starts_with(outcome), "{put:?}");
    }
    wait_until("both are delivered", LONG, async || {
        let out = std::fs::read_to_string(folder.join("out").join("all.ndjson")).unwrap_or_default();
        out.contains("\"direct\"") && out.contains("\"spooled\"")
    })
    .await;
    for args in [&["doctor"][..], &["audit", "--bodies"], &["backup", "-"], &["list", "out"], &["timers"]] {
        let finished = Binary::new("delayq").args(args).arg("--config").arg(&admin).run(b"", LONG).await;
        assert!(!finished.stderr.contains("NOPERM"), "{args:?}: {finished:?}");
        assert!(finished.code == Some(0) || args == ["doctor"], "{args:?}: {finished:?}");
    }
    drop(running);
}

#[tokio::test]
async fn a_gateway_sees_the_state_of_the_whole_deployment_with_the_rules_that_are_printed() {
    let (redis, folder) = (deployed(RedisServer::private().await).await, Folder::new("acl"));
    let etcd = guarded_etcd(&redis).await;
    let url = set_user(&redis, "gateway", &rules(&redis).await["gateway"]).await;
    let gateway = with_etcd(service("gateway", &configuration(&folder, "gateway", &url)), &etcd);
    let gateway =
        gateway.env("DELAYQ__ETCD__USERNAME", "delayq-gateway").env("DELAYQ__ETCD__PASSWORD", "PASSWORD");
    let mut gateway = gateway.start();
    let line = gateway.wait_for_line("gateway listening", SHORT).await;
    let logged: Value = serde_json::from_str(&line).unwrap();
    let http = AdminEndpoint::at(logged["address"].as_str().unwrap());
    for path in ["/v1/status", "/v1/shards", "/v1/timers"] {
        let (status, text) = http.get(path).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &answer["missing"]), (200, &json!([])), "{path}: {text}");
        if path == "/v1/status" {
            let found: Vec<&str> = answer["checks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|check| check["what"].as_str().unwrap())
                .collect();
            assert!(
                ["redis", "memory", "deployment", "timers", "etcd"].iter().all(|what| found.contains(what)),
                "{text}"
            );
            assert!(!text.contains("denied") && !text.contains("NOPERM"), "{text}");
        }
    }
    let denied: Vec<Vec<String>> = redis.command(&["ACL", "LOG"]).await;
    assert!(denied.is_empty(), "{denied:?}");
}

fn client(url: &str, role: Role) -> Client {
    Client::new(Settings::new(url).shards(ShardCount::new(4).unwrap()).role(role))
}

#[tokio::test]
async fn producers_and_consumers_do_all_they_can_with_the_rules_that_are_printed() {
    let redis = deployed(RedisServer::private().await).await;
    done(&redis, &["topic", "set", "work", "--create", "--codec", "zstd", "--backoff", "1ms"]).await;
    let rules = rules(&redis).await;
    let url = set_user(&redis, "producer", &rules["producer"]).await;
    let producer = client(&url, Role::Producer);
    delayq::Admin::new(producer.clone()).check_server().await.unwrap();
    let producer = Producer::start(producer, ProducerOptions::default());
    let topic = Topic::new("work").unwrap();
    let far = UnixMillis::new(4_102_444_800_000);
    let message = |id: &str| Message::new(topic.clone(), "body ".repeat(50)).at(far).id(id).unwrap();
    for n in 0..3 {
        let put = producer.put(message(&n.to_string()).group("g").unwrap()).await.unwrap();
        assert!(put.outcome.is_accepted(), "{put:?}");
        producer.put(message(&format!("own-{n}"))).await.unwrap();
    }
    let own = Target::from("own-0".parse::<delayq::MessageId>().unwrap());
    producer.cancel(&topic, &own).await.unwrap();
    let group: delayq::Group = "g".parse().unwrap();
    let by = Shift::Later(Duration::from_secs(5));
    let shifted = producer.reschedule_group(&group, by, "token").await.unwrap();
    let cancelled = producer.cancel_group(&group).await.unwrap();
    assert_eq!((shifted.changed, cancelled.changed), (3, 3));
    for n in 1..3 {
        let target = Target::from(format!("own-{n}").parse::<delayq::MessageId>().unwrap());
        let now = Reschedule::To(Due::At(UnixMillis::new(1)));
        producer.reschedule(&topic, &target, now).await.unwrap();
    }

    let url = set_user(&redis, "consumer", &rules["consumer"]).await;
    let consumer = client(&url, Role::Consumer);
    delayq::Admin::new(consumer.clone()).check_server().await.unwrap();
    let mut consumer = Consumer::start(consumer, ConsumerOptions::new([topic.clone()])).unwrap();
    let first = within("a delivery", SHORT, consumer.next()).await.unwrap();
    first.release(Some(Duration::ZERO), "again").await.unwrap();
    let second = within("a delivery", SHORT, consumer.next()).await.unwrap();
    assert_eq!(second.ack().await.unwrap(), Settled::Delivered);
    within("a delivery", SHORT, consumer.next()).await.unwrap().bury("bad").await.unwrap();
    consumer.stop().await;

    let url = set_user(&redis, "worker", &rules["worker"]).await;
    let worker = client(&url, Role::Worker);
    delayq::Admin::new(worker.clone()).check_server().await.unwrap();
    let mut worker = Consumer::start(worker, ConsumerOptions::new([topic.clone()]).pump(true)).unwrap();
    let soon = Message::new(topic.clone(), "soon").after(Duration::from_millis(200));
    assert!(producer.put(soon).await.unwrap().outcome.is_accepted());
    within("a message that the worker pumped", SHORT, worker.next()).await.unwrap().ack().await.unwrap();
    worker.stop().await;
    // The text of the answer, to name any denied command.
    let denied: Vec<Vec<String>> = redis.command(&["ACL", "LOG"]).await;
    assert!(denied.is_empty(), "{denied:?}");
}

/// An etcd with the printed users of these roles, and for each role of a fleet users with one permission less.
async fn guarded_etcd(redis: &SharedRedis) -> EtcdCluster {
    let mut etcd = EtcdCluster::start_one().await;
    let printed =
        with_etcd(super::delayq(redis), &etcd).args(["acl", "print", "--json"]).run(b"", SHORT).await;
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    for words in [&["user", "add", "root:root"][..], &["user", "grant-role", "root", "root"]] {
        etcd.ctl(words).await;
    }
    for one in printed.as_array().unwrap() {
        let role = one["role"].as_str().unwrap();
        let lines: Vec<&str> =
            one["etcd"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        assert_eq!(lines.is_empty(), !["timer", "gateway", "admin"].contains(&role), "{role}: {lines:?}");
        for line in &lines {
            etcd.ctl(&line.split(' ').skip(1).collect::<Vec<_>>()).await;
        }
        for (less, permission) in [("blind", "write"), ("silent", "read")] {
            let fewer =
                lines.iter().map(|line| line.replace(&format!("delayq-{role}"), &format!("{less}-{role}")));
            for line in fewer {
                let line = line.replace("readwrite", permission);
                etcd.ctl(&line.split(' ').skip(1).collect::<Vec<_>>()).await;
            }
        }
    }
    etcd.ctl(&["user", "add", "stranger:PASSWORD"]).await;
    etcd.ctl(&["auth", "enable"]).await;
    etcd.operate_with(["--user", "root:root"]);
    etcd
}

fn with_etcd(binary: Binary, etcd: &EtcdCluster) -> Binary {
    let endpoints = format!("[\"{}\"]", etcd.endpoints()[0]);
    binary.env("DELAYQ__ETCD__ENABLED", "true").env("DELAYQ__ETCD__ENDPOINTS", endpoints)
}

#[tokio::test]
async fn each_role_works_with_the_etcd_role_that_is_printed_and_is_refused_by_name_with_a_permission_less() {
    let (redis, folder) = (deployed(RedisServer::private().await).await, Folder::new("acl"));
    let etcd = guarded_etcd(&redis).await;
    let configuration = configuration(&folder, "fleet", &redis.url());
    let as_user = |binary: Binary, user: &str| {
        let binary = with_etcd(binary, &etcd);
        binary.env("DELAYQ__ETCD__USERNAME", user).env("DELAYQ__ETCD__PASSWORD", "PASSWORD")
    };
    for user in ["stranger", "blind-timer", "silent-timer"] {
        let refused = as_user(service("timer", &configuration), user).run(b"", LONG).await;
        assert_eq!(refused.code, Some(69), "{user}: {refused:?}");
        for word in ["permission denied", user, "keys below /delayq", "acl print"] {
            assert!(refused.stderr.contains(word), "{user}: no {word} in {}", refused.stderr);
        }
    }
    let _running = as_user(service("timer", &configuration), "delayq-timer").start();
    wait_until("the plan", LONG, async || etcd.keys("/delayq/dq/timer/plan").await.len() == 1).await;
    let timers = |user: &str| as_user(super::delayq(&redis), user).args(["timers", "--json"]).run(b"", SHORT);
    let seen = timers("delayq-admin").await;
    assert!(seen.code == Some(0) && seen.stdout.contains("\"unplanned\": []"), "{seen:?}");
    let refused = timers("blind-admin").await;
    assert!(refused.code == Some(68) && refused.stderr.contains("blind-admin"), "{refused:?}");
    assert_eq!(run(&redis, &["acl", "print", "--role", "nobody"]).await.code, Some(64));
}
