//! `delayq bundle`: its content, which has no secret.

use super::deployed;
use super::printed::assert_is_documented;
use delayq_tests::binary::Binary;
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, SHORT};
use delayq_tests::folder::Folder;
use delayq_tests::ports::free_port;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A secret in every place where a configuration may hold one, and in unknown places.
const PLANTED: [&str; 18] = [
    "s3cret-of-redis-url",
    "s3cret-of-etcd",
    "s3cret-of-kafka",
    "s3cret-of-nats-token",
    "s3cret-of-rabbitmq-file",
    "s3cret-of-webhook-signature",
    "s3cret-of-webhook-bearer",
    "s3cret-of-webhook-path",
    "s3cret-of-route-header",
    "s3cret-of-route-to-path",
    "s3cret-of-redis-list",
    "s3cret-of-redis-stream-env",
    "s3cret-of-an-override",
    "s3cret-of-tls-key",
    "s3cret-of-foreign-url",
    "s3cret-of-foreign-field",
    "s3cret-of-foreign-header",
    "s3cret-of-a-payload",
];

/// Not a secret: its presence shows that the search works.
const CANARY: &str = "harmless-canary";

fn configuration(folder: &Folder, redis: &SharedRedis, admin: u16) -> String {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let rabbitmq = write("rabbitmq-password", "s3cret-of-rabbitmq-file\n");
    let authority = Authority::new();
    let client = authority.sign("client", &["client.example"]);
    let [key, cert] = [&client.key, &client.certificate].map(|file| std::fs::read_to_string(file).unwrap());
    let (key, cert) = (write("key.pem", &format!("s3cret-of-tls-key\n{key}")), write("cert.pem", &cert));
    let address = redis.address();
    format!(
        "[deployment]\nshards = 4\n[redis]\nurl = \
         'redis://planted:s3cret-of-redis-url@{address}/'\n[etcd]\nendpoints = \
         ['https://127.0.0.1:1']\nusername = 'planted'\npassword = 's3cret-of-etcd'\nkey = \
         '{key}'\ncert = '{cert}'\n[admin]\nlisten = '127.0.0.1:{admin}'\n[sinks.k.kafka]\nbrokers = \
         ['127.0.0.1:1']\nmechanism = 'PLAIN'\nusername = 'u'\npassword = \
         's3cret-of-kafka'\n[sinks.n.nats]\ntoken = 's3cret-of-nats-token'\n[sinks.r.rabbitmq]\npassword = \
         {{ file = '{rabbitmq}' }}\n[sinks.w.webhook]\nurl = \
         'https://hooks.example/s3cret-of-webhook-path'\nsecret = 's3cret-of-webhook-signature'\nbearer = \
         's3cret-of-webhook-bearer'\n[sinks.l.redis.server]\nurl = \
         'redis://:s3cret-of-redis-list@{address}/'\n[sinks.s.redis.server]\nurl = \
         'redis://{address}/'\nusername = 'u'\npassword = {{ env = 'PLANTED_VARIABLE' }}\n[[routes]]\ntopic \
         = 'orders'\nsink = 'w'\nto = 'in/s3cret-of-route-to-path/{{id}}'\nheaders = {{ authorization = \
         'Basic s3cret-of-route-header' }}\n"
    )
}

/// The metrics repeat a token.
fn process(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            // Read to the blank line: unread bytes would reset the connection.
            let request = BufReader::new(connection.try_clone().unwrap());
            assert!(request.lines().any(|line| line.unwrap().is_empty()));
            let body = format!(
                "delayq_x{{destination=\"https://hooks.example/s3cret-of-webhook-path\",c=\"{CANARY}\"}} 1\n"
            );
            write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n{body}").unwrap();
        }
    });
}

fn log_text() -> String {
    let known: String =
        PLANTED[..14].iter().map(|secret| format!("error: {secret}; \"{secret}\" {secret}\n")).collect();
    format!(
        "{known}{CANARY}\ncannot reach amqp://u:s3cret-of-foreign-url@h:5672/\n\
         {{\"fields\":{{\"api_key\":\"s3cret-of-foreign-field\"}}}}\nAuthorization: Bearer s3cret-of-foreign-header\n"
    )
}

