//! A private RabbitMQ.

use crate::certs::Certificate;
use crate::deadline::{LONG, wait_for, wait_until};
use crate::folder::Folder;
use crate::lent::Lendable;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Limit of the start, which takes seconds of CPU: alongside eleven busy loops on two cores, a minute.
const START: Duration = LONG.saturating_mul(4);
const SETTINGS: &str = "rabbitmq.conf";
/// The list of plugins.
const PLUGINS: &str = "enabled";

static IDLE: Mutex<Vec<RabbitmqServer>> = Mutex::new(Vec::new());

/// Deletes everything but the user `guest`.
const EMPTY: &str = "ok = rabbit_vhost:delete(<<\"/\">>, <<\"tests\">>), ok = rabbit_vhost:add(<<\"/\">>, <<\"tests\">>), \
    All = <<\".*\">>, Users = [proplists:get_value(user, U) || U <- rabbit_auth_backend_internal:list_users()], \
    [ok = rabbit_auth_backend_internal:delete_user(U, <<\"tests\">>) || U <- Users, U =/= <<\"guest\">>], \
    rabbit_auth_backend_internal:set_permissions(<<\"guest\">>, <<\"/\">>, All, All, All, <<\"tests\">>).";

/// A running server with a private port mapper. Dropping the server kills both and removes the folder.
#[derive(Debug)]
pub struct RabbitmqServer {
    folder: Folder,
    port: u16,
    distribution_port: u16,
    mapper_port: u16,
    tls_port: Option<u16>,
    process: Option<Process>,
    _mapper: Process,
}

// === impl RabbitmqServer ===

impl RabbitmqServer {
    /// Starts a server (user and password `guest`) and waits until ready; a failure shows the output.
    pub async fn start() -> Self {
        Self::start_with("", "", None).await
    }

    /// As [`Self::start`], with a second port for TLS with this certificate.
    pub async fn start_with_tls(certificate: &Certificate) -> Self {
        let port = free_port();
        Self::start_with(&tls_settings(port, certificate), "", Some(port)).await
    }

    /// As [`Self::start_with_tls`], requiring client certificates of this authority.
    pub async fn start_asking(certificate: &Certificate, authority: &Path) -> Self {
        let port = free_port();
        let settings = tls_settings(port, certificate)
            .replace("verify_none", "verify_peer")
            .replace("fail_if_no_peer_cert = false", "fail_if_no_peer_cert = true");
        let settings = format!("{settings}ssl_options.cacertfile = {}\n", authority.display());
        Self::start_with(&settings, "", Some(port)).await
    }

    /// As [`Self::start`], with this maximum message size in bytes.
    pub async fn start_with_largest_message(bytes: u32) -> Self {
        Self::start_with(&format!("max_message_size = {bytes}\n"), "", None).await
    }

    /// The same, and the port at which `rabbitmqadmin` finds it.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_with_management() -> (Self, u16) {
        let port = free_port();
        let settings = format!("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n");
        (Self::start_with(&settings, "rabbitmq_management", None).await, port)
    }

    async fn start_with(settings: &str, plugin: &str, tls_port: Option<u16>) -> Self {
        let mapper_port = free_port();
        let mut mapper = Command::new("epmd");
        mapper.args(["-address", "127.0.0.1", "-port", &mapper_port.to_string()]);
        let _mapper = Process::spawn("epmd", mapper);
        let (port, distribution_port) = (free_port(), free_port());
        let folder = Folder::new("rabbitmq");
        for (name, text) in [(SETTINGS, settings), (PLUGINS, &format!("[{plugin}].\n"))] {
            std::fs::write(folder.join(name), text).expect("a folder just made can be written to");
        }
        let mut server =
            Self { folder, port, distribution_port, mapper_port, tls_port, process: None, _mapper };
        server.resume().await;
        server
    }

    /// The address, `127.0.0.1:PORT`; constant over restarts.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The TLS port.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.tls_port.expect("it was started with a certificate")
    }

    /// The URL, with user and password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}/%2f", self.address())
    }

    /// Stops the server (SIGTERM) and waits for the end; durable queues keep their persistent messages.
    pub async fn stop(&mut self) {
        let mut process = self.process.take().expect("a stopped RabbitMQ cannot be stopped again");
        process.end_by(Signal::TERM, LONG).await;
    }

    /// Kills the server (SIGKILL) and waits for the end. Declarations of the last two seconds may be lost, unless
    /// [kept](Self::keep_declared).
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a stopped RabbitMQ cannot be killed");
        // The server is a child of the started script and may outlive it.
        process.signal_all(Signal::KILL);
        process.wait_end(LONG).await;
        let address = self.address();
        let gone = || async { TcpStream::connect(&address).await.is_err() };
        wait_until("the killed RabbitMQ's port to close", LONG, gone).await;
    }

    /// Freezes the server (SIGSTOP): connections stay open, and nothing is answered.
    pub fn freeze(&self) {
        self.process.iter().for_each(|p| p.signal_all(Signal::STOP));
    }

    /// Resumes the server (SIGCONT) after [`Self::freeze`].
    pub fn thaw(&self) {
        self.process.iter().for_each(|p| p.signal_all(Signal::CONT));
    }

    /// Restarts the server on the same data. A no-op while running.
    pub async fn resume(&mut self) {
        if self.process.is_some() {
            return;
        }
        let process = self.process.insert(Process::spawn("RabbitMQ", {
            let mut command = Command::new("/usr/lib/rabbitmq/bin/rabbitmq-server");
            command
                .env("HOME", self.folder.path())
                .env("RABBITMQ_NODENAME", format!("t{}@localhost", self.port));
            command
                .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
                .env("RABBITMQ_NODE_PORT", self.port.to_string());
            command.env("RABBITMQ_DIST_PORT", self.distribution_port.to_string());
            command.env("ERL_EPMD_PORT", self.mapper_port.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
            for (name, file) in [
                ("RABBITMQ_MNESIA_BASE", "mnesia"),
                ("RABBITMQ_LOG_BASE", "log"),
                ("RABBITMQ_PID_FILE", "pid"),
                ("RABBITMQ_ENABLED_PLUGINS_FILE", PLUGINS),
                ("RABBITMQ_PLUGINS_EXPAND_DIR", "plugexp"),
            ] {
                command.env(name, self.folder.join(file));
            }
            command.env("RABBITMQ_CONFIG_FILE", self.folder.join(SETTINGS));
            let loopback = "-kernel inet_dist_use_interface {127,0,0,1}";
            command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", loopback);
            command
        }));
        process.wait_for_line("completed with", START).await;
        let address = format!("127.0.0.1:{}", self.port);
        wait_until("RabbitMQ to take connections", LONG, || async {
            TcpStream::connect(&address).await.is_ok()
        })
        .await;
    }
}

