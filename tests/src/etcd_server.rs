//! A private etcd of one or three members that tests can break.

use crate::deadline::{SHORT, wait_for, wait_until};
use crate::folder::Folder;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use crate::proxy::{Flow, Proxy};
use std::collections::BTreeMap;
use std::process::{Command, ExitStatus};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

mod operator;

/// A cluster of members. Dropping the cluster kills the members and removes their folders.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<EtcdMember>,
    operator: Vec<String>,
}

/// A member.
#[derive(Debug)]
pub struct EtcdMember {
    folder: Folder,
    name: String,
    scheme: &'static str,
    client_port: u16,
    peer_port: u16,
    health_port: u16,
    peer_proxy: Option<Proxy>,
    arguments: Vec<String>,
    process: Option<Process>,
}

/// Options of a cluster; the default is a single member without TLS.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    members: usize,
    tls: bool,
    partitionable: bool,
    in_memory: bool,
    arguments: Vec<String>,
}

// === impl EtcdOptions ===

impl Default for EtcdOptions {
    fn default() -> Self {
        Self { members: 1, tls: false, partitionable: false, in_memory: false, arguments: Vec::new() }
    }
}

impl EtcdOptions {
    /// Number of members; 1, 3 or 5 make sense.
    #[must_use]
    pub fn members(mut self, members: usize) -> Self {
        self.members = members;
        self
    }

    /// Connects members through proxies, for [`EtcdCluster::isolate`].
    #[must_use]
    pub fn partitionable(mut self) -> Self {
        self.partitionable = true;
        self
    }

    /// Keeps the data in memory, as fast as the disk that etcd recommends: for tests whose bounds a slow disk breaks.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Further arguments of every member's `etcd`.
    #[must_use]
    pub fn arguments<I: IntoIterator<Item = S>, S: Into<String>>(mut self, arguments: I) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Serves clients by TLS with this certificate and key (PEM files); [`Self::arguments`] can require client
    /// certificates.
    #[must_use]
    pub fn tls(mut self, certificate: &std::path::Path, key: &std::path::Path) -> Self {
        self.tls = true;
        self.arguments(["--cert-file".to_owned(), certificate.display().to_string()])
            .arguments(["--key-file".to_owned(), key.display().to_string()])
    }
}

// === impl EtcdCluster ===

impl EtcdCluster {
    /// Starts one member and waits for health.
    pub async fn start_one() -> Self {
        Self::start_with(EtcdOptions::default()).await
    }

    /// Starts three members and waits for their health.
    pub async fn start_three() -> Self {
        Self::start_with(EtcdOptions::default().members(3)).await
    }

    /// Starts a cluster and waits for the health of every member; a failure shows the member's output.
    pub async fn start_with(options: EtcdOptions) -> Self {
        let members: Vec<EtcdMember> = (1..=options.members).map(|n| EtcdMember::new(n, &options)).collect();
        let list: Vec<String> = members.iter().map(|m| format!("{}={}", m.name, m.peer_url())).collect();
        let list = list.join(",");
        let mut cluster = Self { members, operator: Vec::new() };
        for member in &mut cluster.members {
            member.arguments.extend(["--initial-cluster".to_owned(), list.clone()]);
            member.launch();
        }
        cluster.wait_healthy().await;
        cluster
    }

    /// The client endpoints of all members, running or not.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(EtcdMember::endpoint).collect()
    }

    /// The members, from 0.
    #[must_use]
    pub fn members(&self) -> &[EtcdMember] {
        &self.members
    }

    /// One member, from 0, to stop and start.
    #[must_use]
    pub fn member(&mut self, number: usize) -> &mut EtcdMember {
        &mut self.members[number]
    }

    /// The number of the current leader.
    pub async fn leader(&self) -> usize {
        wait_for("etcd to have a leader", SHORT, || async { self.leaders().await.first().copied() }).await
    }

    /// The numbers of the running members that believe they lead: one, except just after a partition.
    pub async fn leaders(&self) -> Vec<usize> {
        let mut leaders = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            if member.process.is_some() && member.leads().await {
                leaders.push(number);
            }
        }
        leaders
    }

    /// Waits for the health of every running member.
    pub async fn wait_healthy(&mut self) {
        for member in &mut self.members {
            member.wait_healthy().await;
        }
    }

    /// Cuts a member off from its peers, both ways; clients still reach the member. Requires
    /// [`EtcdOptions::partitionable`].
    pub fn isolate(&self, number: usize) {
        const WHY: &str = "only a partitionable cluster can be parted";
        let process = self.members[number].process.as_ref().expect("a stopped member is alone already").id();
        for (other, member) in self.members.iter().enumerate() {
            let proxy = member.peer_proxy.as_ref().expect(WHY);
            if other == number { proxy.set_both(Flow::Hold) } else { proxy.bar(process) }
        }
    }

    /// Undoes [`Self::isolate`].
    pub async fn reunite(&self) {
        for proxy in self.members.iter().filter_map(|member| member.peer_proxy.as_ref()) {
            proxy.mend().await;
        }
    }

    /// Freezes every running member (SIGSTOP).
    pub fn freeze(&self) {
        self.members.iter().for_each(EtcdMember::freeze);
    }

    /// Resumes every member (SIGCONT).
    pub fn thaw(&self) {
        self.members.iter().for_each(EtcdMember::thaw);
    }

    /// Kills every member, removes the data and starts the cluster from scratch at the same addresses: revisions
    /// restart.
    pub async fn rebuild(&mut self) {
        for member in &mut self.members {
            if member.process.is_some() {
                member.kill().await;
            }
            std::fs::remove_dir_all(member.folder.join("data"))
                .expect("a stopped member's data can be removed");
        }
        self.members.iter_mut().for_each(EtcdMember::launch);
        self.wait_healthy().await;
    }
}