fn unpacked(archive: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(std::fs::File::open(archive).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().strip_prefix("delayq-bundle").unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    });
    entries.collect()
}

fn found<'w>(words: &[&'w str], texts: impl Iterator<Item = impl AsRef<str>>) -> Vec<&'w str> {
    let texts: Vec<_> = texts.collect();
    words.iter().copied().filter(|word| texts.iter().any(|text| text.as_ref().contains(word))).collect()
}

#[tokio::test]
async fn a_bundle_has_every_part_or_why_not_and_none_of_the_planted_secrets() {
    let (redis, folder, admin) =
        (deployed(RedisServer::private().await).await, Folder::new("bundle"), free_port());
    redis
        .command::<()>(&["ACL", "SETUSER", "planted", "on", ">s3cret-of-redis-url", "~*", "&*", "+@all"])
        .await;
    let (config, log, bundle) =
        (folder.join("delayq.toml"), folder.join("timer.log"), folder.join("b.tar.gz"));
    let text = configuration(&folder, &redis, admin);
    std::fs::write(&config, &text).unwrap();
    std::fs::write(&log, log_text()).unwrap();
    process(admin);
    let delayq = |args: &[&str]| {
        let delayq = Binary::new("delayq").arg("--config").arg(&config).args(args);
        delayq
            .env("PLANTED_VARIABLE", "s3cret-of-redis-stream-env")
            .env("DELAYQ__SINKS__W__WEBHOOK__BEARER", "s3cret-of-an-override")
    };
    let put = delayq(&["put", "orders", "s3cret-of-a-payload", "--in", "1h"]).run(b"", SHORT).await;
    assert_eq!(put.code, Some(0), "{put:?}");

    let args = ["bundle", bundle.to_str().unwrap(), "--log", log.to_str().unwrap(), "--json"];
    let done = delayq(&args).run(b"", LONG).await;
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    let printed: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_is_documented(&printed, &args);
    assert_eq!(std::fs::metadata(&bundle).unwrap().permissions().mode() & 0o777, 0o600);
    let files = unpacked(&bundle);

    // The search finds every word in the inputs, and a word of each place in the bundle.
    let into = [text, log_text(), std::fs::read_to_string(folder.join("key.pem")).unwrap()];
    let in_neither = [
        "s3cret-of-rabbitmq-file",
        "s3cret-of-redis-stream-env",
        "s3cret-of-an-override",
        "s3cret-of-a-payload",
    ];
    let planted: Vec<&str> = PLANTED.into_iter().filter(|secret| !in_neither[3..].contains(secret)).collect();
    assert_eq!(found(&planted, into.iter()), planted);
    for file in ["logs/0-timer.log", &format!("processes/127.0.0.1:{admin}/metrics.txt")] {
        assert_eq!(found(&[CANARY], [&files[file]].into_iter()), [CANARY], "{file}");
    }
    for (file, text) in &files {
        assert_eq!(found(&PLANTED, [text].into_iter()), Vec::<&str>::new(), "{file}:\n{text}");
    }
    let all = [done.stdout.as_str(), done.stderr.as_str()];
    assert_eq!(found(&PLANTED, all.into_iter()), Vec::<&str>::new());

    let shown = &files["configuration.toml"];
    for kept in [
        "https://hooks.example/***",
        "username = \"planted\"",
        "authorization = \"***\"",
        "rabbitmq-password",
    ] {
        assert!(shown.contains(kept), "{kept} is not in\n{shown}");
    }
    assert!(files["topics.json"].contains("\"orders\"") && files["topics.json"].contains("\"delayed\": 1"));
    assert!(files["redis.json"].contains("\"version\": \"7"), "{}", files["redis.json"]);
    for file in [
        "shards.json",
        "clocks.json",
        "doctor.json",
        "audit.json",
        "host/kernel.txt",
        "host/limits.txt",
        "bundle.json",
    ] {
        assert!(files.contains_key(file), "{file}: {:?}", files.keys());
    }
    let missing = &files["timers.json.missing.txt"];
    assert!(missing.starts_with("cannot collect timers.json: "), "{missing}");
    let named = printed["packed"].as_array().unwrap().iter().map(|one| one["file"].as_str().unwrap());
    assert_eq!(named.collect::<std::collections::BTreeSet<_>>(), files.keys().map(String::as_str).collect());
}

