//! A gateway and its clients.

use delayq::Topic;
use delayq_tests::admin_endpoint::AdminEndpoint;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{SHORT, wait_until, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::folder::Folder;
use delayq_tests::process::Process;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;
use std::borrow::Borrow;
use std::process::Command;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PROGRAM: &str = env!("CARGO_BIN_EXE_delayq-gateway");

pub(crate) struct Stage<S = SharedRedis> {
    pub(crate) deployment: Deployment<S>,
    pub(crate) folder: Folder,
    pub(crate) gateway: Running,
}

pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) address: String,
    pub(crate) endpoint: AdminEndpoint,
    client: Client,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

// === impl Stage ===

impl Stage {
    pub(crate) async fn start(settings: &str) -> Self {
        Self::on(RedisServer::start().await, settings).await
    }
}

impl Stage<RedisServer> {
    pub(crate) async fn private(settings: &str) -> Self {
        Self::on(RedisServer::private().await, settings).await
    }
}

impl<S: Borrow<SharedRedis>> Stage<S> {
    pub(crate) async fn on(server: S, settings: &str) -> Self {
        let deployment = Deployment::on(server, 4).await;
        let folder = Folder::new("gateway");
        let gateway = Running::start(&folder, &deployment.sections(), settings).await;
        Self { deployment, folder, gateway }
    }

    pub(crate) async fn another(&self) -> Running {
        self.another_with("").await
    }

    pub(crate) async fn another_with(&self, settings: &str) -> Running {
        Running::start(&self.folder, &self.deployment.sections(), settings).await
    }

    /// A timer, and the address of its admin endpoint.
    pub(crate) async fn timer_with_endpoint(&self) -> (Process, String) {
        let config = self.folder.join("timer.toml");
        let rest = "[etcd]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\n";
        std::fs::write(&config, self.deployment.sections() + rest).unwrap();
        let mut process = Binary::new("delayq-timer").arg(&config).start();
        let line = process.wait_for_line("admin endpoint listening", SHORT).await;
        let logged: Value = serde_json::from_str(&line).expect("a log line is an object");
        let address = logged["address"].as_str().unwrap().to_owned();
        (process, address)
    }

    pub(crate) fn timer(&self) -> Process {
        let config = self.folder.join("timer.toml");
        let rest = "[etcd]\nenabled = false\n[admin]\nlisten = \"\"\n";
        std::fs::write(&config, self.deployment.sections() + rest).unwrap();
        Binary::new("delayq-timer").arg(&config).start()
    }
}

// === impl Running ===

impl Running {
    pub(crate) async fn start(folder: &Folder, sections: &str, settings: &str) -> Self {
        delayq_service::install_tls();
        let mut own = settings.lines().take_while(|line| !line.starts_with('['));
        let has_address = own.any(|line| line.starts_with("listen = "));
        let listen = if has_address { "" } else { "listen = \"127.0.0.1:0\"\n" };
        let text = format!("{sections}[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\n{listen}{settings}");
        let config = folder.join("gateway.toml");
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg(&config);
        let mut process = Process::spawn("delayq-gateway", command);
        let endpoint = AdminEndpoint::of(&mut process).await;
        let line = process.wait_for_line("gateway listening", SHORT).await;
        let logged: Value = serde_json::from_str(&line).expect("a log line is an object");
        let address = logged["address"].as_str().unwrap().to_owned();
        Self { process, address, endpoint, client: Client::new() }
    }

    pub(crate) async fn has_polls(&self, count: usize) {
        let line = format!("delayq_gateway_polls {count}\n");
        let holds = async || self.endpoint.get("/metrics").await.1.contains(&line);
        wait_until("the waiting reserves", SHORT, holds).await;
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::PUT, path).json(body)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn post_lines(&self, path: &str, lines: &str) -> Answer {
        let request = self.request(Method::POST, path).header("content-type", "application/x-ndjson");
        Answer::of(request.body(lines.to_owned())).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_to_end(&mut stream).await
    }

    pub(crate) fn bytes(&self, line: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n",
            self.address
        );
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

pub(crate) async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = within("the end of the connection", SHORT, stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

// === impl Answer ===

impl Answer {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let answer: Response = within("an answer", SHORT, request.send()).await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Self { status, headers, text: answer.text().await.unwrap() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn with(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}
