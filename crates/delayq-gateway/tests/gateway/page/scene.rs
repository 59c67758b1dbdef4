//! The deployment of the journeys: two timers in etcd, a forwarder with two webhooks, a compensator with a spool, an outbox and an
//! intake, and gateways that know them all.

use crate::people::provider::Provider;
use crate::people::settings_at;
use crate::stage::{Running, Stage};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use delayq_gateway::token_line;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::SHORT;
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::folder::Folder;
use delayq_tests::nats_server::NatsServer;
use delayq_tests::ports::free_port;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::process::Process;
use delayq_tests::redis_server::RedisServer;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// An address where nothing listens.
const SILENT: &str = "127.0.0.1:9";

/// After three rejections in a row, a destination rests.
const FORWARDER: &str = "[forwarder]\ncircuit_longest_rest = \"2s\"\nmax_burials = 3\n\
    [[routes]]\ntopic = \"hooks.*\"\nsink = \"shop\"\nto = \"{topic}\"\n";

pub(super) struct Scene {
    pub(super) tokens: PathBuf,
    pub(super) main: Running,
    pub(super) people: Running,
    pub(super) stage: Stage<RedisServer>,
    etcd: String,
    answers: WebhookAnswers,
    records: Records,
    _etcd: EtcdCluster,
    _processes: Vec<Process>,
    _folders: [Folder; 3],
}

/// The database and the broker whose records the compensator carries out.
struct Records {
    postgres: PostgresServer,
    nats: NatsServer,
}

/// The status of the answer by destination; 200 otherwise.
type WebhookAnswers = Arc<Mutex<HashMap<String, StatusCode>>>;

// === impl Scene ===

impl Scene {
    pub(super) async fn start() -> Self {
        let [folder, secrets, spool] = ["page", "people", "spool"].map(Folder::new);
        let tokens = folder.join("tokens");
        let lines = token_line("shop", "secret") + &token_line("desk", "seen").replace('\n', " read\n");
        let tenant = token_line("acme-desk", "tenant").replace('\n', " tenant=acme\n");
        std::fs::write(&tokens, lines + &tenant).unwrap();
        let cluster = EtcdCluster::start_one().await;
        let etcd = format!("[etcd]\nendpoints = [\"{}\"]\n", cluster.endpoints()[0]);
        let settings = format!("tokens = \"{}\"\nshown.orders = [\"/order\"]\n", tokens.display());
        let stage = Stage::private(&format!("{settings}{etcd}")).await;
        let answers = WebhookAnswers::default();
        let hook = webhook(Arc::clone(&answers)).await;
        let spooled = format!("[spool]\ndir = \"{}\"\n", spool.path().display());
        let records = Records::start().await;
        let config = |rest: &str| format!("{}{etcd}{rest}", stage.deployment.sections());
        let mut processes = Vec::new();
        for name in ["one", "two"] {
            processes.push(
                started(&folder, "delayq-timer", &config(&format!("[timer]\nname = \"{name}\"\n"))).await,
            );
        }
        let shop = format!("[sinks.shop.webhook]\nurl = \"{hook}\"\n{FORWARDER}");
        processes.push(started(&folder, "delayq-forwarder", &config(&shop)).await);
        let of_compensator = config(&format!("{spooled}{}", records.sections()));
        records.make_outbox(&folder, &of_compensator).await;
        processes.push(started(&folder, "delayq-compensator", &of_compensator).await);
        // Timers are in etcd.
        let others = processes[2..].iter().map(|(_, address)| format!("\"{address}\", ")).collect::<String>();
        let settings = format!("{settings}processes = [{others}\"{SILENT}\"]\n");
        let main = stage.another_with(&format!("{settings}{spooled}{etcd}")).await;
        let (provider, host) = (Provider::start().await, format!("127.0.0.1:{}", free_port()));
        let of_people = settings_at(&host, &secrets, &provider.issuer, "");
        let people = stage.another_with(&format!("listen = \"{host}\"\n{of_people}{etcd}")).await;
        let processes = processes.into_iter().map(|(process, _)| process).collect();
        Self {
            tokens,
            main,
            people,
            stage,
            etcd,
            answers,
            records,
            _etcd: cluster,
            _processes: processes,
            _folders: [folder, secrets, spool],
        }
    }

