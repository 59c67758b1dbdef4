//! A test's redis-server, on a unix socket and a TCP port, in a temporary folder, which the test can break; or a
//! database of a given one, for tests that break nothing.

use self::given::Database;
use crate::clock_shim::ClockShim;
use crate::deadline::{SHORT, wait_for};
use crate::environment::given_redis_url;
use crate::folder::Folder;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

mod given;

/// How a server is started; the default is an empty one without persistence that allows `DEBUG`.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    settings: Vec<(String, String)>,
    password: Option<String>,
    clock: Option<ClockShim>,
    /// What is started; `None`: redis-server.
    program: Option<PathBuf>,
    /// Whether it takes every slot of its cluster once started.
    all_slots: bool,
}

/// Longer than a busy machine delays a node of a cluster: a node thought dead would take the cluster down.
pub(crate) const NODE_TIMEOUT_MS: &str = "10000";
const GIVEN: &str = "a given Redis is broken by nobody: start one of the test's own by RedisServer::private";

/// A running (or stopped) server. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct RedisServer {
    folder: Folder,
    port: u16,
    /// Where the nodes of a Redis Cluster talk to each other, if it is one.
    bus_port: Option<u16>,
    options: RedisOptions,
    process: Option<Process>,
    /// The given server, if there is one.
    given: Option<Database>,
}

// === impl RedisOptions ===

impl RedisOptions {
    /// Any setting of `redis.conf`; later ones override earlier ones and the harness's own.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps an append-only file with that `appendfsync` (`always`, `everysec` or `no`).
    #[must_use]
    pub fn append_only(self, fsync: &str) -> Self {
        self.set("appendonly", "yes").set("appendfsync", fsync)
    }

    /// Limits the memory, with the policy that refuses writes instead of evicting.
    #[must_use]
    pub fn max_memory_bytes(self, bytes: u64) -> Self {
        self.set("maxmemory", &bytes.to_string()).set("maxmemory-policy", "noeviction")
    }

    /// Requires a password of every client; the harness's own connections send it.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Makes it a Redis Cluster of one that serves every slot, once started.
    #[must_use]
    pub fn cluster(self) -> Self {
        Self { all_slots: true, ..self.cluster_node() }
    }

    /// Makes it a node of a Redis Cluster that has no slots and knows no others.
    #[must_use]
    pub fn cluster_node(self) -> Self {
        self.set("cluster-enabled", "yes").set("cluster-node-timeout", NODE_TIMEOUT_MS)
    }

    /// Starts another server that speaks Redis's protocol.
    #[must_use]
    pub fn program(self, path: PathBuf) -> Self {
        Self { program: Some(path), ..self }
    }

    /// Makes it a replica of another server.
    #[must_use]
    pub fn replica_of(self, master: &RedisServer) -> Self {
        self.set("replicaof", &format!("127.0.0.1 {}", master.port()))
    }

    /// Runs it under a clock that the test can step.
    #[must_use]
    pub fn clock(mut self, clock: &ClockShim) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    fn is_cluster(&self) -> bool {
        self.settings.iter().any(|(name, value)| name == "cluster-enabled" && value == "yes")
    }
}

// === impl RedisServer ===

