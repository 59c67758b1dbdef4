//! The forwarder's sections: `config check`, the forwarder's start and `doctor` report alike.

use super::{delayq, deployment, done};
use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::SHORT;
use delayq_tests::folder::Folder;
use delayq_tests::ports::free_port;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

const HEAD: &str = "[deployment]
shards = 4
[etcd]
enabled = false
[admin]
listen = \"\"
[log]
";

/// An invalid configuration, and its report. `FILE` is the path of the file, `CACHE` a Redis that evicts,
/// `STORE` a Redis with a list named `taken`, `NOBODY` an address without a listener.
struct Case {
    text: &'static str,
    exit: i32,
    said: &'static str,
}

const CASES: &[Case] = &[
    Case {
        text: "format = 'human'\n[sinks.out.redis]\n[[routes]]\ntopic = 'a'\nsink = 'outt'\n",
        exit: 78,
        said: "DQ-C001: 1 fault in FILE\n  FILE:12: routes[0].sink: no [sinks.outt]; known sinks: out",
    },
    Case {
        text: "format = 'human'\n[sinks.out.redis]\n[[routes]]\ntopic = '**'\nsink = 'out'\n[[routes]]\ntopic = 'b'\n\
               sink = 'out'\n[[routes]]\ntopic = 'c d'\nsink = 'out'\n",
        exit: 78,
        said: "DQ-C001: 2 faults in FILE\n  FILE:14: routes[1].topic: this route never matches: route 1 (`**`) comes first \
               and matches every topic of `b`\n  FILE:17: routes[2].topic: no topic matches `c d`: ' ' cannot be in one; use \
               letters, digits, . _ - / and the wildcards ? * **",
    },
    Case {
        text: "format = 'human'\n[sinks.out.redis.server]\nusername = 'u'\npassword = { file = '/nonexistent/secret' }\n",
        exit: 78,
        said: "DQ-C001: 1 fault in FILE\n  FILE:11: sinks.out.redis.server.password: cannot read the secret from \
               /nonexistent/secret: No such file or directory (os error 2)",
    },
    Case {
        text: "format = 'human'\n[sinks.out.kafka]\nmechanism = 'PLAIN'\nusername = 'u'\n[sinks.mq.rabbitmq]\nusername = 'u'\n",
        exit: 78,
        said: "DQ-C001: 2 faults in FILE\n  FILE:11: sinks.out.kafka.username: a user needs a `password`\n  \
               FILE:13: sinks.mq.rabbitmq.username: a user needs a `password`",
    },
    Case {
        text: "format = 'human'\n[sinks.out]\nbatch = 7\n[sinks.l.redis]\n[[routes]]\ntopic = 'a'\nsink = 'l'\n\
               partition = 3\n",
        exit: 78,
        said: "DQ-C001: 2 faults in FILE\n  FILE:9: sinks.out.kind: a sink needs a table named after its kind: file, \
               stdout, redis, webhook, rabbitmq, nats, kafka, sqs\n  FILE:15: routes[0].partition: only Kafka has \
               partitions, and the sink l is not Kafka",
    },
    Case {
        text: "format = 'human'\n[sinks.out.redis.server]\nurl = 'redis://NOBODY'\n[[routes]]\ntopic = 'a'\nsink = 'out'\n",
        exit: 69,
        said: "DQ-F002: FILE:9: sinks.out: cannot reach Redis at redis://NOBODY: Connection refused (os error 111)",
    },
    Case {
        text: "format = 'human'\n[sinks.out.redis.server]\nurl = 'redis://CACHE'\n",
        exit: 78,
        said: "DQ-F001: FILE:9: sinks.out: Redis redis://CACHE: maxmemory-policy allkeys-lru deletes delivered messages when \
               memory runs out; set noeviction",
    },
    Case {
        text: "format = 'human'\n[sinks.out.redis.server]\nurl = 'redis://STORE'\n[[routes]]\ntopic = 'a'\nsink = 'out'\n\
               to = 'taken'\n",
        exit: 78,
        said: "DQ-F001: FILE:14: sinks.out, destination `taken`: the key `taken` is a list, not a stream",
    },
    Case {
        text: "format = 'human'\n[sinks.a.redis.server]\nurl = 'redis://NOBODY'\n[sinks.b.redis.server]\n\
               url = 'redis://CACHE'\n",
        exit: 78,
        said: "DQ-F001: 2 destinations cannot be used\n  DQ-F001: FILE:11: sinks.b: Redis redis://CACHE: maxmemory-policy \
               allkeys-lru deletes delivered messages when memory runs out; set noeviction\n  DQ-F002: FILE:9: sinks.a: cannot \
               reach Redis at redis://NOBODY: Connection refused (os error 111)",
    },
    Case {
        text: "format = 'human'\n[sinks.out.file]\ndir = '/nonexistent/folder'\n",
        exit: 69,
        said: "DQ-F002: FILE:9: sinks.out: folder /nonexistent/folder: No such file or directory (os error 2)",
    },
];

