//! Failures on a real server, each with its code, words and advice.

use super::{delayq, deployed, deployment, done, run};
use delayq_tests::binary::{Binary, Finished};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::ports::free_port;
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis};
use std::collections::HashMap;
use std::io::Write as _;
use std::net::TcpListener;

#[track_caller]
fn is_explained(finished: &Finished, what: &str, code: &str, words: &[&str]) {
    let said = &finished.stderr;
    assert!(said.contains(&format!("delayq: {code}: ")), "{what} is not {code}: {said}");
    for word in words {
        assert!(said.contains(word), "{what}: {word:?} is not in {said}");
    }
}

type Failures<'a> = &'a [(&'a [&'a str], &'a str, &'a [&'a str])];

async fn each_is_explained(redis: &SharedRedis, failures: Failures<'_>) {
    for (args, code, words) in failures {
        is_explained(&run(redis, args).await, &format!("{args:?}"), code, words);
    }
}

const PUT: &[&str] = &["put", "orders", "{}"];
/// Advice that no error may give about a reachable server with data.
const OF_OTHERS: [&str; 4] = ["delayq up starts", "lost its data", "append-only", "delayq init"];

#[tokio::test]
async fn a_redis_that_takes_no_writes_is_not_explained_as_one_that_is_away_or_has_lost_its_data() {
    let redis = deployed(RedisServer::private().await).await;
    let set = async |name: &str, value: &str| redis.command::<()>(&["CONFIG", "SET", name, value]).await;
    let fails = async |code: &str, words: &[&str]| {
        let finished = run(&redis, PUT).await;
        is_explained(&finished, &format!("{words:?}"), code, words);
        let other = OF_OTHERS.iter().find(|words| finished.stderr.contains(**words));
        assert_eq!(other, None, "{}", finished.stderr);
    };
    set("maxmemory", "1").await;
    fails("DQ-R004", &["OOM", "raise maxmemory"]).await;
    set("maxmemory", "0").await;
    set("min-replicas-to-write", "1").await;
    fails("DQ-R004", &["NOREPLICAS", "bring its replicas back"]).await;
    set("min-replicas-to-write", "0").await;
    // A folder in place of the snapshot: saving fails, as on a full disk.
    let settings: HashMap<String, String> = redis.command(&["CONFIG", "GET", "dbfilename"]).await;
    let snapshot = redis.folder().join(&settings["dbfilename"]);
    let _ = std::fs::remove_file(&snapshot);
    std::fs::create_dir(&snapshot).unwrap();
    set("save", "3600 1").await;
    redis.command::<String>(&["BGSAVE"]).await;
    wait_until("the snapshot to fail", SHORT, async || {
        redis.command::<String>(&["INFO", "persistence"]).await.contains("rdb_last_bgsave_status:err")
    })
    .await;
    fails("DQ-R004", &["MISCONF", "free disk space on the Redis host"]).await;
    set("save", "").await;
    redis.command::<()>(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]).await;
    fails("DQ-R004", &["READONLY", "find out which node is the master"]).await;
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_whether_it_is_away_or_of_another_kind() {
    let authority = Authority::new();
    let options = RedisOptions::default().tls(&authority.server(), &authority, false);
    let tls = RedisServer::start_with(options).await;
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let web_port = web.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in web.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    let plain = RedisServer::start_with(RedisOptions::default()).await;
    let plain_port = plain.port();
    for (url, words) in [
        (format!("redis://127.0.0.1:{}", free_port()), &["refused", "delayq up starts everything"][..]),
        ("redis://no-such-host.invalid".to_owned(), &["no-such-host.invalid"]),
        (tls.tls_url().replace("rediss:", "redis:"), &["rediss://"]),
        (format!("rediss://127.0.0.1:{plain_port}"), &["does not speak TLS at this port"]),
        (format!("redis://127.0.0.1:{web_port}"), &["127.0.0.1"]),
    ] {
        let finished = Binary::new("delayq").args(["--redis", &url, "topics"]).run(b"", SHORT).await;
        is_explained(&finished, &url, "DQ-R001", words);
    }
}

#[tokio::test]
async fn a_login_that_is_refused_is_told_from_a_permission_that_is_missing() {
    let redis = RedisServer::start_with(RedisOptions::default().password("s3cret")).await;
    let acl = ["ACL", "SETUSER", "reader", "on", ">s3cret", "~*", "&*", "+@read", "+@connection", "+info"];
    redis.command::<()>(&acl).await;
    for (login, word) in [("", "none is configured"), (":wr0ng@", "WRONGPASS"), ("reader:s3cret@", "NOPERM")]
    {
        let url = format!("redis://{login}127.0.0.1:{}", redis.port());
        let finished = Binary::new("delayq").args(["--redis", &url, "topics"]).run(b"", SHORT).await;
        is_explained(&finished, login, "DQ-R003", &[word, "ACL WHOAMI"]);
    }
}

#[tokio::test]
async fn what_is_stored_refuses_each_in_its_own_words() {
    let redis = deployment().await;
    for args in [
        &["put", "orders", "one", "--id", "a", "--in", "1h"][..],
        &["topic", "set", "bodies", "--create", "--codec", "zstd"],
        &["topic", "set", "disk", "--create", "--lease", "1m"],
    ] {
        done(&redis, args).await;
    }
    each_is_explained(
        &redis,
        &[
            (
                &["put", "orders", "two", "--id", "a", "--in", "1h"],
                "DQ-U013",
                &["a was not stored", "--replace"],
            ),
            (&["topic", "delete", "orders"], "DQ-U023", &["orders is not empty", "delayq purge TOPIC"]),
            (&["cancel", "orders", "b"], "DQ-U012", &["no message b"]),
            (&["topics", "--namespace", "other"], "DQ-R002", &["no namespace other"]),
            (&["shards", "grow", "--to", "2", "--yes"], "DQ-U026", &["can only grow", "delayq shards"]),
            (&["shards", "move", "0-1", "--to", "b", "--yes"], "DQ-U026", &["[[redis.nodes]]"]),
            (
                &["topic", "set", "disk", "--durability", "disk"],
                "DQ-R005",
                &["cannot confirm disk", "doctor"],
            ),
            (&["purge", "orders"], "DQ-U016", &["--yes"]),
        ],
    )
    .await;
    done(&redis, &["cancel", "orders", "a"]).await;
    let cancelled = run(&redis, &["reschedule", "orders", "a", "--in", "1h"]).await;
    is_explained(&cancelled, "of a cancelled one", "DQ-U013", &["a was not moved", "delayq log TOPIC ID"]);
}

#[tokio::test]
async fn a_write_that_no_replica_confirms_is_not_explained_as_an_unreachable_server() {
    let redis = deployed(RedisServer::private().await).await;
    done(&redis, &["topic", "set", "orders", "--create", "--durability", "replica:1"]).await;
    let finished = run(&redis, &["put", "orders", "{}", "--id", "a"]).await;
    is_explained(&finished, "a put", "DQ-R006", &["replica", "with the same --id"]);
}

#[tokio::test]
async fn a_value_out_of_range_is_a_wrong_argument_wherever_it_is_found() {
    let redis = deployment().await;
    done(&redis, &["put", "orders", "{}", "--id", "a", "--in", "1h"]).await;
    for args in [
        &["put", "orders", "{}", "--at", "1800000000"][..],
        &["put", "orders", "{}", "--in", "400000000 days"],
        &["put", "orders", "{}", "--in", "2h", "--expires", "+1h"],
        &["put", "orders", "{}", "--max-attempts", "65536"],
        &["reschedule", "orders", "a", "--to", "1800000000"],
        &["reschedule", "orders", "a", "--in", "400000000 days"],
        &["list", "orders", "--from", "1800000000"],
        &["topic", "set", "orders", "--lease", "0s"],
        &["topic", "set", "orders", "--lease", "400 days"],
        &["topic", "rate", "orders", "0"],
        &["topic", "set", "orders", "--history", "99999999999"],
        &["dead", "replay", "orders", "--delay", "400000000 days"],
        &["check", "--warn-ready-age", "2h", "--crit-ready-age", "1h"],
        &["work", "orders", "--concurrency", "0", "--", "true"],
    ] {
        let finished = run(&redis, args).await;
        assert_eq!(finished.code, Some(64), "{args:?}: {finished:?}");
        assert!(!finished.stderr.contains("DQ-R001"), "{args:?}: {}", finished.stderr);
    }
}

#[tokio::test]
async fn files_and_programs_that_cannot_be_used_are_named() {
    let (redis, folder) = (deployment().await, Folder::new("causes"));
    let file = folder.join("file");
    std::fs::write(&file, "x").unwrap();
    let inside = file.join("inside").display().to_string();
    let missing = folder.join("missing").display().to_string();
    done(&redis, PUT).await;
    each_is_explained(
        &redis,
        &[
            (&["put", "orders", "--payload-file", &missing], "DQ-U005", &[&missing, "Check the path"]),
            (&["put", "orders", "--from", &missing], "DQ-U005", &[&missing]),
            (&["backup", &inside], "DQ-U005", &[&inside]),
            (&["restore", &missing], "DQ-U005", &[&missing]),
            (&["work", "orders", "--", "no-such-program"], "DQ-U004", &["no-such-program", "PATH"]),
        ],
    )
    .await;
    let spooling = delayq(&redis).env("DELAYQ__SPOOL__DIR", &file).args(PUT).run(b"", SHORT).await;
    is_explained(&spooling, "a spool in a file", "DQ-U005", &["spool"]);
    let full = std::process::Command::new(env!("CARGO_BIN_EXE_delayq"))
        .args(["--redis", &redis.url(), "--shards", "4", "topics", "--json"])
        .stdout(std::fs::File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&full.stderr);
    for word in ["DQ-U005", "cannot write to standard output: No space left"] {
        assert!(said.contains(word), "{said}");
    }
}

#[tokio::test]
async fn a_service_that_cannot_start_gives_first_advice_that_fits_its_cause() {
    let (redis, folder) = (deployed(RedisServer::private().await).await, Folder::new("services"));
    let locked = RedisServer::start_with(RedisOptions::default().password("s3cret")).await;
    let evicting =
        RedisServer::start_with(RedisOptions::default().set("maxmemory-policy", "allkeys-lru")).await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, nowhere) = (redis.url(), format!("redis://127.0.0.1:{}", free_port()));
    let (locked, evicting) = (format!("redis://127.0.0.1:{}", locked.port()), evicting.url());
    let routed = |sink: &str| format!("[sinks.out.{sink}\n[[routes]]\ntopic = 't'\nsink = 'out'\nto = 'x'\n");
    let advice = "address, user and password of the sink, or its folder";
    let [eight, none] = ["[deployment]\nshards = 8\n", "[deployment]\nnamespace = 'none'\n"];
    let causes = [
        (&nowhere, "", ["DQ-R001", "refused", "delayq doctor"]),
        (&here, eight, ["DQ-R009", "for 8 shards", "Compare [redis] and [deployment]"]),
        (&locked, "", ["DQ-R003", "none is configured", "DELAYQ__REDIS__PASSWORD"]),
        (&evicting, "", ["DQ-R005", "allkeys-lru", "Change the setting"]),
    ];
    let of_redis = [("timer", String::new()), ("forwarder", routed("stdout]"))].into_iter().flat_map(
        |(service, routes)| {
            causes.map(|(url, sections, words)| (service, url, format!("{routes}{sections}"), words))
        },
    );
    for (n, (service, url, sections, words)) in [
        // A forwarder waits for a missing shard: the Redis may be restored.
        ("timer", &here, none.to_owned(), ["DQ-R002", "shard 0", "delayq init"]),
        (
            "forwarder",
            &here,
            routed("file]\ndir = '/nonexistent/folder'"),
            ["DQ-F002", "No such file", advice],
        ),
        (
            "forwarder",
            &here,
            routed(&format!("redis.server]\nurl = '{nowhere}'")),
            ["DQ-F002", "refused", advice],
        ),
        (
            "forwarder",
            &here,
            format!("{}[admin]\nlisten = '{}'\n", routed("stdout]"), taken.local_addr().unwrap()),
            ["DQ-P001", "in use", "its own port"],
        ),
        ("compensator", &here, String::new(), ["DQ-K001", "is empty", "[spool] dir"]),
        (
            "compensator",
            &here,
            format!("[spool]\ndir = '{}'\n", folder.join("0.toml").display()),
            ["DQ-K002", "spool", "owner, mode"],
        ),
    ]
    .into_iter()
    .chain(of_redis)
    .enumerate()
    {
        let default = |section: &str, text: &'static str| if sections.contains(section) { "" } else { text };
        let (admin, shards) = (
            default("[admin]", "[admin]\nlisten = ''\n"),
            default("[deployment]", "[deployment]\nshards = 4\n"),
        );
        let path = folder.join(&format!("{n}.toml"));
        std::fs::write(
            &path,
            format!("[redis]\nurl = '{url}'\n[etcd]\nenabled = false\n{shards}{admin}{sections}"),
        )
        .unwrap();
        let finished = Binary::new(&format!("delayq-{service}")).arg(&path).run(b"", LONG).await;
        for word in words {
            assert!(finished.stderr.contains(word), "{n}, {service}: {word:?} is not in {}", finished.stderr);
        }
    }
}
