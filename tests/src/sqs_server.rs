//! A private ElasticMQ, a server of the protocol of Amazon SQS, run from jars. Signatures are not checked.

use crate::deadline::{LONG, wait_until};
use crate::folder::Folder;
use crate::jars::Jars;
use crate::lent::Lendable;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

static JARS: OnceCell<Jars> = OnceCell::const_new();
static IDLE: Mutex<Vec<SqsServer>> = Mutex::new(Vec::new());

/// A running (or stopped) server. Dropping the server kills the process and removes the folder.
#[derive(Debug)]
pub struct SqsServer {
    folder: Folder,
    port: u16,
    jars: Jars,
    /// Each message is written to the disk before it is confirmed.
    is_stored: bool,
    process: Option<Process>,
}

// === impl SqsServer ===

impl SqsServer {
    /// Fetches missing jars, and starts a server with its messages in memory; a failure shows the output.
    pub async fn start() -> Self {
        Self::start_with(false).await
    }

    /// As [`Self::start`], with messages that outlive a kill, each for the price of an fsync.
    pub async fn start_stored() -> Self {
        Self::start_with(true).await
    }

    async fn start_with(is_stored: bool) -> Self {
        let jars = JARS.get_or_init(async || Jars::fetched("elasticmq", "elasticmq-1.6.11").0).await.clone();
        let mut server =
            Self { folder: Folder::new("sqs"), port: free_port(), jars, is_stored, process: None };
        server.resume().await;
        server
    }

    /// The address, `127.0.0.1:PORT`; constant over restarts.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of a queue.
    #[must_use]
    pub fn queue(&self, name: &str) -> String {
        format!("http://{}/000000000000/{name}", self.address())
    }

    /// Creates a queue with these attributes. A name that ends with `.fifo` is that of a FIFO queue.
    pub async fn create_queue(&self, name: &str, mut attributes: Value) {
        if name.ends_with(".fifo") {
            attributes["FifoQueue"] = "true".into();
        }
        self.call("CreateQueue", &json!({ "QueueName": name, "Attributes": attributes })).await;
    }

    /// Deletes a queue and all messages there.
    pub async fn delete_queue(&self, name: &str) {
        self.call("DeleteQueue", &json!({ "QueueUrl": self.queue(name) })).await;
    }

    /// Number of messages in a queue, those included that someone holds.
    pub async fn messages(&self, name: &str) -> u64 {
        let asked = json!({ "QueueUrl": self.queue(name), "AttributeNames": ["All"] });
        let found = self.call("GetQueueAttributes", &asked).await;
        let number =
            |of: &str| found["Attributes"][of].as_str().map_or(0, |text| text.parse::<u64>().unwrap_or(0));
        ["", "NotVisible", "Delayed"]
            .map(|which| number(&format!("ApproximateNumberOfMessages{which}")))
            .iter()
            .sum()
    }

    /// Receives at most ten messages, and deletes each.
    pub async fn take(&self, name: &str) -> Vec<Value> {
        let asked = json!({
            "QueueUrl": self.queue(name),
            "MaxNumberOfMessages": 10,
            "AttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        });
        let found = self.call("ReceiveMessage", &asked).await;
        let messages = found["Messages"].as_array().cloned().unwrap_or_default();
        if !messages.is_empty() {
            let entry = |(index, message): (usize, &Value)| json!({ "Id": index.to_string(), "ReceiptHandle": message["ReceiptHandle"] });
            let entries: Vec<Value> = messages.iter().enumerate().map(entry).collect();
            let asked = json!({ "QueueUrl": self.queue(name), "Entries": entries });
            self.call("DeleteMessageBatch", &asked).await;
        }
        messages
    }

    /// Calls an action; panics at a refusal.
    pub async fn call(&self, action: &str, body: &Value) -> Value {
        let (status, answer) =
            self.answer(action, body).await.unwrap_or_else(|e| panic!("SQS did not answer: {e}"));
        assert!(status == "200", "SQS refused {action} {body}: {status} {answer}");
        answer
    }

    async fn answer(&self, action: &str, body: &Value) -> std::io::Result<(String, Value)> {
        let (address, body) = (self.address(), body.to_string());
        let mut stream = TcpStream::connect(&address).await?;
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/x-amz-json-1.0\r\n\
             X-Amz-Target: AmazonSQS.{action}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        Ok((status, serde_json::from_str(body).unwrap_or_default()))
    }

    /// Kills the server (SIGKILL) and waits for the end.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a stopped ElasticMQ cannot be killed");
        process.end_by(Signal::KILL, LONG).await;
    }

    /// Restarts the server on the same data and waits for answers. A no-op while running.
    pub async fn resume(&mut self) {
        if self.process.is_some() {
            return;
        }
        let settings = self.folder.join("elasticmq.conf");
        std::fs::write(&settings, self.settings()).expect("a folder just made can be written to");
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg(format!("-Dconfig.file={}", settings.display()));
        command.arg("-cp").arg(self.jars.class_path()).arg("org.elasticmq.server.Main");
        self.process = Some(Process::spawn("ElasticMQ", command));
        wait_until("ElasticMQ to answer", LONG, || async {
            self.answer("ListQueues", &json!({})).await.is_ok_and(|(status, _)| status == "200")
        })
        .await;
    }

    fn settings(&self) -> String {
        let (port, folder, is_stored) = (self.port, self.folder.path().display(), self.is_stored);
        format!(
            r#"include classpath("application.conf")
            node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
            generate-node-address = false
            rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
            rest-stats {{ enabled = false }}
            queues {{}}
            queues-storage {{ enabled = {is_stored}, path = "{folder}/queues.conf" }}
            messages-storage {{
                enabled = {is_stored}, driver-class = "org.h2.Driver", username = "", password = ""
                uri = "jdbc:h2:{folder}/messages;WRITE_DELAY=0"
            }}
            "#
        )
    }
}

// === impl Lendable ===

impl Lendable for SqsServer {
    fn idle() -> &'static Mutex<Vec<Self>> {
        &IDLE
    }

    fn is_lendable(&self) -> bool {
        self.process.is_some()
    }

    async fn empty(&mut self) {
        let listed = self.call("ListQueues", &json!({})).await;
        for url in listed["QueueUrls"].as_array().into_iter().flatten() {
            self.call("DeleteQueue", &json!({ "QueueUrl": url })).await;
        }
    }
}
