//! Each alert of deploy/prometheus fires at its fault and then clears: real programs, and a real Prometheus that has
//! the rules with shorter times.

use delayq_tests::admin_endpoint::AdminEndpoint;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::nats_server::NatsServer;
use delayq_tests::ports::free_port;
use delayq_tests::process::{Process, Signal};
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Many enough for a timer to count the first shard's books within a second.
const SHARDS: u16 = 256;

/// Shortened windows and ages of the rules.
const SHORTER: [(&str, &str); 8] = [
    ("[1h]", "[10s]"),
    ("offset 1h", "offset 10s"),
    ("[5m]", "[10s]"),
    ("[15m]", "[10s]"),
    ("[6h]", "[10s]"),
    ("_seconds) > 30", "_seconds) > 2"),
    ("_seconds) > 60", "_seconds) > 2"),
    ("_seconds) > 900", "_seconds) > 2"),
];

struct Stack {
    redis: RedisServer,
    destination: RedisServer,
    folder: Folder,
    ports: [u16; 3],
    timer: Process,
    nats: NatsServer,
    _others: [Process; 3],
    alerts: AdminEndpoint,
    fired: BTreeSet<String>,
}

fn rules() -> String {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus/alerts.yaml");
    fs::read_to_string(rules).unwrap()
}

/// The rules without their `for`, and with shorter times.
fn quickened() -> String {
    let at_once = |line: &&str| !line.trim_start().starts_with("for: ");
    let rules: String = rules().lines().filter(at_once).map(|line| format!("{line}\n")).collect();
    SHORTER.iter().fold(rules, |rules, (long, short)| {
        assert!(rules.contains(long), "no rule has {long}");
        rules.replace(long, short)
    })
}

// === impl Stack ===

impl Stack {
    /// Starts everything; the books of a topic do not balance from the start.
    async fn start() -> Self {
        let redis = RedisServer::start_with(RedisOptions::default().append_only("everysec")).await;
        let destination = RedisServer::private().await;
        let folder = Folder::new("alerts");
        let ports = [(); 3].map(|()| free_port());
        let nats = NatsServer::start(&[]).await;
        for (name, most) in [("in", 5), ("dead", -1)] {
            let stream = format!("{{\"name\":\"{name}\",\"subjects\":[\"{name}\"],\"max_msgs\":{most}}}");
            ask(&nats, &format!("$JS.API.STREAM.CREATE.{name}"), &stream).await;
        }
        let text = format!(
            "[deployment]\nshards = {SHARDS}\n[redis]\nurl = {:?}\n[etcd]\nenabled = false\n\
             [sweep]\nevery = \"1s\"\nshare = 0.5\ndry_run = true\n[spool]\ndir = {:?}\n\
             [intake.orders]\ndead = \"dead\"\ntopic = \"later\"\nbatch = 1\nin_flight = 1\n\
             [intake.orders.nats]\nservers = [{:?}]\nstream = \"in\"\n\
             [forwarder]\ncircuit_longest_rest = \"1s\"\n[sinks.out.redis.server]\nurl = {:?}\n\
             [[routes]]\ntopic = \"orders\"\nsink = \"out\"\n\
             [[routes]]\ntopic = \"bad\"\nsink = \"out\"\nto = \"{{header.where}}\"\n",
            redis.url(),
            folder.join("spool"),
            nats.url(),
            destination.url(),
        );
        fs::create_dir(folder.join("spool")).unwrap();
        fs::write(folder.join("delayq.toml"), text).unwrap();
        delayq(&folder, &["init"]).await;
        let messages: String = (0..2_000).map(|n| format!("{{\"id\":\"{n}\",\"due\":\"+2h\"}}\n")).collect();
        fs::write(folder.join("later.ndjson"), messages).unwrap();
        delayq(&folder, &["put", "later", "--from", folder.join("later.ndjson").to_str().unwrap()]).await;
        accept(&redis, 3).await;
        let timer = service(&folder, "delayq-timer", ports[0]);
        let forwarder = service(&folder, "delayq-forwarder", ports[1]);
        let compensator = service(&folder, "delayq-compensator", ports[2]);
        let checks = checks(folder.join("delayq.toml")).await;
        let (prometheus, alerts) = prometheus(&folder, &ports, checks).await;
        let _others = [forwarder, compensator, prometheus];
        Self { redis, destination, folder, ports, timer, nats, _others, alerts, fired: BTreeSet::new() }
    }

