//! A private redis-server that the test can break, on a unix socket and a TCP port, in a temporary folder; and a
//! [`SharedRedis`] for tests that break nothing, which may be a database of a given server.

use self::shared::try_connect;
use crate::certs::{Authority, Certificate};
use crate::clock_shim::ClockShim;
use crate::deadline::{SHORT, wait_for, wait_until};
use crate::environment::{NO_VALKEY, RedisShape, given_redis_url, redis_server, redis_shape, valkey_server};
use crate::folder::Folder;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use crate::remark::skipped;
use crate::sentinel::{SERVICE, Sentinel, Watch};
use std::borrow::Borrow;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

mod given;
mod given_cluster;
mod replication;
mod shared;

pub(crate) use self::given_cluster::claim as claim_cluster;
pub use self::replication::replicated;
pub use self::shared::SharedRedis;

/// Options of a server; the default is empty, without persistence, and allows `DEBUG`.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    settings: Vec<(String, String)>,
    password: Option<String>,
    clock: Option<ClockShim>,
    program: Option<PathBuf>,
    tls: bool,
    /// True to take every slot of its cluster once started.
    all_slots: bool,
    shape: RedisShape,
}

/// Longer than a busy machine delays a cluster node: a node taken for dead would stop the cluster.
pub(crate) const NODE_TIMEOUT_MS: &str = "10000";
/// A lone sentinel has no replica to promote, and must not declare the master down while a test keeps the master
/// silent.
const NEVER_DOWN: Duration = Duration::from_hours(1);

/// A running (or stopped) server. Dropping the server kills the process and removes the folder.
#[derive(Debug)]
pub struct RedisServer {
    redis: SharedRedis,
    folder: Folder,
    bus_port: Option<u16>,
    tls_port: Option<u16>,
    sentinel: Option<Sentinel>,
    options: RedisOptions,
    process: Option<Process>,
}

// === impl RedisOptions ===

impl RedisOptions {
    /// Any setting of `redis.conf`; later settings override earlier ones and the harness's own.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps an append-only file with this `appendfsync` (`always`, `everysec` or `no`).
    #[must_use]
    pub fn append_only(self, fsync: &str) -> Self {
        self.set("appendonly", "yes").set("appendfsync", fsync)
    }

    /// Limits the memory, refusing writes instead of evicting.
    #[must_use]
    pub fn max_memory_bytes(self, bytes: u64) -> Self {
        self.set("maxmemory", &bytes.to_string()).set("maxmemory-policy", "noeviction")
    }

    /// Requires a password; the harness's own connections send it.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Accepts TLS too, at [`RedisServer::tls_url`], with this certificate; `asks` makes client certificates of this
    /// authority mandatory.
    #[must_use]
    pub fn tls(self, certificate: &Certificate, authority: &Authority, asks: bool) -> Self {
        let settings = authority.redis_settings(certificate, asks).into_iter();
        settings.fold(Self { tls: true, ..self }, |options, (name, value)| options.set(name, &value))
    }

    /// Uses TLS, as set up by [`Self::tls`], with replicas and sentinels.
    #[must_use]
    pub fn tls_between(self) -> Self {
        self.set("tls-replication", "yes")
    }

    /// The TLS configuration lines of a watching sentinel.
    pub(crate) fn tls_lines(&self) -> String {
        let tls = self.settings.iter().filter(|(name, _)| name.starts_with("tls-"));
        tls.map(|(name, value)| format!("{name} {value}\n")).collect()
    }

    /// Makes the server a Redis Cluster of one that serves every slot once started.
    #[must_use]
    pub fn cluster(self) -> Self {
        Self { all_slots: true, ..self.cluster_node() }
    }

    /// Makes the server a node of a Redis Cluster without slots and peers.
    #[must_use]
    pub fn cluster_node(self) -> Self {
        self.set("cluster-enabled", "yes").set("cluster-node-timeout", NODE_TIMEOUT_MS)
    }

    /// Starts another server with Redis's protocol.
    #[must_use]
    pub fn program(self, path: PathBuf) -> Self {
        Self { program: Some(path), ..self }
    }

    /// Makes the server a replica.
    #[must_use]
    pub fn replica_of(self, master: &RedisServer) -> Self {
        let options = Self { shape: RedisShape::Plain, ..self };
        options.set("replicaof", &format!("127.0.0.1 {}", master.announced_port()))
    }

