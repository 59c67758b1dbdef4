//! Missing or unfit servers: exit code 69, and advice.

use super::printed::assert_is_documented;
use super::{delayq, deployed, deployment, run};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::ports::free_port;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

#[tokio::test]
async fn without_redis_every_command_says_where_it_should_be() {
    let url = format!("redis://:s3cret@127.0.0.1:{}", free_port());
    for args in [&["count"][..], &["put", "t", "{}"], &["init"], &["topics"], &["shards"]] {
        let finished = Binary::new("delayq").args(["--redis", &url]).args(args).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(69), "{args:?}: {finished:?}");
        assert!(
            finished.stderr.contains("DQ-R001: cannot reach Redis at redis://127.0.0.1:"),
            "{}",
            finished.stderr
        );
        assert!(finished.stderr.contains("delayq doctor"), "{}", finished.stderr);
        assert!(!finished.stderr.contains("s3cret"), "{}", finished.stderr);
    }
}

#[tokio::test]
async fn a_put_without_redis_goes_to_the_spool_where_there_is_one() {
    let (mut redis, folder) = (deployed(RedisServer::private().await).await, Folder::new("spool"));
    let _ = redis.stop().await;
    let spooling = |args: &[&str]| delayq(&redis).env("DELAYQ__SPOOL__DIR", folder.path()).args(args);
    let finished = spooling(&["put", "t", "{}", "--id", "a", "--in", "1h"]).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.starts_with("spooled a: Redis cannot store it now"), "{finished:?}");
    for args in [["spool", "waiting", "--json"], ["spool", "show", "--json"], ["spool", "rejected", "--json"]]
    {
        let finished = spooling(&args).run(b"", SHORT).await;
        assert_is_documented(&serde_json::from_str(&finished.stdout).unwrap(), &args);
    }
    let finished = spooling(&["spool", "waiting", "--json"]).run(b"", SHORT).await;
    assert!(finished.stdout.contains("\"record\": \"t a\""), "{finished:?}");
    let finished = spooling(&["spool", "show"]).run(b"", SHORT).await;
    assert!(finished.stdout.contains("its books balance"), "{finished:?}");
}

#[tokio::test]
async fn a_missing_password_is_not_taken_for_a_server_that_is_away() {
    let redis = RedisServer::start_with(RedisOptions::default().password("s3cret")).await;
    let bare = format!("redis://127.0.0.1:{}", redis.port());
    for url in [bare.clone(), bare.replace("//", "//:wr0ng@")] {
        let finished = Binary::new("delayq").args(["--redis", &url, "init"]).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(69), "{finished:?}");
        let hint =
            finished.stderr.contains("DQ-R003") && finished.stderr.contains("[redis] username and password");
        assert!(hint && !finished.stderr.contains("wr0ng"), "{}", finished.stderr);
    }
}

#[tokio::test]
async fn a_wrong_namespace_names_those_that_are_there() {
    let redis = deployment().await;
    assert_eq!(run(&redis, &["--namespace", "billing", "init"]).await.code, Some(0));
    for args in [&["topics"][..], &["put", "t", "{}"], &["doctor"]] {
        let finished = run(&redis, &[&["--namespace", "bil"], args].concat()).await;
        assert_ne!(finished.code, Some(0), "{finished:?}");
        let said = [finished.stdout, finished.stderr].concat();
        let names = "no namespace bil in this Redis, only billing, dq: choose with --namespace";
        assert!(said.contains(names), "{args:?}: {said}");
    }
}

#[tokio::test]
async fn an_uninitialised_redis_asks_for_init() {
    let redis = RedisServer::start().await;
    let finished = run(&redis, &["put", "t", "{}"]).await;
    assert_eq!(finished.code, Some(69), "{finished:?}");
    assert!(finished.stderr.contains("`delayq init`"), "{}", finished.stderr);
    assert_eq!(redis.command::<u64>(&["DBSIZE"]).await, 0);
}

#[tokio::test]
async fn another_number_of_shards_is_refused() {
    let redis = deployment().await;
    let other =
        Binary::new("delayq").args(["--redis", &redis.url(), "--shards", "8", "init"]).run(b"", SHORT).await;
    assert_eq!(other.code, Some(69), "{other:?}");
    assert!(
        other.stderr.contains("this process is configured for 8 shards, but the deployment has 4"),
        "{}",
        other.stderr
    );
}

#[tokio::test]
async fn the_doctor_names_a_redis_that_evicts() {
    let redis = RedisServer::start_with(RedisOptions::default().set("maxmemory-policy", "allkeys-lru")).await;
    let finished = run(&redis, &["doctor"]).await;
    assert_eq!(finished.code, Some(69), "{finished:?}");
    assert!(finished.stdout.contains("allkeys-lru"), "{}", finished.stdout);
    assert!(finished.stderr.contains("DQ-U008"), "{}", finished.stderr);
    assert_eq!(run(&redis, &["init"]).await.code, Some(69));
}

#[tokio::test]
async fn the_doctor_finds_no_deployment_good_that_no_timer_has_ever_served() {
    let redis = deployed(RedisServer::private().await).await;
    let finished = run(&redis, &["doctor"]).await;
    assert_eq!(finished.code, Some(69), "{finished:?}");
    for expected in [
        "redis           good",
        "deployment      good",
        "persistence     warning",
        "timers          bad      no timer has ever owned 4 of 4 shards",
        "start a timer (delayq-timer --config FILE), or a worker that pumps",
        "etcd            good     not used",
    ] {
        assert!(finished.stdout.contains(expected), "{expected:?} is not in\n{}", finished.stdout);
    }
}

#[tokio::test]
async fn a_missing_server_program_is_named_with_its_package() {
    let folder = Folder::new("up");
    let data = folder.join("data");
    let up = Binary::new("delayq").env("PATH", "/nonexistent").args(["up", "--data", data.to_str().unwrap()]);
    let finished = up.run(b"", SHORT).await;
    assert_eq!(finished.code, Some(69), "{finished:?}");
    assert!(finished.stderr.contains("redis-server is not in PATH; the Debian package redis-server has it"));
}

#[tokio::test]
async fn without_etcd_the_redis_that_was_started_already_ends_again() {
    let folder = Folder::new("up");
    let (data, bin) = (folder.join("data"), folder.join("bin"));
    std::fs::create_dir(&bin).unwrap();
    for (program, places) in [("redis-server", ["/usr/bin", "/usr/local/bin"]), ("sh", ["/bin", "/usr/bin"])]
    {
        let found = places
            .map(|place| std::path::Path::new(place).join(program))
            .into_iter()
            .find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), bin.join(program)).unwrap();
    }
    let up = Binary::new("delayq").env("PATH", &bin).arg("up").arg("--data").arg(&data);
    let finished = up.run(b"", SHORT).await;
    assert_eq!(finished.code, Some(69), "{finished:?}");
    assert!(finished.stderr.contains("the Debian package etcd-server has it"), "{}", finished.stderr);
    assert!(finished.stderr.contains("delayq up --no-etcd"), "{}", finished.stderr);
    let log = data.join("logs/redis.log");
    wait_until("Redis's end", SHORT, || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        std::future::ready(log.is_empty() || log.contains("bye bye"))
    })
    .await;
}
