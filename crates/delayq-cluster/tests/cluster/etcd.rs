//! Real etcd servers for the tests: one or three nodes in a temporary folder, to be broken at will.

use delayq_tests::deadline::LONG;
use delayq_tests::ports::free_port;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running etcd; its processes end with it.
pub(crate) struct Etcd {
    nodes: Vec<Node>,
    folder: TempDir,
}

struct Node {
    name: String,
    client_port: u16,
    peer_port: u16,
    child: Option<Child>,
    stopped: bool,
}

/// How to start the servers.
#[derive(Default)]
pub(crate) struct Options {
    /// Certificate, key and authority for the clients' side.
    pub(crate) tls: Option<(PathBuf, PathBuf, PathBuf)>,
}

impl Etcd {
    /// One node.
    pub(crate) fn single() -> Self {
        Self::start(1, &Options::default())
    }

    /// Three nodes with a leader.
    pub(crate) fn three() -> Self {
        Self::start(3, &Options::default())
    }

    pub(crate) fn start(count: usize, options: &Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nodes = (0..count)
            .map(|n| Node {
                name: format!("e{n}"),
                client_port: free_port(),
                peer_port: free_port(),
                child: None,
                stopped: false,
            })
            .collect();
        let mut etcd = Self { nodes, folder };
        for n in 0..count {
            etcd.spawn(n, "new", options);
        }
        for n in 0..count {
            etcd.wait_healthy(n, options);
        }
        etcd
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("http://127.0.0.1:{}", node.client_port)).collect()
    }

    pub(crate) fn port(&self, node: usize) -> u16 {
        self.nodes[node].client_port
    }

    fn spawn(&mut self, n: usize, state: &str, options: &Options) {
        let peers: Vec<String> =
            self.nodes.iter().map(|n| format!("{}=http://127.0.0.1:{}", n.name, n.peer_port)).collect();
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let node = &mut self.nodes[n];
        let client = format!("{scheme}://127.0.0.1:{}", node.client_port);
        let peer = format!("http://127.0.0.1:{}", node.peer_port);
        let log = File::create(self.folder.path().join(format!("{}.log", node.name))).unwrap();
        let mut command = Command::new("etcd");
        command
            .args(["--name", &node.name])
            .arg("--data-dir")
            .arg(self.folder.path().join(&node.name))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &peers.join(","), "--initial-cluster-state", state])
            .args([
                "--initial-cluster-token",
                "t",
                "--heartbeat-interval",
                "100",
                "--election-timeout",
                "1000",
            ])
            .args(["--logger", "zap", "--log-outputs", "stderr"]);
        if let Some((certificate, key, authority)) = &options.tls {
            command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
            command.arg("--trusted-ca-file").arg(authority).arg("--client-cert-auth");
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        node.child = Some(child.expect("etcd (Debian: etcd-server) must be installed"));
        node.stopped = false;
    }

    fn wait_healthy(&self, n: usize, options: &Options) {
        let deadline = Instant::now() + LONG;
        let port = self.nodes[n].client_port;
        // With TLS the health page cannot be read without a TLS client: an open port is all that is seen from here.
        let healthy = || match options.tls {
            Some(_) => TcpStream::connect(("127.0.0.1", port)).is_ok(),
            None => http_get(port, "/health").is_some_and(|body| body.contains("\"health\":\"true\"")),
        };
        while !healthy() {
            assert!(Instant::now() < deadline, "etcd {n} did not become healthy: {}", self.last_words(n));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The end of a node's log.
    fn last_words(&self, n: usize) -> String {
        let log = self.folder.path().join(format!("{}.log", self.nodes[n].name));
        let log = std::fs::read_to_string(log).unwrap_or_default();
        log.lines().rev().take(5).collect::<Vec<_>>().join("\n")
    }

    /// Ends a node without ceremony.
    pub(crate) fn kill(&mut self, n: usize) {
        if let Some(mut child) = self.nodes[n].child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts a node again on its data.
    pub(crate) fn restart(&mut self, n: usize) {
        self.spawn(n, "existing", &Options::default());
    }

    /// Starts a node again and waits until it is healthy.
    pub(crate) fn restart_and_wait(&mut self, n: usize) {
        self.restart(n);
        self.wait_healthy(n, &Options::default());
    }

    /// Ends every node, throws its data away, and starts anew: revisions begin at 1.
    pub(crate) fn wipe(&mut self) {
        for n in 0..self.nodes.len() {
            self.kill(n);
            std::fs::remove_dir_all(self.folder.path().join(&self.nodes[n].name)).unwrap();
        }
        for n in 0..self.nodes.len() {
            self.spawn(n, "new", &Options::default());
        }
        for n in 0..self.nodes.len() {
            self.wait_healthy(n, &Options::default());
        }
    }

    /// SIGSTOP: the node is there and does not answer.
    pub(crate) fn freeze(&mut self, n: usize) {
        self.signal(n, "STOP");
        self.nodes[n].stopped = true;
    }

    /// SIGCONT.
    pub(crate) fn thaw(&mut self, n: usize) {
        self.signal(n, "CONT");
        self.nodes[n].stopped = false;
    }

    fn signal(&self, n: usize, signal: &str) {
        let pid = self.nodes[n].child.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Which node leads, as the nodes' own metrics say.
    pub(crate) fn leader(&self) -> usize {
        let deadline = Instant::now() + LONG;
        loop {
            for n in 0..self.nodes.len() {
                if self.metrics(n).get("etcd_server_is_leader") == Some(&1.0) {
                    return n;
                }
            }
            assert!(Instant::now() < deadline, "no etcd node leads");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A node's metrics, by name and labels; empty if it does not answer.
    pub(crate) fn metrics(&self, n: usize) -> BTreeMap<String, f64> {
        let Some(body) = http_get(self.nodes[n].client_port, "/metrics") else { return BTreeMap::new() };
        let line = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        body.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
    }

    /// Requests and stream messages that a node's gRPC server received, by method.
    pub(crate) fn received(&self, n: usize) -> BTreeMap<String, f64> {
        let received = |(name, value): (String, f64)| {
            let labels = name.strip_prefix("grpc_server_msg_received_total{")?;
            let method = labels.split("grpc_method=\"").nth(1)?.split('"').next()?.to_owned();
            (value > 0.0).then_some((method, value))
        };
        self.metrics(n).into_iter().filter_map(received).collect()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut child) = node.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

fn http_get(port: u16, path: &str) -> Option<String> {
    let address = ([127, 0, 0, 1], port).into();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}