    async fn delayq(&self, words: &[&str]) -> String {
        delayq(&self.folder, words).await
    }

    async fn fires(&mut self, alert: &str) {
        wait_until(&format!("{alert} to fire"), LONG, || self.is_firing(alert)).await;
        self.fired.insert(alert.to_owned());
    }

    async fn clears(&self, alert: &str) {
        wait_until(&format!("{alert} to clear"), LONG, async || !self.is_firing(alert).await).await;
    }

    async fn is_firing(&self, alert: &str) -> bool {
        let (_, answer) = self.alerts.get("/api/v1/alerts").await;
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        answer["data"]["alerts"].as_array().unwrap().iter().any(|one| one["labels"]["alertname"] == alert)
    }
}

async fn delayq(folder: &Folder, words: &[&str]) -> String {
    let finished = Binary::new("delayq").arg("--config").arg(folder.join("delayq.toml")).args(words);
    let finished = finished.run(b"", SHORT).await;
    assert_eq!(finished.code, Some(0), "{words:?}: {}", finished.stderr);
    finished.stdout
}

fn service(folder: &Folder, program: &str, port: u16) -> Process {
    let program = Binary::new(program).arg(folder.join("delayq.toml"));
    program.env("DELAYQ__ADMIN__LISTEN", format!("127.0.0.1:{port}")).start()
}

async fn ask(nats: &NatsServer, subject: &str, text: &str) {
    let mut connection = TcpStream::connect(nats.address()).await.unwrap();
    let (read, mut write) = connection.split();
    let headers = "NATS/1.0\r\ndelayq-id: 1\r\ndelayq-delay: 3h\r\n\r\n";
    let (before, all) = (headers.len(), headers.len() + text.len());
    let connect = "CONNECT {\"headers\":true,\"verbose\":false}\r\nSUB answer 1\r\n";
    let publish = format!("{connect}HPUB {subject} answer {before} {all}\r\n{headers}{text}\r\n");
    write.write_all(publish.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(read).lines();
    let mut answer = lines.next_line().await.unwrap().unwrap();
    while !answer.starts_with("MSG ") {
        answer = lines.next_line().await.unwrap().unwrap();
    }
    let answer = lines.next_line().await.unwrap().unwrap();
    assert!(!answer.contains("\"error\""), "{subject}: {answer}");
}

/// Answers each scrape with what `delayq check` finds, in place of a textfile collector.
async fn checks(configuration: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let check = Binary::new("delayq").arg("--config").arg(&configuration);
            let text = check.args(["check", "--format", "prometheus"]).run(b"", SHORT).await.stdout;
            let _ = stream.read(&mut [0; 4096]).await;
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}{text}").as_bytes()).await;
        }
    });
    port
}

/// Also its endpoint.
async fn prometheus(folder: &Folder, services: &[u16], checks: u16) -> (Process, AdminEndpoint) {
    fs::write(folder.join("alerts.yaml"), quickened()).unwrap();
    // A scrape lasts an interval at most, and a check starts a program: seconds on a busy machine.
    let text = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [alerts.yaml]\n\
         scrape_configs:\n- job_name: delayq\n  static_configs:\n  - targets: {:?}\n\
         - job_name: checks\n  scrape_interval: 5s\n  static_configs:\n  - targets: ['127.0.0.1:{checks}']\n",
        services.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>()
    );
    fs::write(folder.join("prometheus.yaml"), text).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = Command::new("prometheus");
    command.arg("--config.file").arg(folder.join("prometheus.yaml"));
    command.arg("--storage.tsdb.path").arg(folder.join("series"));
    command.arg(format!("--web.listen-address={address}"));
    let mut process = Process::spawn("Prometheus", command);
    process.wait_for_line("Server is ready to receive web requests", SHORT).await;
    (process, AdminEndpoint::at(address))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// The messages were never put.
