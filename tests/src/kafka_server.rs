//! A private Kafka: one KRaft node or a cluster, run from jars.

use crate::deadline::{LONG, wait_until, within};
use crate::folder::Folder;
use crate::jars::{Jars, run};
use crate::kafka_listener::{self, Listener};
use crate::kafka_topics::{self, NewTopic};
use crate::lent::Lendable;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use tokio::sync::OnceCell;

/// Any 16 bytes in base64; a broker of another id refuses the data.
const CLUSTER_ID: &str = "ZGVsYXlxLXRlc3RzLTAwMQ";

static JARS: OnceCell<Jars> = OnceCell::const_new();
/// A single node that is never started: formatting takes a JVM, and a copy of its storage serves every other single node.
static FORMATTED: OnceLock<KafkaServer> = OnceLock::new();
static IDLE: Mutex<Vec<KafkaServer>> = Mutex::new(Vec::new());

/// A running (or stopped) broker without automatic topics. Dropping the server kills the process and removes the folder.
#[derive(Debug)]
pub struct KafkaServer {
    folder: Folder,
    port: u16,
    node: Node,
    jars: Jars,
    /// Set for further listeners, rules or nodes.
    is_special: bool,
    process: Option<Process>,
}

#[derive(Debug, Clone)]
struct Node {
    /// From 1.
    id: usize,
    controller_port: u16,
    /// All nodes, in the form of the quorum's setting.
    voters: String,
    count: usize,
}

// === impl Node ===

impl Node {
    fn cluster(count: usize) -> Vec<Self> {
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let voter = |(i, port): (usize, &u16)| format!("{}@127.0.0.1:{port}", i + 1);
        let voters: Vec<String> = ports.iter().enumerate().map(voter).collect();
        let voters = voters.join(",");
        let node = |(i, controller_port)| Self { id: i + 1, controller_port, voters: voters.clone(), count };
        ports.into_iter().enumerate().map(node).collect()
    }
}

// === impl KafkaServer ===

impl KafkaServer {
    /// Fetches missing jars, formats the storage, and starts the broker; a failure shows the output.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// As [`Self::start`], with further listeners.
    pub async fn start_with(listeners: &[Listener]) -> Self {
        let mut server = Self::formatted(&jars().await, Node::cluster(1).remove(0), listeners);
        server.resume().await;
        server
    }

    /// As [`Self::start_with`], with the rules for users that [`Self::acl_tool`] sets. Over the plain listener, everything is
    /// allowed.
    pub async fn start_with_acls(listener: &Listener) -> Self {
        let listeners = std::slice::from_ref(listener);
        let mut server = Self::formatted(&jars().await, Node::cluster(1).remove(0), listeners);
        let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
        let rules = format!("authorizer.class.name={authorizer}\nsuper.users=User:ANONYMOUS\n");
        let settings = server.settings(listeners) + &rules;
        std::fs::write(server.settings_path(), settings).expect("a folder just made can be written to");
        server.resume().await;
        server
    }

    /// The shell function `kafka-acls.sh`, Kafka's own tool for rules.
    #[must_use]
    pub fn acl_tool(&self) -> String {
        let (archive, jars) = (self.jars.archived(), self.jars.class_path());
        let options = format!("-XX:TieredStopAtLevel=1 {archive} -cp '{}'", jars.display());
        format!("kafka-acls.sh() {{ java {options} org.apache.kafka.tools.AclCommand \"$@\"; }}\n")
    }

    /// Starts a cluster of this many nodes (from 1), each broker and controller, and waits for the cluster to form.
    /// More than half of the nodes must live.
    pub async fn start_cluster(count: usize) -> Vec<Self> {
        let jars = jars().await;
        let mut servers: Vec<Self> =
            Node::cluster(count).into_iter().map(|node| Self::formatted(&jars, node, &[])).collect();
        for server in &mut servers {
            server.spawn(&server.jars.archived());
        }
        for server in &mut servers {
            let address = server.address();
            server.answering().await;
            let all = || async { brokers(address.clone()).await == Some(count) };
            wait_until("the nodes of Kafka to know each other", LONG, all).await;
        }
        servers
    }

    /// A node that has its storage and was never started.
    fn formatted(jars: &Jars, node: Node, listeners: &[Listener]) -> Self {
        let server = Self::unformatted(jars, node, listeners);
        if server.node.count > 1 {
            server.format();
        } else {
            let formatted = FORMATTED.get_or_init(|| {
                let first = Self::unformatted(jars, Node::cluster(1).remove(0), &[]);
                first.format();
                first
            });
            copy_files(&formatted.storage(), &server.storage());
        }
        server
    }

    fn unformatted(jars: &Jars, node: Node, listeners: &[Listener]) -> Self {
        let (folder, port) = (Folder::new("kafka"), free_port());
        let server = Self {
            folder,
            port,
            is_special: node.count > 1 || !listeners.is_empty(),
            node,
            jars: jars.clone(),
            process: None,
        };
        let settings = server.settings(listeners);
        std::fs::write(server.settings_path(), settings).expect("a folder just made can be written to");
        server
    }

