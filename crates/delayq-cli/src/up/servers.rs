//! The private Redises and etcd: started, waited for, watched, ended.

use super::child::{Child, ChildRecord};
use super::configuration::{ConfigurationParts, earlier};
use super::credentials::make_token;
use super::folder::DataFolder;
use super::forward::Forward;
use super::given::Given;
use super::patience::Patience;
use super::ports::Ports;
use super::redises::Redis;
use super::shape::Shape;
use super::{cluster, programs};
use crate::deployment::CliConfig;
use crate::failure::{UNREACHABLE, of_core, usage};
use crate::fleet::replace_deployment;
use delayq::{Admin, Client, Namespace, ShardCount};
use delayq_look::observer;
use delayq_service::config::{Environment, Source, load};
use delayq_service::deployment::client;
use delayq_service::{Fault, Shutdown, Tasks};

/// The servers to start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Without etcd: a single timer owns everything.
    pub no_etcd: bool,
    /// The namespace; `None`: the folder's, or the default.
    pub namespace: Option<Namespace>,
    /// The number of shards; `None`: the folder's, or as many as the Redises need.
    pub shards: Option<ShardCount>,
    /// The shape of the Redises; `None`: as in the folder, or a single Redis.
    pub shape: Option<Shape>,
    /// The port of a single Redis; `None`: Redis listens on a socket.
    pub port: Option<u16>,
    /// Messages to forward into the folder, or into a stream.
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
    /// Number of created shards: 0 in a folder that was used before.
    pub created: u16,
    /// The URL of a single Redis, without the password; `None` with several Redises.
    pub url: Option<String>,
    /// Set if Redis listens on a socket; otherwise Redis listens on a port and asks for a password.
    pub on_socket: bool,
}

// === impl Options ===

impl Options {
    /// The shape of a folder: `made`, or for a new folder as requested. `shards` is the number of shards, if named.
    fn shape(
        &self,
        folder: &DataFolder,
        made: Option<Shape>,
        shards: Option<ShardCount>,
    ) -> Result<Shape, Fault> {
        let asked = self.shape.filter(|&asked| made != Some(asked));
        if let (Some(made), Some(option)) = (made, asked.and_then(Shape::option)) {
            return Err(usage(format!(
                "{} keeps its messages in {made}: omit {option}, or choose another folder with --data",
                folder.path().display()
            )));
        }
        let shape = made.or(asked).unwrap_or_default();
        match shape {
            Shape::Cluster(_) | Shape::Nodes(_) if self.forwards.iter().any(Forward::is_stream) => {
                Err(usage(format!("a stream needs one Redis, and this is {shape}: forward to a file")))
            }
            Shape::Nodes(nodes) if shards.is_some_and(|shards| shards.get() < nodes.into()) => {
                Err(usage(format!("{shape} need a shard each: use more --shards, or fewer Redises")))
            }
            Shape::Cluster(_) | Shape::Nodes(_) if self.port.is_some() => {
                Err(usage(format!("--port needs one Redis, and this is {shape}: omit --port")))
            }
            shape => Ok(shape),
        }
    }
}

// === impl Servers ===