async fn run(program: Binary) -> Finished {
    program.run(b"", SHORT).await
}

#[tokio::test]
async fn a_check_of_the_configuration_says_what_the_start_of_the_forwarder_says() {
    let cache = RedisServer::start_with(RedisOptions::default().set("maxmemory-policy", "allkeys-lru")).await;
    let store = RedisServer::private().await;
    let _: i64 = store.command(&["LPUSH", "taken", "x"]).await;
    // The forwarder checks its own Redis before its destinations.
    let on_store = |program: &str| Binary::new(program).env("DELAYQ__REDIS__URL", store.url());
    assert_eq!(run(on_store("delayq").args(["--shards", "4", "init"])).await.code, Some(0));
    let nobody = format!("127.0.0.1:{}", free_port());
    let folder = Folder::new("destinations");
    let file = folder.join("delayq.toml");
    let filled = |text: &str| {
        text.replace("FILE", file.to_str().unwrap())
            .replace("CACHE", &cache.address())
            .replace("STORE", &store.address())
            .replace("NOBODY", &nobody)
    };
    for case in CASES {
        std::fs::write(&file, filled(&format!("{HEAD}{}", case.text))).unwrap();
        let said = filled(case.said);
        let check = || on_store("delayq").arg("--config").arg(&file).args(["config", "check"]);
        for finished in [run(on_store("delayq-forwarder").arg(&file)).await, run(check()).await] {
            assert!(finished.stderr.contains(&said), "{said}\nis not in\n{}", finished.stderr);
            assert_eq!(finished.code, Some(case.exit), "{said}");
            assert_eq!(finished.stdout, "");
        }
        // With `--offline`, only the text counts.
        let offline = run(check().arg("--offline")).await;
        let sound = !case.said.starts_with("DQ-C");
        assert_eq!(offline.code, Some(if sound { 0 } else { 78 }), "{offline:?}");
    }
}

#[tokio::test]
async fn what_a_forwarder_would_warn_of_is_printed_and_is_no_fault() {
    let (store, folder) = (RedisServer::private().await, Folder::new("destinations"));
    let file = folder.join("delayq.toml");
    let sink = format!("[sinks.out.redis.server]\nurl = 'redis://{}'\n", store.address());
    std::fs::write(&file, format!("{HEAD}{sink}")).unwrap();
    let finished = run(Binary::new("delayq").arg("--config").arg(&file).args(["config", "check"])).await;
    let path = file.display();
    let expected = format!(
        "warning: {path}:8: sinks.out: Redis redis://{}: appendonly is off: messages confirmed since the last snapshot \
         are lost in a crash\n{path}: no faults\n",
        store.address()
    );
    assert_eq!((finished.code, finished.stdout), (Some(0), expected));
}

#[tokio::test]
async fn the_doctor_names_topics_whose_messages_wait_for_a_route() {
    let (redis, folder) = (deployment().await, Folder::new("destinations"));
    for (topic, count) in [("orders.paid", 2), ("lost/and.found", 3), ("gone", 1)] {
        for n in 0..count {
            done(&redis, &["put", topic, "{}", "--id", &n.to_string(), "--in", "1h"]).await;
        }
    }
    done(&redis, &["cancel", "gone", "0"]).await;
    let file = folder.join("delayq.toml");
    let doctor = async |routes: &str| {
        std::fs::write(&file, format!("[sinks.out.stdout]\n{routes}")).unwrap();
        let finished = run(delayq(&redis).arg("--config").arg(&file).args(["doctor", "--json"])).await;
        let checks: Vec<serde_json::Value> = serde_json::from_str(&finished.stdout).unwrap();
        let text = |check: &serde_json::Value, key: &str| check[key].as_str().unwrap().to_owned();
        let routes = checks.iter().filter(|check| check["what"] == "routes");
        routes
            .map(|check| (text(check, "verdict"), text(check, "found"), text(check, "advice")))
            .collect::<Vec<_>>()
    };
    let own = |verdict: &str, found: &str, advice: &str| {
        vec![(verdict.to_owned(), found.to_owned(), advice.to_owned())]
    };
    assert_eq!(doctor("").await, own("good", "none here: messages wait for workers that reserve them", ""));
    assert_eq!(
        doctor("[[routes]]\ntopic = 'orders.*'\nsink = 'out'\n").await,
        own(
            "warning",
            "lost/and.found has no route: 3 messages waiting, 0 of them ready",
            "add a [[routes]] with topic = \"lost/and.found\", unless workers reserve them"
        )
    );
    assert_eq!(
        doctor("[[routes]]\ntopic = '**'\nsink = 'out'\n").await,
        own("good", "1, and every topic with messages has one", "")
    );
}
