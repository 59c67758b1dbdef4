//! Findings of `delayq doctor` about a deployment with something down.

use super::{Up, delayq};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::ports::free_port;
use delayq_tests::process::Signal;
use delayq_tests::redis_server::RedisServer;
use serde_json::Value;

async fn found(doctor: Binary, what: &str) -> Vec<[String; 3]> {
    let finished = doctor.args(["doctor", "--json"]).run(b"", SHORT).await;
    let checks: Vec<Value> = serde_json::from_str(&finished.stdout).unwrap();
    let of =
        |check: &Value| ["verdict", "found", "advice"].map(|key| check[key].as_str().unwrap().to_owned());
    checks.iter().filter(|check| check["what"] == what).map(of).collect()
}

#[tokio::test]
async fn the_doctor_finds_up_healthy_and_names_topics_that_nobody_works_on() {
    let up = Up::start(&["--forward", "notices=file"]).await;
    up.done(&["put", "notices", "{}"]).await;
    up.done(&["put", "orders", "{}", "--in", "1h"]).await;
    for what in ["redis", "deployment", "timers", "spool"] {
        let found = found(up.delayq(&[]), what).await;
        assert_eq!(found[0][0], "good", "{what}: {found:?}");
    }
    assert_eq!(found(up.delayq(&[]), "workers").await.len(), 0);
    up.done(&["doctor"]).await;
    up.stop().await;

    let up = Up::start(&[]).await;
    up.done(&["put", "orders", "{}"]).await;
    let [verdict, found, advice] = found(up.delayq(&[]), "workers").await.remove(0);
    assert_eq!(
        (verdict.as_str(), found.as_str()),
        ("warning", "orders: 1 message ready, but no consumer reserves them")
    );
    assert!(advice.contains("delayq work orders"), "{advice}");
    up.stop().await;
}

#[tokio::test]
async fn a_worker_beside_a_forwarder_is_named_by_the_doctor_and_by_both() {
    let mut up = Up::start(&["--forward", "notices=file"]).await;
    up.done(&["put", "notices", "{}"]).await;
    let shared = async |up: &Up| {
        let workers = found(up.delayq(&[]), "workers").await;
        workers.iter().any(|[_, found, _]| found.contains("notices has a route and 1 worker"))
    };
    assert!(!shared(&up).await);
    let mut worker = up.delayq(&["work", "notices"]).start();
    worker.wait_for_line("notices has a route in this configuration", SHORT).await;
    wait_until("the doctor to name both", LONG, async || shared(&up).await).await;
    up.process.wait_for_line("workers also reserve this topic", LONG).await;
    worker.ends_well_by(Signal::INT, SHORT).await;
    wait_until("the doctor to forget the worker", LONG, async || !shared(&up).await).await;
    up.stop().await;
}

#[tokio::test]
async fn the_doctor_names_a_forwarder_and_a_compensator_that_do_not_run() {
    let up = Up::start(&[]).await;
    up.done(&["put", "orders", "{}"]).await;
    let folder = Folder::new("doctor");
    let (config, spool) = (folder.join("delayq.toml"), folder.join("spool"));
    std::fs::create_dir(&spool).unwrap();
    let text = format!(
        "[etcd]\nenabled = false\n[redis]\nurl = \"unix://{}\"\n[spool]\ndir = \"{}\"\n[sinks.out.stdout]\n\
         [[routes]]\ntopic = \"orders\"\nsink = \"out\"\n",
        up.data().join("redis.sock").display(),
        spool.display()
    );
    std::fs::write(&config, text).unwrap();
    let doctor = || Binary::new("delayq").arg("--config").arg(&config);
    let [verdict, forwarder, advice] = found(doctor(), "forwarder").await.remove(0);
    assert_eq!(
        (verdict.as_str(), forwarder.as_str()),
        ("bad", "orders: 1 message ready, but no forwarder is taking them")
    );
    assert!(advice.starts_with("start a forwarder: delayq-forwarder"), "{advice}");
    let [verdict, reader, advice] = found(doctor(), "spool").await.remove(0);
    assert_eq!(verdict, "warning");
    assert!(reader.ends_with("never read by a compensator"), "{reader}");
    assert!(advice.contains("delayq-compensator"), "{advice}");
    let finished = doctor().arg("doctor").run(b"", SHORT).await;
    assert_eq!(finished.code, Some(69), "{finished:?}");
    let shown = delayq(&up.data(), &["doctor"]).run(b"", SHORT).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    up.stop().await;
}

#[tokio::test]
async fn the_doctor_misses_a_single_timer_though_nothing_is_due() {
    let (redis, folder) = (RedisServer::private().await, Folder::new("doctor"));
    let config = folder.join("delayq.toml");
    let text = format!(
        "[etcd]\nenabled = false\n[admin]\nlisten = \"\"\n[deployment]\nshards = 4\n[redis]\nurl = \"{}\"\n",
        redis.url()
    );
    std::fs::write(&config, text).unwrap();
    let delayq = || Binary::new("delayq").arg("--config").arg(&config);
    assert_eq!(delayq().arg("init").run(b"", SHORT).await.code, Some(0));
    let mut timer = Binary::new("delayq-timer").arg(&config).start();
    wait_until("a timer that the doctor finds", LONG, async || {
        found(delayq(), "timers").await[0][0] == "good"
    })
    .await;
    let [_, owned, _] = found(delayq(), "timers").await.remove(0);
    assert!(owned.ends_with("owns 4 shards"), "{owned}");
    timer.end_by(Signal::KILL, SHORT).await;
    wait_until("the end of its connection", SHORT, async || found(delayq(), "timers").await[0][0] == "bad")
        .await;
    let [_, missing, advice] = found(delayq(), "timers").await.remove(0);
    assert!(missing.starts_with("no timer listens to 4 of 4 shards; the last owner is "), "{missing}");
    assert!(advice.contains("delayq-timer --config FILE"), "{advice}");
}

#[tokio::test]
async fn the_doctor_names_a_destination_that_rests_because_it_rejects_everything() {
    let up = Up::start(&[]).await;
    let folder = Folder::new("doctor");
    let config = folder.join("delayq.toml");
    let text = format!(
        "[etcd]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:{}\"\n[redis]\nurl = \"unix://{}\"\n[forwarder]\n\
         max_burials = 3\n[sinks.out.file]\ndir = \"{}\"\n[[routes]]\ntopic = \"orders\"\nsink = \"out\"\nto = \"{{id}}\"\n",
        free_port(),
        up.data().join("redis.sock").display(),
        folder.path().display(),
    );
    std::fs::write(&config, text).unwrap();
    for n in 0..9 {
        up.done(&["put", "orders", "{}", "--id", &format!("../{n}")]).await;
    }
    let mut forwarder = Binary::new("delayq-forwarder").arg(&config).start();
    let doctor = || Binary::new("delayq").arg("--config").arg(&config);
    wait_until("a destination that rests", LONG, async || {
        found(doctor(), "process").await.iter().any(|[verdict, found, _]| {
            verdict == "bad" && found.contains("resting after consecutive rejections")
        })
    })
    .await;
    forwarder.ends_well_by(Signal::TERM, SHORT).await;
    assert_eq!(found(doctor(), "process").await.len(), 0, "nobody listens there");
    up.stop().await;
}