impl Servers {
    /// Ends servers that an earlier life left, starts the servers, waits for answers, and creates the deployment.
    /// Dropping the future ends the started servers.
    ///
    /// # Errors
    /// A program is missing or does not answer, or the folder belongs to a deployment with other numbers.
    pub async fn start(folder: &DataFolder, options: &Options) -> Result<Self, Fault> {
        end_strays(folder).await?;
        let made = earlier(folder)?;
        let before = Ports::earlier(folder)?;
        // A folder that was never up keeps nothing.
        let made_in = before.as_ref().filter(|_| made.is_some()).map(Ports::shape);
        let given = options.given.as_ref();
        let given_namespace = given.and_then(Given::namespace);
        let made_with = made.as_ref().map(|made| made.shards);
        let shards = options.shards.or(given.and_then(Given::shards)).or(made_with);
        let shape = options.shape(folder, made_in, shards)?;
        let (shards, earlier) = (shards.unwrap_or(shape.shards()), made.unwrap_or_default());
        let ports = Ports::choose(folder, before.as_ref(), shape, options.port)?;
        let redises = Redis::all(folder, &ports, options.port.is_some());
        let parts = ConfigurationParts {
            folder,
            ports: &ports,
            etcd: !options.no_etcd,
            namespace: options.namespace.as_ref().or(given_namespace.as_ref()).unwrap_or(&earlier.namespace),
            shards,
            redises: &redises,
            forwards: &options.forwards,
            given,
        };
        let text = parts.text();
        make_token(folder)?;

        let mut children = Vec::new();
        for redis in programs::redis(folder, &redises)? {
            children.push(Child::start("redis-server", "redis-server", redis)?);
            record(folder, &children)?;
        }
        if !options.no_etcd {
            children.push(Child::start("etcd", "etcd-server", programs::etcd(folder, &ports)?)?);
            record(folder, &children)?;
        }
        let config =
            load::<CliConfig>(&Source::text("delayq.toml", text.as_str()), &Environment::empty())?.config;
        let client = client(&config.deployment, &config.redis)?;
        let mut patience = Patience::new(&children[..redises.len()], folder.join("logs/redis.log"));
        cluster::form(&ports.cluster, &config.redis, &mut patience).await?;
        redis_ready(&client, &mut patience).await?;
        if !options.no_etcd {
            etcd_ready(&config, Patience::new(&children[redises.len()..], folder.join("logs/etcd.log")))
                .await?;
        }
        let admin = Admin::new(client.clone());
        let created = admin.init().await.map_err(of_core)?;
        if !options.no_etcd {
            // This etcd divides the shards of this deployment alone, even after the data of Redis or of etcd was
            // removed.
            replace_deployment(&config, admin.identify().await.map_err(of_core)?).await?;
        }
        // Only a configuration that was found to fit is written: a refused start leaves the folder unchanged.
        folder.replace("delayq.toml", &text)?;
        let on_socket = redises.iter().all(Redis::is_on_socket);
        let url = if let [redis] = &redises[..] { Some(redis.url()) } else { None };
        Ok(Self { children, config, client, created, on_socket, url })
    }

    /// Watches the servers: the process ends when a server does.
    pub fn watch(&self, tasks: &Tasks) {
        for child in &self.children {
            let (name, mut ended) = (child.record.name.clone(), child.watch());
            let shutdown: Shutdown = tasks.shutdown().clone();
            tasks.spawn(name.clone(), async move {
                tokio::select! {
                    () = shutdown.requested() => Ok(()),
                    _ = ended.wait_for(Option::is_some) => {
                        Err(Fault::new(&UNREACHABLE, format!("{name} exited; see its log in logs/")))
                    }
                }
            });
        }
    }

    /// Ends the servers, the last started first.
    pub async fn end(self, folder: &DataFolder) -> Result<(), Fault> {
        for child in self.children.into_iter().rev() {
            child.end().await;
        }
        folder.replace("children.json", "[]\n")
    }
}

async fn end_strays(folder: &DataFolder) -> Result<(), Fault> {
    let records = folder.read("children.json")?;
    let records: Vec<ChildRecord> =
        records.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    for record in records {
        record.end_stray().await;
    }
    Ok(())
}

fn record(folder: &DataFolder, children: &[Child]) -> Result<(), Fault> {
    let records: Vec<&ChildRecord> = children.iter().map(|child| &child.record).collect();
    folder.replace("children.json", &serde_json::to_string(&records).expect("records hold plain values"))
}

/// Waits until every Redis has loaded the data.
async fn redis_ready(client: &Client, patience: &mut Patience<'_>) -> Result<(), Fault> {
    let admin = Admin::new(client.clone());
    loop {
        match admin.nodes().check().await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_outage() => patience.wait(&error.to_string()).await?,
            Err(error) => return Err(of_core(error)),
        }
    }
}

async fn etcd_ready(config: &CliConfig, mut patience: Patience<'_>) -> Result<(), Fault> {
    let observer = observer(&config.deployment, &config.etcd)?;
    loop {
        let health = observer.health().await;
        if health.iter().all(|health| health.has_leader) {
            return Ok(());
        }
        let faults: Vec<String> = health.into_iter().filter_map(|health| health.error).collect();
        patience.wait(&faults.join("; ")).await?;
    }
}
