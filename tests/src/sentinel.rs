//! A Redis sentinel that a test can break.

use crate::deadline::{LONG, wait_until};
use crate::environment::redis_server;
use crate::folder::Folder;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use crate::redis_server::RedisServer;
use redis::{AsyncConnectionConfig, FromRedisValue, RedisResult};
use std::process::Command;
use std::time::Duration;

/// The sentinels' name for the master.
pub const SERVICE: &str = "mymaster";
const PATIENCE: Duration = Duration::from_secs(2);

/// A sentinel. Dropping the sentinel kills it.
#[derive(Debug)]
pub struct Sentinel {
    folder: Folder,
    port: u16,
    tls_port: Option<u16>,
    process: Option<Process>,
}

pub(crate) struct Watch<'a> {
    pub(crate) master: u16,
    /// Number of sentinels that must agree that the master is down.
    pub(crate) quorum: usize,
    /// Silence after which the master counts as down.
    pub(crate) down_after: Duration,
    pub(crate) lines: &'a str,
    /// TLS configuration lines, with a separate port; empty: no TLS.
    pub(crate) tls: &'a str,
}

// === impl Sentinel ===

impl Sentinel {
    pub(crate) fn start(watch: &Watch<'_>) -> Self {
        let (folder, port) = (Folder::new("sentinel"), free_port());
        let Watch { master, quorum, down_after, lines, tls } = watch;
        let tls_port = (!tls.is_empty()).then(free_port);
        let tls_line = tls_port.map(|port| format!("tls-port {port}\n")).unwrap_or_default();
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {SERVICE} 127.0.0.1 {master} {quorum}\n\
             sentinel down-after-milliseconds {SERVICE} {}\nsentinel failover-timeout {SERVICE} 3000\n{lines}\n\
             {tls_line}{tls}",
            folder.path().display(),
            down_after.as_millis()
        );
        std::fs::write(folder.join("sentinel.conf"), text).expect("its folder takes its configuration");
        let mut sentinel = Self { folder, port, tls_port, process: None };
        sentinel.resume();
        sentinel
    }

    /// A sentinel of another group, which watches this Redis under the same name, by this epoch.
    pub async fn of_another_group(master: &RedisServer, epoch: u64) -> Self {
        let lines = format!("sentinel config-epoch {SERVICE} {epoch}\n");
        let port = master.announced_port();
        let sentinel =
            Self::start(&Watch { master: port, quorum: 1, down_after: LONG, lines: &lines, tls: "" });
        wait_until("the sentinel to name its master", LONG, async || {
            let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
            sentinel.try_command::<(String, u16)>(&words).await.is_ok_and(|(_, named)| named == port)
        })
        .await;
        sentinel
    }

    /// The address, `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The TLS address.
    #[must_use]
    pub fn tls_address(&self) -> String {
        format!("127.0.0.1:{}", self.tls_port.expect("it was started with TLS"))
    }

    /// Restarts the sentinel after [`Self::kill`].
    pub fn resume(&mut self) {
        let mut command = Command::new(redis_server());
        command.arg(self.folder.join("sentinel.conf")).arg("--sentinel");
        self.process = Some(Process::spawn("sentinel", command));
    }

    /// Kills the sentinel.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a killed sentinel cannot be killed again");
        process.end_by(Signal::KILL, LONG).await;
    }

    /// Freezes the sentinel (SIGSTOP): connections stay open, and nothing is answered.
    pub fn freeze(&self) {
        self.process.as_ref().expect("it runs").signal(Signal::STOP);
    }

    /// Resumes the sentinel after [`Self::freeze`].
    pub fn thaw(&self) {
        self.process.as_ref().expect("it runs").signal(Signal::CONT);
    }

    /// Runs a command.
    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let answer = self.try_command(words).await;
        answer.unwrap_or_else(|error| panic!("the sentinel refused {words:?}: {error}"))
    }

    /// As [`Self::command`], for a sentinel that may refuse or stay silent.
    ///
    /// # Errors
    /// The sentinel refuses the command, or does not answer.
    pub async fn try_command<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        ask(&self.address(), words).await
    }
}

/// According to the first sentinel of this URL.
pub(crate) async fn master_url(url: &str) -> String {
    let rest = url.strip_prefix("redis+sentinel://").expect("the URL of sentinels without TLS");
    let (hosts, service) = rest.split_once('/').expect("a URL of sentinels names what they watch");
    let (login, hosts) = hosts.rsplit_once('@').map_or((None, hosts), |(login, hosts)| (Some(login), hosts));
    let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service];
    let first = hosts.split(',').next().unwrap_or_default();
    let (host, port): (String, u16) = ask(first, &words).await.expect("a sentinel names the master");
    let login = login.map(|login| format!("{login}@")).unwrap_or_default();
    format!("redis://{login}{host}:{port}")
}

async fn ask<T: FromRedisValue>(address: &str, words: &[&str]) -> RedisResult<T> {
    let client = redis::Client::open(format!("redis://{address}/"))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let (name, args) = words.split_first().expect("a command has a name");
    redis::cmd(name).arg(args).query_async(&mut connection).await
}
