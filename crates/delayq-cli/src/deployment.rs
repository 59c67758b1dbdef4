//! Which deployment a command is about: the configuration file, the environment, and the options over both.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use delayq_core::{Admin, Client, MessageId, Namespace, ShardCount, Topic, UnixMillis};
use delayq_core::{Producer, ProducerOptions, Spool, SpoolSettings};
use delayq_service::config::{
    DeploymentConfig, Environment, EtcdConfig, Loaded, LogConfig, RedisConfig, RedisUrl, Source, SpoolConfig,
    load,
};
use delayq_service::deployment::client;
use delayq_service::{Fault, configuration};

use crate::failure::{FILE, UNREACHABLE, of_core, unknown};
use crate::output::Output;

const EVERYWHERE: &str = "Options of every command";

/// The options that every command takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The configuration file; without one the defaults hold
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "DELAYQ_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The Redis that keeps the messages, over the configuration's
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "URL", value_parser = clap::value_parser!(RedisUrl))]
    pub redis: Option<RedisUrl>,
    /// The deployment's namespace, over the configuration's
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "NAME")]
    pub namespace: Option<Namespace>,
    /// The deployment's number of shards, over the configuration's
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "COUNT", value_parser = shard_count())]
    pub shards: Option<ShardCount>,
    /// Print JSON instead of tables
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
}

fn shard_count() -> impl TypedValueParser<Value = ShardCount> {
    RangedU64ValueParser::<u16>::new().range(1..=ShardCount::MAX.into()).try_map(ShardCount::new)
}

configuration! {
    /// The sections of the configuration that the command line uses.
    #[derive(PartialEq)]
    pub struct CliConfig {
        /// Which deployment.
        pub deployment: DeploymentConfig,
        /// Its Redis.
        pub redis: RedisConfig,
        /// Its etcd.
        pub etcd: EtcdConfig,
        /// What is logged.
        pub log: LogConfig,
        /// The spool of this host.
        pub spool: SpoolConfig,
    }
}

/// What a command works with.
#[derive(Clone, Debug)]
pub struct Context {
    /// How to print.
    pub output: Output,
    /// The settings in force.
    pub config: CliConfig,
    /// The deployment; it connects when it is first used.
    pub client: Client,
}

// === impl Global ===

impl Global {
    /// Where the configuration comes from.
    pub fn source(&self) -> Source {
        Source::from_option(self.config.clone())
    }

    /// The configuration with the options over it.
    ///
    /// # Errors
    /// Every fault of the configuration at once.
    pub fn load(&self) -> Result<Loaded<CliConfig>, Fault> {
        let mut loaded = load::<CliConfig>(&self.source(), &Environment::of_process())?;
        self.apply(&mut loaded.config.deployment, &mut loaded.config.redis);
        Ok(loaded)
    }

    /// Lays the options over the sections that they are about.
    pub fn apply(&self, deployment: &mut DeploymentConfig, redis: &mut RedisConfig) {
        if let Some(url) = &self.redis {
            // Another Redis has other credentials: those of the file belong to the file's.
            *redis =
                RedisConfig { url: url.clone(), username: None, password: None, ca: None, ..redis.clone() };
        }
        if let Some(namespace) = &self.namespace {
            deployment.namespace.clone_from(namespace);
        }
        if let Some(shards) = self.shards {
            deployment.shards = shards;
        }
    }

    /// What a command works with.
    ///
    /// # Errors
    /// Every fault of the configuration at once.
    pub fn context(&self) -> Result<Context, Fault> {
        let config = self.load()?.config;
        let client = client(&config.deployment, &config.redis)?;
        Ok(Context { output: Output::of_process(self.json), config, client })
    }
}

// === impl Context ===

impl Context {
    /// The operator's side of the deployment.
    pub fn admin(&self) -> Admin {
        Admin::new(self.client.clone())
    }

    /// The producer's side; what cannot reach Redis goes to the host's spool, if there is one.
    ///
    /// # Errors
    /// The spool cannot be used.
    pub fn producer(&self) -> Result<Producer, Fault> {
        let settings = SpoolSettings { max_bytes: self.config.spool.max_bytes.bytes() };
        let spool = self.config.spool.folder().map(|folder| Spool::open(folder, &settings)).transpose();
        let spool = spool.map_err(|error| Fault::new(&FILE, error.to_string()))?;
        Ok(Producer::start(self.client.clone(), ProducerOptions { spool, ..ProducerOptions::default() }))
    }

    /// Makes sure that the topic exists, so that a misspelt name is not answered with "none".
    ///
    /// # Errors
    /// It does not, and which names are like it; or Redis cannot be used.
    pub async fn known_topic(&self, topic: &Topic) -> Result<(), Fault> {
        let topics = self.admin().topics().await.map_err(of_core)?;
        if topics.contains(topic) { Ok(()) } else { Err(unknown(no_topic(topic, &topics))) }
    }

    /// The fault for a message that is not there: or is its topic misspelt?
    pub async fn unknown_message(&self, topic: &Topic, id: &MessageId) -> Fault {
        match self.known_topic(topic).await {
            Ok(()) => unknown(format!("nothing is known of {id} in {topic}: never put, or forgotten")),
            Err(fault) => fault,
        }
    }

    /// Redis's clock.
    ///
    /// # Errors
    /// Redis cannot be used, or the deployment is not there.
    pub async fn now(&self) -> Result<UnixMillis, Fault> {
        redis_now(&self.client).await
    }
}

/// Redis's clock, as the first shard tells it.
///
/// # Errors
/// Redis cannot be used, or the deployment is not there.
pub async fn redis_now(client: &Client) -> Result<UnixMillis, Fault> {
    let first = client.shards().shards().next().expect("a deployment has at least one shard");
    let mut overviews = client.overview(&[first]).await;
    let overview = overviews.pop().expect("one answer for one shard").map_err(of_core)?;
    Ok(overview.now.millis())
}

/// That there is no such topic, and which name was probably meant.
fn no_topic(topic: &Topic, topics: &[Topic]) -> String {
    let likeness = |known: &&Topic| strsim::jaro_winkler(topic.as_str(), known.as_str());
    let like = topics.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    match like.filter(|known| likeness(known) > 0.8) {
        Some(known) => format!("there is no topic {topic}; did you mean {known}?"),
        None if topics.is_empty() => {
            format!("there is no topic {topic}, nor any other: the first put makes one")
        }
        None => format!("there is no topic {topic}; delayq topics lists all {}", topics.len()),
    }
}

/// A fault for an etcd that cannot be used.
pub fn of_cluster(error: &delayq_cluster::ClusterError) -> Fault {
    Fault::new(&UNREACHABLE, error.to_string())
}