    /// Runs the server under a clock that the test can step.
    #[must_use]
    pub fn clock(mut self, clock: &ClockShim) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    fn shape(self, shape: RedisShape) -> Self {
        let options = Self { shape, ..self };
        match shape {
            // The node keeps the host of the client's connection, which may be a proxy's.
            RedisShape::Cluster => {
                options.cluster().set("cluster-preferred-endpoint-type", "unknown-endpoint")
            }
            RedisShape::Plain | RedisShape::Sentinel => options,
        }
    }

    fn is_cluster(&self) -> bool {
        self.says_yes("cluster-enabled")
    }

    fn says_yes(&self, setting: &str) -> bool {
        self.settings.iter().any(|(name, value)| name == setting && value == "yes")
    }
}

/// Both kinds of servers, where answers differ: Debian's Redis 7.0, and a Valkey, which has WAITAOF, as Redis does
/// since 7.2, and whose WAIT counts from writes alone. Without a Valkey the test prints a remark.
#[must_use]
pub fn old_and_new() -> Vec<RedisOptions> {
    let valkey = valkey_server();
    if valkey.is_none() {
        skipped(NO_VALKEY);
    }
    let newer = valkey.map(|path| RedisOptions::default().program(path));
    [RedisOptions::default()].into_iter().chain(newer).collect()
}

// === impl RedisServer ===

impl RedisServer {
    /// An empty Redis that the test cannot break: a [`SharedRedis`] of `DELAYQ_TEST_REDIS_URL`, or a server of its
    /// shape with the default options.
    pub async fn start() -> SharedRedis {
        let given = match given_redis_url() {
            Some(url) => SharedRedis::of_given(&url).await,
            None => None,
        };
        match given {
            Some(redis) => redis,
            None => Self::private().await.into(),
        }
    }

    /// Starts a server with the default options: for a test that stops, freezes or configures the server, or counts its
    /// work.
    pub async fn private() -> Self {
        Self::private_with(RedisOptions::default()).await
    }

    /// As [`Self::private`], with these options. The server has the shape of `DELAYQ_TEST_REDIS_URL`: a cluster of one,
    /// or a master with a sentinel. A failure shows the output.
    pub async fn private_with(options: RedisOptions) -> Self {
        Self::start_with(options.shape(redis_shape())).await
    }