impl RabbitmqServer {
    /// Adds a user with these patterns for configuring, writing and reading.
    pub async fn add_user(&self, name: &str, password: &str, [configure, write, read]: [&str; 3]) {
        let added = format!("add_user(<<{name:?}>>, <<{password:?}>>, <<\"tests\">>)");
        let patterns = format!("<<{configure:?}>>, <<{write:?}>>, <<{read:?}>>");
        let allowed = format!("set_permissions(<<{name:?}>>, <<\"/\">>, {patterns}, <<\"tests\">>)");
        let module = "rabbit_auth_backend_internal";
        assert_eq!(self.evaluate(&format!("ok = {module}:{added}, {module}:{allowed}.")).await, "ok");
    }

    /// Messages of a queue, including unacked deliveries.
    pub async fn messages(&self, queue: &str) -> u64 {
        let found =
            format!("{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<{queue:?}>>))");
        let asked = "[{messages, N}] = rabbit_amqqueue:info(Q, [messages]), N.";
        let answer = self.evaluate(&format!("{found}, {asked}")).await;
        answer.parse().unwrap_or_else(|_| panic!("no number of messages of {queue}: {answer}"))
    }

    /// Writes declarations to disk, as the broker does within two seconds: an earlier kill loses them.
    pub async fn keep_declared(&self) {
        assert_eq!(self.evaluate("mnesia:sync_log().").await, "ok");
    }

    /// The value of an expression inside the broker, by Erlang's own small client: `rabbitmqctl` starts a whole Erlang VM
    /// for each question.
    async fn evaluate(&self, expression: &str) -> String {
        wait_for("an answer of erl_call", START, async || self.try_evaluate(expression).await).await
    }

    /// `None`: a busy broker did not accept the connection in time, so nothing was evaluated.
    async fn try_evaluate(&self, expression: &str) -> Option<String> {
        let cookie = std::fs::read_to_string(self.folder.join(".erlang.cookie"));
        let mut command = tokio::process::Command::new("erl_call");
        command.args(["-n", &format!("t{}@localhost", self.port), "-e", "-c"]);
        command.arg(cookie.expect("a broker that is up has its cookie"));
        command.env("ERL_EPMD_PORT", self.mapper_port.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut asked = command.spawn().expect("erl_call is installed with Erlang");
        let mut question = asked.stdin.take().expect("its input is a pipe");
        question
            .write_all(format!("{expression}\n").as_bytes())
            .await
            .expect("erl_call reads the expression");
        drop(question);
        let output = asked.wait_with_output().await.expect("it can be waited for");
        let said = String::from_utf8_lossy(&output.stdout);
        let failure = String::from_utf8_lossy(&output.stderr);
        if failure.contains("failed to connect to node") {
            return None;
        }
        let value = said.strip_prefix("{ok, ").and_then(|rest| rest.trim_end().strip_suffix('}'));
        Some(value.unwrap_or_else(|| panic!("{expression}: {said}{failure}")).to_owned())
    }
}

// === impl Lendable ===

impl Lendable for RabbitmqServer {
    fn idle() -> &'static Mutex<Vec<Self>> {
        &IDLE
    }

    fn is_lendable(&self) -> bool {
        self.process.is_some() && self.tls_port.is_none()
    }

    async fn empty(&mut self) {
        assert_eq!(self.evaluate(EMPTY).await, "ok");
    }
}

fn tls_settings(port: u16, certificate: &Certificate) -> String {
    let (file, key) = (certificate.certificate.display(), certificate.key.display());
    format!(
        "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.certfile = {file}\nssl_options.keyfile = {key}\n\
         ssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false\n"
    )
}