async fn accept(redis: &SharedRedis, by: i32) {
    let () = redis.command(&["HINCRBY", "{dq:0}:stats", "accepted:1", &by.to_string()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_alert_fires_at_its_fault_and_clears_after_it() {
    let mut stack = Stack::start().await;
    stack.fires("DelayqBooksDoNotBalance").await;
    stack.fires("DelayqSweepFound").await;
    accept(&stack.redis, -3).await;

    stack.timer.end_by(Signal::TERM, SHORT).await;
    stack.fires("DelayqShardUnowned").await;
    stack.fires("DelayqCheckBad").await;
    stack.timer = service(&stack.folder, "delayq-timer", stack.ports[0]);
    stack.clears("DelayqShardUnowned").await;
    stack.clears("DelayqCheckBad").await;
    stack.clears("DelayqBooksDoNotBalance").await;
    stack.clears("DelayqSweepFound").await;

    stack.delayq(&["put", "orders", "due while Redis is frozen", "--in", "2s"]).await;
    stack.redis.freeze();
    stack.fires("DelayqOverdue").await;
    stack.redis.thaw();
    stack.clears("DelayqOverdue").await;
    stack.fires("DelayqLate").await;
    stack.clears("DelayqLate").await;

    stack.destination.stop().await;
    stack.delayq(&["put", "orders", "for a destination that is away"]).await;
    stack.fires("DelayqDestinationDown").await;
    stack.destination.resume().await;
    stack.clears("DelayqDestinationDown").await;

    let messages: String = (0..30).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect();
    fs::write(stack.folder.join("bad.ndjson"), messages).unwrap();
    stack.delayq(&["put", "bad", "--from", stack.folder.join("bad.ndjson").to_str().unwrap()]).await;
    stack.fires("DelayqDeadLetters").await;
    stack.clears("DelayqDeadLetters").await;

    stack.delayq(&["put", "elsewhere", "for no route"]).await;
    stack.fires("DelayqUnrouted").await;
    stack.fires("DelayqReadyOld").await;
    stack.delayq(&["purge", "elsewhere", "--state", "ready", "--yes"]).await;
    stack.clears("DelayqUnrouted").await;
    stack.clears("DelayqReadyOld").await;

    stack.redis.stop().await;
    stack.delayq(&["put", "later", "another message", "--id", "17", "--in", "3h"]).await;
    stack.fires("DelayqWritesWaiting").await;
    stack.redis.resume().await;
    stack.clears("DelayqWritesWaiting").await;
    stack.fires("DelayqWritesRejected").await;
    stack.delayq(&["spool", "discard", "--all", "--yes"]).await;
    stack.clears("DelayqWritesRejected").await;

    stack.redis.freeze();
    for _ in 0..20 {
        ask(&stack.nats, "in", "lost").await;
    }
    stack.redis.thaw();
    stack.fires("DelayqIntakeLost").await;
    stack.clears("DelayqIntakeLost").await;

    // Redis comes back with the files of a while ago.
    stack.redis.stop().await;
    let (now, then) = (stack.redis.folder().join("appendonlydir"), stack.folder.join("older"));
    copy(&now, &then);
    stack.redis.resume().await;
    stack.delayq(&["put", "later", "what is lost", "--in", "3h"]).await;
    let mark = async || stack.redis.command::<Option<u64>>(&["HGET", "{dq:0}:meta", "mark"]).await;
    let before = mark().await;
    wait_until("the next mark", LONG, async || mark().await > before).await;
    stack.redis.kill().await;
    fs::remove_dir_all(&now).unwrap();
    copy(&then, &now);
    stack.redis.resume().await;
    stack.fires("DelayqOlderData").await;
    stack.clears("DelayqOlderData").await;

    let rules = rules();
    let all = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned);
    assert_eq!(stack.fired, all.collect::<BTreeSet<_>>());
}
