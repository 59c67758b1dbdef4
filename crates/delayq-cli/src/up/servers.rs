//! The private redis-server and etcd: started, waited for, watched, ended.

use std::fs::File;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use delayq_core::Client;
use delayq_service::config::{Environment, Source, load};
use delayq_service::deployment::client;
use delayq_service::{Fault, Shutdown, Tasks};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::child::{Child, Record};
use super::configuration::{Parts, earlier, socket};
use super::folder::DataFolder;
use super::ports::Ports;
use crate::deployment::CliConfig;
use crate::failure::{UNREACHABLE, file, of_core};

/// How long a server may take to answer: Redis reads its append-only file first.
const READY_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const ONE_LOOK: Duration = Duration::from_secs(2);

/// What to start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Without etcd: one timer, which owns everything.
    pub no_etcd: bool,
    /// The namespace; `None`: the folder's, or the default.
    pub namespace: Option<String>,
    /// The number of shards; `None`: the folder's, or the default.
    pub shards: Option<u16>,
}

/// The servers, running.
#[derive(Debug)]
pub struct Servers {
    children: Vec<Child>,
    /// The configuration that was written.
    pub config: CliConfig,
    /// The deployment.
    pub client: Client,
    /// How many shards were created: 0 in a folder that was used before.
    pub created: u16,
    /// Where Redis answers over TCP.
    pub redis_address: String,
}

// === impl Servers ===

impl Servers {
    /// Ends what an earlier life left, starts the servers, waits until they answer, and creates the deployment.
    /// Dropped on the way, what was started ends.
    ///
    /// # Errors
    /// A program is missing or does not answer, or the folder belongs to a deployment with other numbers.
    pub async fn start(folder: &DataFolder, options: &Options) -> Result<Self, Fault> {
        end_strays(folder).await?;
        let ports = Ports::choose(folder)?;
        let earlier = earlier(folder).map(|config| config.deployment).unwrap_or_default();
        let parts = Parts {
            folder,
            ports,
            etcd: !options.no_etcd,
            namespace: options.namespace.as_deref().unwrap_or(&earlier.namespace),
            shards: options.shards.unwrap_or(earlier.shards),
        };
        let text = parts.text();
        let loaded = load::<CliConfig>(&Source::text("delayq.toml", text.as_str()), &Environment::empty())?;

        let mut children = vec![Child::start("redis-server", "redis-server", redis(folder, ports)?)?];
        record(folder, &children)?;
        if !options.no_etcd {
            children.push(Child::start("etcd", "etcd-server", etcd(folder, ports)?)?);
            record(folder, &children)?;
        }
        let redis_log = folder.join("logs/redis.log");
        ready(&children[0], ports.redis, "PING\r\n", "+PONG", &redis_log).await?;
        if let Some(etcd) = children.get(1) {
            let ask = "GET /health HTTP/1.0\r\n\r\n";
            ready(etcd, ports.etcd, ask, "\"true\"", &folder.join("logs/etcd.log")).await?;
        }
        let client = client(&loaded.config.deployment, &loaded.config.redis)?;
        client.check_server().await.map_err(of_core)?;
        let created = client.init().await.map_err(of_core)?;
        // Only what was found to fit is written: a refused start leaves the folder as it was.
        folder.replace("delayq.toml", &text)?;
        let redis_address = format!("127.0.0.1:{}", ports.redis);
        Ok(Self { children, config: loaded.config, client, created, redis_address })
    }

    /// Watches the servers: the process ends when one does.
    pub fn watch(&self, tasks: &Tasks) {
        for child in &self.children {
            let (name, mut ended) = (child.record.name.clone(), child.watch());
            let shutdown: Shutdown = tasks.shutdown().clone();
            tasks.spawn(name.clone(), async move {
                tokio::select! {
                    () = shutdown.requested() => Ok(()),
                    _ = ended.wait_for(Option::is_some) => {
                        Err(Fault::new(&UNREACHABLE, format!("{name} ended; its log is in logs/")))
                    }
                }
            });
        }
    }

    /// Ends them, the last started first.
    pub async fn end(self, folder: &DataFolder) -> Result<(), Fault> {
        for child in self.children.into_iter().rev() {
            child.end().await;
        }
        folder.replace("children.json", "[]\n")
    }
}

async fn end_strays(folder: &DataFolder) -> Result<(), Fault> {
    let records = folder.read("children.json")?;
    let records: Vec<Record> = records.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    for record in records {
        record.end_stray().await;
    }
    Ok(())
}

fn record(folder: &DataFolder, children: &[Child]) -> Result<(), Fault> {
    let records: Vec<&Record> = children.iter().map(|child| &child.record).collect();
    folder.replace("children.json", &serde_json::to_string(&records).expect("records are plain values"))
}

fn redis(folder: &DataFolder, ports: Ports) -> Result<Command, Fault> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &ports.redis.to_string(), "--bind", "127.0.0.1"]);
    command.arg("--dir").arg(folder.join("redis"));
    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]);
    command.args(["--maxmemory-policy", "noeviction", "--daemonize", "no"]);
    if let Some(socket) = socket(folder) {
        command.args(["--unixsocket", &socket, "--unixsocketperm", "700"]);
    }
    logged(folder, "redis.log", command)
}

fn etcd(folder: &DataFolder, ports: Ports) -> Result<Command, Fault> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    let mut command = Command::new("etcd");
    command.args(["--name", "delayq", "--data-dir"]).arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("delayq={peer}"), "--logger", "zap", "--log-level", "warn"]);
    logged(folder, "etcd.log", command)
}

fn logged(folder: &DataFolder, name: &str, mut command: Command) -> Result<Command, Fault> {
    let path = folder.join("logs").join(name);
    let out = File::options().create(true).append(true).open(&path);
    let out = out.map_err(|error| file(&path, "write", error))?;
    let err = out.try_clone().map_err(|error| file(&path, "write", error))?;
    command.stdout(Stdio::from(out)).stderr(Stdio::from(err));
    Ok(command)
}

/// Asks a server until it answers what is expected.
async fn ready(
    child: &Child,
    port: u16,
    ask: &str,
    expected: &str,
    log: &std::path::Path,
) -> Result<(), Fault> {
    let deadline = Instant::now() + READY_WITHIN;
    let name = &child.record.name;
    loop {
        if timeout(ONE_LOOK, answer(port, ask))
            .await
            .ok()
            .flatten()
            .is_some_and(|text| text.contains(expected))
        {
            return Ok(());
        }
        if let Some(status) = child.ended() {
            let message = format!("{name} ended at its start ({status}); see {}", log.display());
            return Err(Fault::new(&UNREACHABLE, message));
        }
        if Instant::now() > deadline {
            let message = format!("{name} does not answer on 127.0.0.1:{port}; see {}", log.display());
            return Err(Fault::new(&UNREACHABLE, message));
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn answer(port: u16, ask: &str) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
    stream.write_all(ask.as_bytes()).await.ok()?;
    let mut buffer = Vec::new();
    let mut text = String::new();
    // An answer of HTTP ends with the connection, one of Redis with its line.
    while stream.read_buf(&mut buffer).await.ok()? > 0 {
        text = String::from_utf8_lossy(&buffer).into_owned();
        if !ask.starts_with("GET") && text.ends_with('\n') {
            break;
        }
    }
    Some(text)
}