    /// Runs a broker once for the archive of the classes that it loads.
    async fn archive_classes(jars: &Jars) {
        let mut server = Self::unformatted(jars, Node::cluster(1).remove(0), &[]);
        server.format();
        let part = jars.archive().with_extension("part");
        server.spawn(&format!("-XX:ArchiveClassesAtExit={}", part.display()));
        server.answering().await;
        server.process.take().expect("it was just started").end_by(Signal::TERM, LONG).await;
        std::fs::rename(part, jars.archive()).expect("a JVM that ends writes its archive");
    }

    fn format(&self) {
        let mut format = self.java(&self.jars.archived(), "kafka.tools.StorageTool");
        format.args(["format", "-t", CLUSTER_ID, "-c"]).arg(self.settings_path());
        run(&mut format, "formatting Kafka's storage");
    }

    /// The bootstrap address, `127.0.0.1:PORT`; constant over restarts.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Creates a topic with this many partitions (from 1) and its own settings, such as `max.message.bytes`.
    pub async fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let address = self.address();
        let asking = kafka_topics::create(&address, NewTopic { name, partitions, settings });
        match within("Kafka's answer about a new topic", LONG, asking).await {
            Ok((0, _)) => {}
            Ok((code, words)) => panic!("Kafka refused the topic {name} (code {code}): {words}"),
            Err(e) => panic!("Kafka on {address} did not answer about the topic {name}: {e}"),
        }
    }

    /// Kills the broker (SIGKILL) and waits for the end.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a stopped Kafka cannot be killed");
        process.end_by(Signal::KILL, LONG).await;
    }

    /// Restarts the broker on the same data and waits for answers. A no-op while running.
    pub async fn resume(&mut self) {
        if self.process.is_none() {
            self.spawn(&self.jars.archived());
            self.answering().await;
        }
    }

    fn spawn(&mut self, archive: &str) {
        let path = self.settings_path();
        let mut command = self.java(archive, "kafka.Kafka");
        command.arg(path);
        self.process = Some(Process::spawn("Kafka", command));
    }

    async fn answering(&mut self) {
        let address = self.address();
        let process = self.process.as_mut().expect("it was just started");
        wait_until("Kafka to answer", LONG, || {
            if let Some(status) = process.ended() {
                panic!("Kafka ended with {status} instead of starting:\n{}", process.tail());
            }
            let address = address.clone();
            async move { brokers(address).await.is_some() }
        })
        .await;
    }

    /// Freezes the broker (SIGSTOP).
    pub fn freeze(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::STOP));
    }

    /// Resumes the broker (SIGCONT).
    pub fn thaw(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::CONT));
    }

    fn settings_path(&self) -> PathBuf {
        self.folder.join("server.properties")
    }

    fn storage(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn java(&self, archive: &str, class: &str) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
        command.args([archive, "-cp"]).arg(self.jars.class_path()).arg(class).current_dir(self.folder.path());
        command
    }

    fn settings(&self, listeners: &[Listener]) -> String {
        let Node { id, controller_port, voters, count } = &self.node;
        let listening = kafka_listener::settings(self.port, *controller_port, listeners, self.folder.path());
        let replicas = (*count).min(3);
        let least = if replicas == 3 { 2 } else { 1 };
        format!(
            "process.roles=broker,controller\nnode.id={id}\ncontroller.quorum.voters={voters}\n{listening}\
             log.dirs={}\nnum.partitions=1\ndefault.replication.factor={replicas}\n\
             offsets.topic.replication.factor={replicas}\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor={replicas}\ntransaction.state.log.min.isr={least}\n\
             transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n\
             auto.create.topics.enable=false\nbroker.session.timeout.ms=3000\n\
             broker.heartbeat.interval.ms=500\nreplica.lag.time.max.ms=5000\n\
             log.cleaner.dedupe.buffer.size=16777216\n",
            self.storage().display()
        )
    }
}

// === impl Lendable ===

impl Lendable for KafkaServer {
    fn idle() -> &'static Mutex<Vec<Self>> {
        &IDLE
    }

    fn is_lendable(&self) -> bool {
        self.process.is_some() && !self.is_special
    }

    /// Topics and groups stay: each test deletes topics before creating them, and uses a fresh group.
    async fn empty(&mut self) {}
}

/// According to the independent client kcat; `None` without an answer.
async fn brokers(address: String) -> Option<usize> {
    let mut kcat = tokio::process::Command::new("kcat");
    kcat.args(["-b", &address, "-L", "-m", "1"]).kill_on_drop(true);
    let output = kcat.output().await.ok().filter(|output| output.status.success())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(said.lines().filter(|line| line.starts_with("  broker ")).count())
}

/// The jars with the archive of their classes; made once by the first test of all that need them.
async fn jars() -> Jars {
    let prepared = JARS.get_or_init(|| async {
        let (jars, lock) = Jars::fetched("kafka", "kafka-4.3.1");
        if !jars.archive().exists() {
            KafkaServer::archive_classes(&jars).await;
        }
        drop(lock);
        jars
    });
    prepared.await.clone()
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder just made can be written to");
    for file in std::fs::read_dir(from).expect("formatting made the folder") {
        let file = file.expect("the folder can be read");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("a formatted storage has only files");
    }
}