    /// Starts a server that clients always reach by its address, whatever the shape; a failure shows the output.
    pub async fn start_with(options: RedisOptions) -> Self {
        let bus_port = options.is_cluster().then(free_port);
        let tls_port = options.tls.then(free_port);
        let folder = Folder::new("redis");
        let socket = folder.join("s").display().to_string();
        let redis = SharedRedis::of_test(free_port(), options.password.as_deref(), &socket, options.shape);
        let mut server = Self { redis, folder, bus_port, tls_port, sentinel: None, options, process: None };
        server.resume().await;
        if server.options.shape == RedisShape::Sentinel {
            server.be_watched().await;
        }
        server
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &RedisOptions {
        &self.options
    }

    /// Makes the server a cluster node with its current data, from the next start on. Only while stopped.
    pub fn turn_into_cluster(&mut self) {
        assert!(self.process.is_none(), "a running server keeps its settings");
        self.options = self.options.clone().cluster_node().set("cluster-require-full-coverage", "no");
        self.bus_port = Some(free_port());
    }

    /// The bus port of a cluster node.
    #[must_use]
    pub fn bus_port(&self) -> u16 {
        self.bus_port.expect("it was started as a Redis Cluster")
    }

    /// The path of the unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }

    /// The unix socket URL, with the password.
    #[must_use]
    pub fn socket_url(&self) -> String {
        self.redis.own_url().to_owned()
    }

    /// The TLS URL. Requires [`RedisOptions::tls`].
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.tls_port.expect("it was started with TLS"))
    }

    /// The port announced to replicas and sentinels.
    pub(crate) fn announced_port(&self) -> u16 {
        let by_tls = self.tls_port.filter(|_| self.options.says_yes("tls-replication"));
        by_tls.unwrap_or_else(|| self.port())
    }

    /// The folder of data and log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process id of the running server.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.running().id()
    }

    /// Number of scripts run so far.
    pub async fn scripts_run(&self) -> u64 {
        self.calls_of("evalsha").await
    }

    /// Number of executions of a command, by its name in lower case.
    pub async fn calls_of(&self, command: &str) -> u64 {
        let info: String = self.command(&["INFO", "commandstats"]).await;
        let counted = format!("cmdstat_{command}:calls=");
        let line = info.lines().find_map(|line| line.strip_prefix(&counted));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// A field of INFO; empty if missing, or without an answer.
    pub async fn field(&self, name: &str) -> String {
        let info: String = self.try_command(&["INFO"]).await.unwrap_or_default();
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
        info.lines().find_map(value).unwrap_or_default()
    }

    /// Stops the server as an operator would (SIGTERM, which saves as configured) and waits for the end.
    pub async fn stop(&mut self) -> ExitStatus {
        self.end_by(Signal::TERM).await
    }

    /// Kills the server (SIGKILL) and waits for the end. The append-only file remains.
    pub async fn kill(&mut self) -> ExitStatus {
        self.end_by(Signal::KILL).await
    }

    /// Restarts the server after [`Self::stop`] or [`Self::kill`] with the same port, socket, folder and settings, and
    /// waits until its data is loaded. A no-op while running.
    pub async fn resume(&mut self) {
        if self.process.is_some() {
            return;
        }
        // A socket left by a killed server would be mistaken for the new server's.
        let _ = std::fs::remove_file(self.socket());
        self.process = Some(Process::spawn("redis-server", self.launch()));
        let url = self.socket_url();
        let process = self.process.as_mut().expect("it was just started");
        wait_for("redis-server to answer", SHORT, || {
            if let Some(status) = process.ended() {
                panic!("redis-server ended with {status} instead of starting:\n{}", process.tail());
            }
            let url = url.clone();
            async move {
                let mut connection = try_connect(&url).await.ok()?;
                redis::cmd("PING").query_async::<String>(&mut connection).await.ok()
            }
        })
        .await;
        if self.options.all_slots {
            self.take_all_slots().await;
        }
    }

    /// Kills the server and restarts it on the same data.
    pub async fn kill_and_resume(&mut self) {
        self.kill().await;
        self.resume().await;
    }

    /// Removes all stored data from disk; only while stopped.
    pub fn wipe(&mut self) {
        assert!(self.process.is_none(), "a running server's files are its own");
        for entry in std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
    }

    /// Freezes the server (SIGSTOP): connections stay open, and nothing is answered.
    pub fn freeze(&self) {
        self.running().signal(Signal::STOP);
    }

    /// Resumes the server (SIGCONT) after [`Self::freeze`].
    pub fn thaw(&self) {
        self.running().signal(Signal::CONT);
    }

    async fn end_by(&mut self, signal: Signal) -> ExitStatus {
        let mut process = self.process.take().expect("a stopped redis-server cannot be stopped again");
        process.end_by(signal, SHORT).await
    }

    fn running(&self) -> &Process {
        self.process.as_ref().expect("the redis-server is stopped")
    }

    fn launch(&self) -> Command {
        let mut command = Command::new(self.options.program.clone().unwrap_or_else(redis_server));
        command.args(["--bind", "127.0.0.1", "--port", &self.port().to_string()]);
        command.arg("--unixsocket").arg(self.socket()).arg("--dir").arg(self.folder.path());
        command.args(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"]);
        if let Some(port) = self.bus_port {
            command.args(["--cluster-port", &port.to_string()]);
        }
        if let Some(port) = self.tls_port {
            command.args(["--tls-port", &port.to_string()]);
        }
        if let Some(password) = &self.options.password {
            command.args(["--requirepass", password]);
        }
        for (name, value) in &self.options.settings {
            command.arg(format!("--{name}")).arg(value);
        }
        if let Some(clock) = &self.options.clock {
            clock.apply(&mut command);
        }
        command
    }

    /// For a cluster of one, which remembers its slots unless [wiped](Self::wipe).
    async fn take_all_slots(&self) {
        let info = async || self.command::<String>(&["CLUSTER", "INFO"]).await;
        if info().await.contains("cluster_slots_assigned:0\r") {
            let () = self.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
        }
        let serves = async || info().await.contains("cluster_state:ok");
        wait_until("the cluster of one to serve its slots", SHORT, serves).await;
    }

    async fn be_watched(&mut self) {
        let login = self.options.password.as_ref();
        let login = login.map(|word| format!("sentinel auth-pass {SERVICE} {word}")).unwrap_or_default();
        let watch = Watch { master: self.port(), quorum: 1, down_after: NEVER_DOWN, lines: &login, tls: "" };
        let sentinel = Sentinel::start(&watch);
        let knows = async || {
            let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
            sentinel.try_command::<(String, u16)>(&words).await.is_ok()
        };
        wait_until("the sentinel to answer", SHORT, knows).await;
        self.redis.be_reached_by(&sentinel.address());
        self.sentinel = Some(sentinel);
    }
}

impl Deref for RedisServer {
    type Target = SharedRedis;

    fn deref(&self) -> &SharedRedis {
        &self.redis
    }
}

impl Borrow<SharedRedis> for RedisServer {
    fn borrow(&self) -> &SharedRedis {
        self
    }
}