    /// Does what a journey asks for. False for another line.
    pub(super) async fn does(&self, line: &str) -> bool {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["redis", "freeze"] => self.stage.deployment.server.freeze(),
            ["redis", "thaw"] => self.stage.deployment.server.thaw(),
            ["webhook", destination, status] => {
                let status = status.parse().unwrap();
                self.answers.lock().unwrap().insert(destination.to_owned(), status);
            }
            ["timers", verb, name] => self.timers(verb, name).await,
            ["record", topic] => self.records.add(topic).await,
            _ => return false,
        }
        true
    }

    async fn timers(&self, verb: &str, name: &str) {
        let config = self.stage.folder.join("command.toml");
        std::fs::write(&config, self.stage.deployment.sections() + &self.etcd).unwrap();
        let command = Binary::new("delayq").arg("--config").arg(&config).args(["timers", verb, name]);
        let finished = command.run(b"", SHORT).await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
    }
}

// === impl Records ===

impl Records {
    async fn start() -> Self {
        let (postgres, nats) = tokio::join!(PostgresServer::start(), NatsServer::start(&[]));
        let records = Self { postgres, nats };
        for name in ["in", "dead"] {
            let stream = format!(r#"{{"name":"{name}","subjects":["{name}.*"]}}"#);
            records.publish(&format!("$JS.API.STREAM.CREATE.{name}"), "", &stream).await;
        }
        records
    }

    fn sections(&self) -> String {
        let (database, broker) = (self.postgres.url(), self.nats.url());
        format!(
            "[outbox]\nurl = \"{database}\"\n[intake.orders]\ndead = \"dead.orders\"\ntopic = \"unconfirmed\"\n\
             [intake.orders.nats]\nservers = [\"{broker}\"]\nstream = \"in\"\n"
        )
    }

    async fn make_outbox(&self, folder: &Folder, config: &str) {
        let file = folder.join("outbox.toml");
        std::fs::write(&file, config).unwrap();
        let command = Binary::new("delayq").arg("--config").arg(&file).args(["outbox", "init"]);
        let finished = command.run(b"", SHORT).await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
    }

    /// Records a put in the outbox, and one in the stream.
    async fn add(&self, topic: &str) {
        self.postgres.run(format!("INSERT INTO delayq_outbox (topic, id) VALUES ('{topic}', 'row')"));
        self.publish("in.orders", "delayq-id: record\r\n", "x").await;
    }

    /// By the protocol of the broker, and read again from the stream.
    async fn publish(&self, subject: &str, headers: &str, body: &str) {
        let headers = format!("NATS/1.0\r\n{headers}\r\n");
        let mut broker = TcpStream::connect(self.nats.address()).await.unwrap();
        let sizes = format!("{} {}", headers.len(), headers.len() + body.len());
        let sent = format!(
            "CONNECT {{\"verbose\":false,\"headers\":true}}\r\nHPUB {subject} {sizes}\r\n{headers}{body}\r\nPING\r\n"
        );
        broker.write_all(sent.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(broker).lines();
        while lines.next_line().await.unwrap().expect("the broker answers").trim() != "PONG" {}
    }
}

/// A process, and the address of its admin endpoint.
async fn started(folder: &Folder, program: &str, config: &str) -> (Process, String) {
    let file = folder.join(&format!("{program}-{}.toml", free_port()));
    std::fs::write(&file, format!("{config}[admin]\nlisten = \"127.0.0.1:0\"\n")).unwrap();
    let mut process = Binary::new(program).arg(&file).start();
    let line = process.wait_for_line("admin endpoint listening", SHORT).await;
    let logged: Value = serde_json::from_str(&line).expect("a log line is an object");
    (process, logged["address"].as_str().unwrap().to_owned())
}

/// The address of a server that takes what the forwarder delivers.
async fn webhook(answers: WebhookAnswers) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answer = async |State(answers): State<WebhookAnswers>, Path(destination): Path<String>| {
        answers.lock().unwrap().get(&destination).copied().unwrap_or(StatusCode::OK)
    };
    let router = Router::new().route("/{destination}", axum::routing::any(answer)).with_state(answers);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}
