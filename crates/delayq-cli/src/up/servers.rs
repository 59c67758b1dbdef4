//! The private redis-server and etcd: started, waited for, watched, ended.

use super::child::{Child, Record};
use super::configuration::{Parts, earlier, socket};
use super::credentials::{Certificates, password};
use super::folder::DataFolder;
use super::forward::Forward;
use super::given::Given;
use super::ports::Ports;
use crate::deployment::CliConfig;
use crate::failure::{UNREACHABLE, file, of_core};
use crate::fleet::observer;
use delayq::{Admin, Client, Namespace, ShardCount};
use delayq_service::config::{Environment, Source, load};
use delayq_service::deployment::client;
use delayq_service::{Fault, Shutdown, Tasks};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a server may take to answer: Redis reads its append-only file first.
const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What to start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Without etcd: one timer, which owns everything.
    pub no_etcd: bool,
    /// The namespace; `None`: the folder's, or the default.
    pub namespace: Option<Namespace>,
    /// The number of shards; `None`: the folder's, or the default.
    pub shards: Option<ShardCount>,
    /// What is forwarded into the folder, or into a stream.
    pub forwards: Vec<Forward>,
    /// The user's own configuration.
    pub given: Option<Given>,
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
    /// Whether Redis listens on a socket; else on a port, and it asks for a password.
    pub on_socket: bool,
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
        let earlier = earlier(folder)?.unwrap_or_default();
        let socket = socket(folder);
        let given = options.given.as_ref();
        let given_namespace = given.and_then(Given::namespace);
        let parts = Parts {
            folder,
            ports,
            etcd: !options.no_etcd,
            namespace: options.namespace.as_ref().or(given_namespace.as_ref()).unwrap_or(&earlier.namespace),
            shards: options.shards.or(given.and_then(Given::shards)).unwrap_or(earlier.shards),
            socket: socket.clone(),
            forwards: &options.forwards,
            given,
        };
        let text = parts.text();

        let redis = redis(folder, ports, socket.as_deref())?;
        let mut children = vec![Child::start("redis-server", "redis-server", redis)?];
        record(folder, &children)?;
        if !options.no_etcd {
            children.push(Child::start("etcd", "etcd-server", etcd(folder, ports)?)?);
            record(folder, &children)?;
        }
        let config =
            load::<CliConfig>(&Source::text("delayq.toml", text.as_str()), &Environment::empty())?.config;
        let client = client(&config.deployment, &config.redis)?;
        redis_ready(&children[0], &client, folder).await?;
        if let Some(etcd) = children.get(1) {
            etcd_ready(etcd, &config, folder).await?;
        }
        let created = Admin::new(client.clone()).init().await.map_err(of_core)?;
        // Only what was found to fit is written: a refused start leaves the folder as it was.
        folder.replace("delayq.toml", &text)?;
        Ok(Self { children, config, client, created, on_socket: socket.is_some() })
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

fn redis(folder: &DataFolder, ports: Ports, socket: Option<&str>) -> Result<Command, Fault> {
    // What stands on a command line is everybody's to read.
    let secret = match socket {
        Some(_) => String::new(),
        None => format!("requirepass {}\n", password(folder)?),
    };
    folder.replace("redis.conf", &secret)?;
    let mut command = Command::new("redis-server");
    command.arg(folder.join("redis.conf")).arg("--dir").arg(folder.join("redis"));
    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]);
    command.args(["--maxmemory-policy", "noeviction", "--daemonize", "no"]);
    match socket {
        Some(path) => command.args(["--port", "0", "--unixsocket", path, "--unixsocketperm", "700"]),
        None => command.args(["--port", &ports.redis.to_string(), "--bind", "127.0.0.1"]),
    };
    logged(folder, "redis.log", command)
}

fn etcd(folder: &DataFolder, ports: Ports) -> Result<Command, Fault> {
    // It has no peers. A socket named like this one lies in the folder that etcd runs in.
    const PEER: &str = "unix://localhost:2380";
    let client = format!("https://127.0.0.1:{}", ports.etcd);
    let Certificates { authority, certificate, key } = Certificates::make(folder)?;
    let mut command = Command::new("etcd");
    command.current_dir(folder.join("etcd"));
    command.args(["--name", "delayq", "--data-dir"]).arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(authority);
    command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
    command.args(["--listen-peer-urls", PEER, "--initial-advertise-peer-urls", PEER]);
    command.args(["--initial-cluster", &format!("delayq={PEER}"), "--logger", "zap", "--log-level", "warn"]);
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

/// Asks Redis until it has loaded what it has.
async fn redis_ready(child: &Child, client: &Client, folder: &DataFolder) -> Result<(), Fault> {
    let admin = Admin::new(client.clone());
    let mut patience = Patience::new(child, folder.join("logs/redis.log"));
    loop {
        match admin.check_server().await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_outage() => patience.wait(&error.to_string()).await?,
            Err(error) => return Err(of_core(error)),
        }
    }
}

/// Asks etcd until it has chosen itself.
async fn etcd_ready(child: &Child, config: &CliConfig, folder: &DataFolder) -> Result<(), Fault> {
    let mut patience = Patience::new(child, folder.join("logs/etcd.log"));
    let observer = observer(config)?;
    loop {
        let health = observer.health().await;
        if health.iter().all(|health| health.has_leader) {
            return Ok(());
        }
        let faults: Vec<String> = health.into_iter().filter_map(|health| health.error).collect();
        patience.wait(&faults.join("; ")).await?;
    }
}

/// How long a server that starts is waited for.
struct Patience<'c> {
    child: &'c Child,
    log: PathBuf,
    deadline: Instant,
}

// === impl Patience ===

impl<'c> Patience<'c> {
    fn new(child: &'c Child, log: PathBuf) -> Self {
        Self { child, log, deadline: Instant::now() + READY_WITHIN }
    }

    /// Waits a moment.
    ///
    /// # Errors
    /// The server has ended, or took too long.
    async fn wait(&mut self, fault: &str) -> Result<(), Fault> {
        let (name, log) = (&self.child.record.name, self.log.display());
        if let Some(status) = self.child.ended() {
            return Err(Fault::new(&UNREACHABLE, format!("{name} ended at its start ({status}); see {log}")));
        }
        if Instant::now() > self.deadline {
            return Err(Fault::new(&UNREACHABLE, format!("{name} does not answer ({fault}); see {log}")));
        }
        sleep(POLL_INTERVAL).await;
        Ok(())
    }
}