// === impl EtcdMember ===

impl EtcdMember {
    fn new(number: usize, options: &EtcdOptions) -> Self {
        let peer_port = free_port();
        let peer_proxy = options.partitionable.then(|| Proxy::start(&format!("127.0.0.1:{peer_port}")));
        Self {
            folder: if options.in_memory { Folder::in_memory("etcd") } else { Folder::new("etcd") },
            name: format!("m{number}"),
            scheme: if options.tls { "https" } else { "http" },
            client_port: free_port(),
            peer_port,
            health_port: free_port(),
            peer_proxy,
            arguments: options.arguments.clone(),
            process: None,
        }
    }

    /// The client endpoint, `http://127.0.0.1:PORT`; constant over restarts.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address())
    }

    /// The client address, `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client_port)
    }

    /// Stops the member as an operator would (SIGTERM) and waits for the end.
    pub async fn stop(&mut self) -> ExitStatus {
        self.end_by(Signal::TERM).await
    }

    /// Kills the member (SIGKILL) and waits for the end.
    pub async fn kill(&mut self) -> ExitStatus {
        self.end_by(Signal::KILL).await
    }

    /// Restarts the member on the same data, without waiting for health: alone it has no quorum. A no-op while running.
    pub fn launch(&mut self) {
        if self.process.is_none() {
            self.process = Some(Process::spawn("etcd", self.command()));
        }
    }

    /// Restarts the member on the same data and waits for health.
    pub async fn resume(&mut self) {
        self.launch();
        self.wait_healthy().await;
    }

    /// Freezes the member (SIGSTOP), if running.
    pub fn freeze(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::STOP));
    }

    /// Resumes the member (SIGCONT).
    pub fn thaw(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::CONT));
    }

    /// Waits for the member's health; returns at once if stopped. A failure shows the member's output.
    pub async fn wait_healthy(&mut self) {
        let port = self.health_port;
        let Some(process) = &mut self.process else { return };
        wait_until("etcd to be healthy", SHORT, || {
            if let Some(status) = process.ended() {
                panic!("etcd ended with {status} instead of starting:\n{}", process.tail());
            }
            async move { get(port, "/health").await.is_some_and(|answer| answer.contains("\"health\":\"true\"")) }
        })
        .await;
    }

    /// Number of messages received from clients so far, by method; empty without an answer.
    pub async fn received(&self) -> BTreeMap<String, f64> {
        let received = |line: &str| {
            let (labels, count) = line.strip_prefix("grpc_server_msg_received_total{")?.split_once("} ")?;
            let method = labels.split("grpc_method=\"").nth(1)?.split('"').next()?;
            let count: f64 = count.parse().ok()?;
            (count > 0.0).then(|| (method.to_owned(), count))
        };
        let metrics = get(self.health_port, "/metrics").await.unwrap_or_default();
        metrics.lines().filter_map(received).collect()
    }

    async fn leads(&self) -> bool {
        let metrics = get(self.health_port, "/metrics").await.unwrap_or_default();
        metrics.lines().any(|line| line == "etcd_server_is_leader 1")
    }

    async fn end_by(&mut self, signal: Signal) -> ExitStatus {
        let mut process = self.process.take().expect("a stopped etcd cannot be stopped again");
        process.end_by(signal, SHORT).await
    }

    fn peer_url(&self) -> String {
        let own = || format!("127.0.0.1:{}", self.peer_port);
        format!("http://{}", self.peer_proxy.as_ref().map_or_else(own, Proxy::address))
    }

    fn command(&self) -> Command {
        let (client, peer) = (self.endpoint(), self.peer_url());
        let health = format!("http://127.0.0.1:{}", self.health_port);
        let mut command = Command::new("etcd");
        command.args(["--name", &self.name]).arg("--data-dir").arg(self.folder.join("data"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        let listen = format!("http://127.0.0.1:{}", self.peer_port);
        command.args(["--listen-peer-urls", &listen, "--initial-advertise-peer-urls", &peer]);
        // Health has its own plain listener, so that probes work whatever certificates clients must present.
        command.args(["--listen-metrics-urls", &health]);
        command.args(["--initial-cluster-state", "new", "--initial-cluster-token", "delayq-tests"]);
        command.args(&self.arguments);
        command
    }
}

async fn get(port: u16, path: &str) -> Option<String> {
    // A frozen member accepts connections and never answers.
    tokio::time::timeout(std::time::Duration::from_secs(2), ask(port, "GET", path, "")).await.ok()?
}

/// On the loopback address, if any.
async fn ask(port: u16, method: &str, path: &str, body: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(body.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}
