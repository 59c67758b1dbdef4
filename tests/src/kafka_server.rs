//! A private Kafka broker: one KRaft node, run from its jars.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::deadline::{LONG, wait_until, within};
use crate::folder::Folder;
use crate::kafka_topics::{self, NewTopic};
use crate::ports::free_port;
use crate::process::{Process, Signal};

const POM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kafka/pom.xml");

/// Any 16 bytes in base64; a broker of another id refuses the data.
const CLUSTER_ID: &str = "ZGVsYXlxLXRlc3RzLTAwMQ";

/// A running (or stopped) broker without automatic topics. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct KafkaServer {
    folder: Folder,
    port: u16,
    jars: PathBuf,
    process: Option<Process>,
}

// === impl KafkaServer ===

impl KafkaServer {
    /// Fetches the jars when they are not there yet, formats the storage, starts the broker and waits for it.
    ///
    /// # Panics
    /// When the jars cannot be had or it does not start; the message holds what was printed.
    pub async fn start() -> Self {
        let mut server =
            Self { folder: Folder::new("kafka"), port: free_port(), jars: fetch_jars(), process: None };
        let settings = server.settings(free_port());
        std::fs::write(server.settings_path(), settings).expect("a folder just made can be written to");
        let path = server.settings_path();
        let mut format = server.java("kafka.tools.StorageTool");
        run(format.args(["format", "-t", CLUSTER_ID, "-c"]).arg(path), "formatting Kafka's storage");
        server.resume().await;
        server
    }

    /// The bootstrap address, `127.0.0.1:PORT`; the same after a restart.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Makes a topic of so many partitions (from 1) with settings of its own, such as `max.message.bytes`.
    ///
    /// # Panics
    /// When the broker refuses it, with the broker's code and words, or does not answer in time.
    pub async fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let address = self.address();
        let asking = kafka_topics::create(&address, NewTopic { name, partitions, settings });
        match within("Kafka's answer about a new topic", LONG, asking).await {
            Ok((0, _)) => {}
            Ok((code, words)) => panic!("Kafka refused the topic {name} (code {code}): {words}"),
            Err(e) => panic!("Kafka on {address} did not answer about the topic {name}: {e}"),
        }
    }

    /// Kills it (SIGKILL) and waits for its end.
    ///
    /// # Panics
    /// When it is stopped already.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a stopped Kafka cannot be killed");
        process.end_by(Signal::KILL, LONG).await;
    }

    /// Starts it again on the same data and waits until it answers. Does nothing while it runs.
    ///
    /// # Panics
    /// When it does not answer in time, or ends.
    pub async fn resume(&mut self) {
        if self.process.is_some() {
            return;
        }
        let path = self.settings_path();
        let mut command = self.java("kafka.Kafka");
        command.arg(path);
        let address = self.address();
        let process = self.process.insert(Process::spawn("Kafka", command));
        wait_until("Kafka to answer", LONG, || {
            if let Some(status) = process.ended() {
                panic!("Kafka ended with {status} instead of starting:\n{}", process.tail());
            }
            answers(address.clone())
        })
        .await;
    }

    /// Freezes it (SIGSTOP).
    pub fn freeze(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::STOP));
    }

    /// Lets it go on (SIGCONT).
    pub fn thaw(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::CONT));
    }

    fn settings_path(&self) -> PathBuf {
        self.folder.join("server.properties")
    }

    fn java(&self, class: &str) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
        command.arg("-cp").arg(self.jars.join("*")).arg(class).current_dir(self.folder.path());
        command
    }

    fn settings(&self, controller_port: u16) -> String {
        let (port, folder) = (self.port, self.folder.join("log"));
        format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller_port}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             log.dirs={}\nnum.partitions=1\ndefault.replication.factor=1\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n\
             auto.create.topics.enable=false\nbroker.session.timeout.ms=3000\n\
             broker.heartbeat.interval.ms=500\nlog.cleaner.dedupe.buffer.size=16777216\n",
            folder.display()
        )
    }
}

/// One look at the broker's metadata with kcat, a client of its own.
async fn answers(address: String) -> bool {
    let mut kcat = tokio::process::Command::new("kcat");
    kcat.args(["-b", &address, "-L", "-m", "1"]).kill_on_drop(true);
    kcat.output().await.is_ok_and(|output| output.status.success())
}

/// The folder of the jars, in the build's own folder, so that later runs find them there.
fn fetch_jars() -> PathBuf {
    let jars = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kafka-4.3.1");
    // One test fetches, whoever else comes waits for it: in this process and in others.
    let lock = jars.with_extension("lock");
    std::fs::create_dir_all(jars.parent().expect("the folder of the jars is in the build's"))
        .expect("target can be made");
    let lock = std::fs::File::create(lock).expect("the folder of the build can be written to");
    lock.lock().expect("a lock is given when its holder has fetched");
    // Written last, so that a fetch that was cut off is done again.
    let done = jars.join("complete");
    if !done.exists() {
        let output = format!("-DoutputDirectory={}", jars.display());
        let mut fetch = Command::new("mvn");
        fetch.args([
            "-q",
            "-B",
            "-f",
            POM,
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            &output,
        ]);
        run(&mut fetch, "fetching Kafka's jars");
        std::fs::write(done, "").expect("the folder of the jars was just written to");
    }
    jars
}

fn run(command: &mut Command, what: &str) {
    let output = command.output().unwrap_or_else(|e| panic!("{what} failed: {e}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what} failed:\n{out}{err}");
}