impl RedisServer {
    /// An empty Redis for this test alone, which it must not break: a database of the one that `DELAYQ_TEST_REDIS_URL`
    /// gives, or a server with the default options.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn start() -> Self {
        let Some(url) = given_redis_url() else { return Self::private().await };
        let database = Database::take(&url).await;
        let port = database.address().rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(6379);
        let (folder, options) = (Folder::new("given-redis"), RedisOptions::default());
        Self { folder, port, bus_port: None, options, process: None, given: Some(database) }
    }

    /// Starts a server with the default options and waits until it answers: for a test that stops, freezes or
    /// configures it, or counts what it does.
    ///
    /// # Panics
    /// If it does not.
    pub async fn private() -> Self {
        Self::start_with(RedisOptions::default()).await
    }

    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If it does not; the message contains its output.
    pub async fn start_with(options: RedisOptions) -> Self {
        let bus_port = options.is_cluster().then(free_port);
        let mut server = Self {
            folder: Folder::new("redis"),
            port: free_port(),
            bus_port,
            options,
            process: None,
            given: None,
        };
        server.resume().await;
        if server.options.all_slots {
            server.take_all_slots().await;
        }
        server
    }

    /// Its TCP address, `127.0.0.1:PORT`; the same after a restart.
    #[must_use]
    pub fn address(&self) -> String {
        if let Some(database) = &self.given {
            return database.address().to_owned();
        }
        format!("127.0.0.1:{}", self.port)
    }

    /// Its TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The TCP port at which other nodes of its Redis Cluster reach it.
    ///
    /// # Panics
    /// If it is not a cluster.
    #[must_use]
    pub fn bus_port(&self) -> u16 {
        self.bus_port.expect("it was started as a Redis Cluster")
    }

    /// The path of its unix socket.
    ///
    /// # Panics
    /// If the server was given.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        assert!(self.given.is_none(), "{GIVEN}");
        self.folder.join("s")
    }

    /// The URL by TCP, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        if let Some(database) = &self.given {
            return database.url().to_owned();
        }
        self.url_through(&self.address())
    }

    /// The URL by TCP at another address, such as a [`crate::proxy::Proxy`]'s in front of it.
    #[must_use]
    pub fn url_through(&self, address: &str) -> String {
        if let Some(database) = &self.given {
            return database.url().replace(database.address(), address);
        }
        match &self.options.password {
            Some(password) => format!("redis://:{password}@{address}/"),
            None => format!("redis://{address}/"),
        }
    }

    /// The URL by its unix socket, with the password.
    #[must_use]
    pub fn socket_url(&self) -> String {
        let path = self.socket();
        match &self.options.password {
            Some(password) => format!("redis+unix://{}?pass={password}", path.display()),
            None => format!("redis+unix://{}", path.display()),
        }
    }

    /// The folder of its data and its log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process id of the running server.
    ///
    /// # Panics
    /// If it is stopped.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.running().id()
    }

    /// A new connection of the harness, by the unix socket if there is one.
    ///
    /// # Panics
    /// If the server does not accept it.
    pub async fn connect(&self) -> MultiplexedConnection {
        let url = if self.given.is_some() { self.url() } else { self.socket_url() };
        let opened = try_connect(&url).await;
        opened.unwrap_or_else(|e| panic!("redis-server on port {} took no connection: {e}", self.port))
    }

    /// Its clock, in µs since the epoch.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn now_us(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.command(&["TIME"]).await;
        seconds * 1_000_000 + micros
    }

    /// Its clock, in ms since the epoch.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn now_ms(&self) -> u64 {
        self.now_us().await / 1000
    }

    /// How many scripts it has run.
    pub async fn scripts_run(&self) -> u64 {
        let info: String = self.command(&["INFO", "commandstats"]).await;
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// Runs one command on a new connection, for what a test does to the server.
    ///
    /// # Panics
    /// If the server refuses it, with the server's message.
    pub async fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let answer = self.try_command(words).await;
        answer.unwrap_or_else(|e| panic!("redis-server on port {} refused {words:?}: {e}", self.port))
    }

    /// As [`Self::command`], for a server that may not answer.
    ///
    /// # Errors
    /// It refuses the connection or the command, or ends the connection.
    pub async fn try_command<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let (name, args) = words.split_first().expect("a command has a name");
        let url = match &self.given {
            Some(database) => {
                database.check(name);
                self.url()
            }
            None => self.socket_url(),
        };
        redis::cmd(name).arg(args).query_async(&mut try_connect(&url).await?).await
    }

    /// A field of what INFO says; empty without it, and if it does not answer.
    pub async fn field(&self, name: &str) -> String {
        let info: String = self.try_command(&["INFO"]).await.unwrap_or_default();
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
        info.lines().find_map(value).unwrap_or_default()
    }

    /// Stops it as an operator would (SIGTERM; it saves what its settings say) and waits for its end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn stop(&mut self) -> ExitStatus {
        self.end_by(Signal::TERM).await
    }

    /// Kills it (SIGKILL) and waits for its end. What the append-only file held stays.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn kill(&mut self) -> ExitStatus {
        self.end_by(Signal::KILL).await
    }

    /// Starts it again after [`Self::stop`] or [`Self::kill`]: same port, socket, folder and settings; waits until it
    /// has loaded its data. Does nothing while it runs.
    ///
    /// # Panics
    /// If it does not answer in time.
    pub async fn resume(&mut self) {
        if self.process.is_some() || self.given.is_some() {
            return;
        }
        // A socket left by a killed server would be mistaken for the new one's.
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
    }

    /// Kills it and starts it again on the same data.
    ///
    /// # Panics
    /// If it does not come back in time.
    pub async fn kill_and_resume(&mut self) {
        self.kill().await;
        self.resume().await;
    }

    /// Removes all that it has stored on disk; only while it is stopped.
    ///
    /// # Panics
    /// If it is running.
    pub fn wipe(&mut self) {
        assert!(self.given.is_none(), "{GIVEN}");
        assert!(self.process.is_none(), "a running server's files are its own");
        for entry in std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
    }

    /// Freezes it (SIGSTOP): connections stay open, and nothing is answered.
    ///
    /// # Panics
    /// If it is stopped.
    pub fn freeze(&self) {
        self.running().signal(Signal::STOP);
    }

    /// Resumes it (SIGCONT) after [`Self::freeze`].
    ///
    /// # Panics
    /// If it is stopped.
    pub fn thaw(&self) {
        self.running().signal(Signal::CONT);
    }

    async fn end_by(&mut self, signal: Signal) -> ExitStatus {
        assert!(self.given.is_none(), "{GIVEN}");
        let mut process = self.process.take().expect("a stopped redis-server cannot be stopped again");
        process.end_by(signal, SHORT).await
    }

    fn running(&self) -> &Process {
        assert!(self.given.is_none(), "{GIVEN}");
        self.process.as_ref().expect("the redis-server is stopped")
    }

    fn launch(&self) -> Command {
        let program = self.options.program.as_deref().unwrap_or(Path::new("redis-server"));
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string()]);
        command.arg("--unixsocket").arg(self.socket()).arg("--dir").arg(self.folder.path());
        command.args(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"]);
        if let Some(port) = self.bus_port {
            command.args(["--cluster-port", &port.to_string()]);
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

    async fn take_all_slots(&self) {
        let () = self.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
        wait_for("the cluster of one to serve its slots", SHORT, || async {
            let info: String = self.command(&["CLUSTER", "INFO"]).await;
            info.contains("cluster_state:ok").then_some(())
        })
        .await;
    }
}

async fn try_connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    // A busy machine may take longer than the client's own half second to read a thousand entries.
    let patient =
        AsyncConnectionConfig::new().set_connection_timeout(Some(SHORT)).set_response_timeout(Some(SHORT));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await
}