#[tokio::test]
async fn without_any_server_a_bundle_says_of_each_part_why_it_is_missing_and_replaces_no_file_unasked() {
    let folder = Folder::new("bundle");
    let (bundle, log) = (folder.join("b.tar.gz"), folder.join("there.log"));
    std::fs::write(&log, "said s3cret-of-a-replaced-url\n").unwrap();
    let run = async |more: &[&str]| {
        let away =
            Binary::new("delayq").args(["--redis", "redis://:s3cret-of-an-option@127.0.0.1:1/", "bundle"]);
        away.arg(&bundle)
            .args(more)
            .env("DELAYQ__REDIS__URL", "redis://:s3cret-of-a-replaced-url@127.0.0.1:1/")
            .env("DELAYQ__ETCD__ENABLED", "false")
            .env("DELAYQ__ADMIN__LISTEN", "")
            .run(b"", LONG)
            .await
    };
    let there = log.to_str().unwrap();
    let done = run(&["--admin", "127.0.0.1:1", "--log", "/nowhere/x.log", "--log", there]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let files = unpacked(&bundle);
    for part in [
        "redis.json",
        "timers.json",
        "topics.json",
        "clocks.json",
        "processes/127.0.0.1:1/metrics.txt",
        "logs/0-x.log",
    ] {
        assert!(files.contains_key(&format!("{part}.missing.txt")), "{part}: {:?}", files.keys());
    }
    assert!(files["doctor.json"].contains("127.0.0.1:1"));
    assert_eq!(files["logs/1-there.log"], "said ***\n");
    assert_eq!(
        found(&["s3cret-of-an-option", "s3cret-of-a-replaced-url"], files.values()),
        Vec::<&str>::new()
    );
    let again = run(&[]).await;
    assert!(
        again.code == Some(64) && again.stderr.contains("exists: replace it with --overwrite"),
        "{again:?}"
    );
    std::fs::set_permissions(&bundle, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(run(&["--overwrite"]).await.code, Some(0));
    assert_eq!(std::fs::metadata(&bundle).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::remove_file(&bundle).unwrap();
    std::os::unix::fs::symlink(folder.join("nothing"), &bundle).unwrap();
    let again = run(&[]).await;
    assert!(
        again.code == Some(64) && again.stderr.contains("exists: replace it with --overwrite"),
        "{again:?}"
    );
    assert!(!folder.join("nothing").exists());
}

#[tokio::test]
async fn while_the_configuration_has_faults_what_might_hold_its_secrets_is_left_out() {
    let folder = Folder::new("bundle");
    let (config, log, bundle) = (folder.join("delayq.toml"), folder.join("x.log"), folder.join("b.tar.gz"));
    let sink = "[sinks.n.nats]\ntoken = 's3cret-of-nats-token'\nunknown = 1\n";
    std::fs::write(
        &config,
        format!("[etcd]\nenabled = false\n[redis]\nurl = 'redis://127.0.0.1:1/'\n{sink}"),
    )
    .unwrap();
    std::fs::write(&log, "said s3cret-of-nats-token\n").unwrap();
    let delayq = Binary::new("delayq").arg("--config").arg(&config).arg("bundle").arg(&bundle);
    let done = delayq.arg("--log").arg(&log).run(b"", LONG).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let files = unpacked(&bundle);
    assert_eq!(found(&PLANTED, files.values()), Vec::<&str>::new());
    assert!(files["configuration.toml.missing.txt"].contains("sinks.n.nats.unknown"), "{files:?}");
    assert!(files["logs.missing.txt"].contains("its secrets cannot be redacted"), "{files:?}");
    assert!(files["processes.missing.txt"].contains("its secrets cannot be redacted"), "{files:?}");
}
