//! The deployment that a command is about: the configuration file, the environment, and the options over both.

use crate::failure::{FILE, UNKNOWN, of_core, unknown};
use crate::naming::{elsewhere, named};
use crate::output::Output;
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, ValueEnum};
use delayq::spool::Spool;
use delayq::{
    Admin, Client, Members, Namespace, Producer, ProducerOptions, ShardCount, Target, Topic, UnixMillis,
};
use delayq_cluster::EtcdConfig;
use delayq_compensator::OutboxConfig;
use delayq_look::Deployment;
use delayq_service::config::{
    AdminConfig, DeploymentConfig, Environment, HostPort, Listen, Loaded, LogConfig, RedisConfig, RedisUrl,
    Source, SpoolConfig, load,
};
use delayq_service::deployment::client;
use delayq_service::{Fault, configuration};
use delayq_spool::{SpoolSettings, SpoolWriter};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

const EVERYWHERE: &str = "Global options";

/// The options that every command takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The configuration file; without one, that of the variable DELAYQ_CONFIG; without both, the defaults apply
    // Not clap's `env`: every usage would show the option as if given.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The Redis that keeps the messages; overrides the configuration
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "URL", value_parser = SecretUrl)]
    pub redis: Option<RedisUrl>,
    /// The deployment's namespace; overrides the configuration
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "NAME")]
    pub namespace: Option<Namespace>,
    /// The deployment's number of shards; overrides the configuration
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "COUNT", value_parser = shard_count())]
    pub shards: Option<ShardCount>,
    /// How to print
    #[arg(long, short = 'o', global = true, help_heading = EVERYWHERE, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Print JSON, errors included: as --output json
    #[arg(long, global = true, help_heading = EVERYWHERE, conflicts_with = "output")]
    json: bool,
}

/// How a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// Tables and sentences
    Text,
    /// JSON, errors included
    Json,
}

/// Reads `--redis`. clap's own refusal would repeat the value, password included.
#[derive(Clone)]
struct SecretUrl;

impl TypedValueParser for SecretUrl {
    type Value = RedisUrl;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<RedisUrl, clap::Error> {
        let read = value.to_str().ok_or_else(|| "not UTF-8".to_owned()).and_then(str::parse);
        let refusal = |why| clap::Error::raw(ErrorKind::ValueValidation, format!("--redis: {why}\n"));
        read.map_err(|why: String| refusal(why).with_cmd(command))
    }
}

fn shard_count() -> impl TypedValueParser<Value = ShardCount> {
    RangedU64ValueParser::<u16>::new().range(1..=ShardCount::MAX.into()).try_map(ShardCount::new)
}

configuration! {
    /// The configuration sections that the command line uses.
    #[derive(PartialEq)]
    pub struct CliConfig {
        /// The deployment.
        pub deployment: DeploymentConfig,
        /// The Redis of the deployment.
        pub redis: RedisConfig,
        /// The etcd of the deployment.
        pub etcd: EtcdConfig,
        /// The log settings.
        pub log: LogConfig,
        /// The spool of this host.
        pub spool: SpoolConfig,
        /// The outbox of a database.
        pub outbox: OutboxConfig,
        /// The admin endpoint of the process that the configuration is for.
        pub admin: AdminConfig,
    } and |config, at| config.deployment.contradictions(&config.redis, at)
}

/// Everything that a command works with.
#[derive(Clone, Debug)]
pub struct Context {
    /// The output settings.
    pub output: Output,
    /// The settings in force.
    pub config: CliConfig,
    /// The deployment, or the part of the deployment that a look is limited to.
    pub deployment: Deployment,
}

// === impl Global ===

impl Global {
    /// Returns whether JSON is asked for.
    pub fn json(&self) -> bool {
        self.json || self.output == Some(OutputFormat::Json)
    }

    /// The configuration file, if named.
    #[allow(
        clippy::disallowed_methods,
        reason = "names the configuration file, and is not part of the configuration"
    )]
    pub fn file(&self) -> Option<PathBuf> {
        let of_environment = || std::env::var_os("DELAYQ_CONFIG").filter(|path| !path.is_empty());
        self.config.clone().or_else(|| of_environment().map(PathBuf::from))
    }

    /// The source of the configuration.
    pub fn source(&self) -> Source {
        Source::from_option(self.file())
    }

    /// Loads the configuration and lays the options over the sections.
    ///
    /// # Errors
    /// Every fault of the configuration at once.
    pub fn load(&self) -> Result<Loaded<CliConfig>, Fault> {
        let mut loaded = load::<CliConfig>(&self.source(), &Environment::of_process())?;
        self.apply(&mut loaded.config.deployment, &mut loaded.config.redis);
        Ok(loaded)
    }

    /// Lays the options over the affected sections.
    pub fn apply(&self, deployment: &mut DeploymentConfig, redis: &mut RedisConfig) {
        if let Some(url) = &self.redis {
            *redis = redis.elsewhere(url);
        }
        if let Some(namespace) = &self.namespace {
            deployment.namespace.clone_from(namespace);
        }
        if let Some(shards) = self.shards {
            deployment.shards = shards;
        }
    }

    /// Builds the context of a command.
    ///
    /// # Errors
    /// Every fault of the configuration at once.
    pub fn context(&self) -> Result<Context, Fault> {
        let config = self.load()?.config;
        let client = client(&config.deployment, &config.redis)?;
        let deployment = Deployment::new(client, &config.deployment, &config.etcd);
        Ok(Context { output: Output::of_process(self.json()), config, deployment })
    }
}

// === impl Context ===

impl Context {
    /// The admin endpoint of the configuration, and the given ones.
    pub fn endpoints(&self, given: &[HostPort]) -> Vec<HostPort> {
        let admin = &self.config.admin;
        let configured = match (&admin.listen, admin.advertise.as_str()) {
            (Listen::At(address), "") => Some(address.clone()),
            (Listen::At(address), host) => Some(HostPort::new(host, address.port())),
            (Listen::Off, _) => None,
        };
        configured.into_iter().chain(given.iter().cloned()).collect()
    }

    /// The operator's side of the deployment.
    pub fn admin(&self) -> Admin {
        self.deployment.admin()
    }

    /// The connection to Redis.
    pub fn client(&self) -> &Client {
        self.deployment.client()
    }

    /// The context, limited to a part of the deployment.
    pub fn limited_to(&self, part: &Deployment) -> Self {
        Self { deployment: part.clone(), ..self.clone() }
    }

    /// The producer's side. A write that cannot reach Redis goes to the host's spool, if configured.
    ///
    /// # Errors
    /// The spool cannot be used.
    pub fn producer(&self) -> Result<Producer, Fault> {
        let settings = SpoolSettings { max_bytes: self.config.spool.max_bytes.bytes() };
        let spool = self.config.spool.folder().map(|folder| SpoolWriter::open(folder, &settings)).transpose();
        let spool = spool.map_err(|error| Fault::new(&FILE, error.to_string()))?;
        let mut options = ProducerOptions::default();
        options.spool = spool.map(|spool| Arc::new(spool) as Arc<dyn Spool>);
        Ok(Producer::start(self.client().clone(), options))
    }

    /// Checks that the topic exists, so that a misspelt name is an error.
    ///
    /// # Errors
    /// The topic does not exist, and the message names a similar topic; or Redis cannot be used.
    pub async fn known_topic(&self, topic: &Topic) -> Result<(), Fault> {
        check_topic(&self.admin(), topic).await
    }

    /// Checks that the topic of a group's messages exists, if given. Any other fault is left to the change itself,
    /// which may be spooled.
    ///
    /// # Errors
    /// The topic does not exist.
    pub async fn known_members(&self, members: &Members) -> Result<(), Fault> {
        let Some(topic) = &members.topic else { return Ok(()) };
        match self.known_topic(topic).await {
            Err(fault) if fault.code().id == UNKNOWN.id => Err(fault),
            _ => Ok(()),
        }
    }

    /// A remark for a put that is about to create a topic, with a similar existing topic.
    pub async fn new_topic(&self, topic: &Topic) -> Option<String> {
        let topics = self.admin().topics().await.ok()?;
        let other = like(topic, &topics).map(|meant| format!("; there is also {meant}")).unwrap_or_default();
        (!topics.contains(topic)).then(|| format!("{topic} is a new topic{other}"))
    }

    /// The fault for a missing message, or for a misspelt topic.
    pub async fn unknown_message(&self, topic: &Topic, target: &Target) -> Fault {
        match self.known_topic(topic).await {
            Ok(()) => {
                let (name, elsewhere) = (named(&target.id, target.group.as_ref()), elsewhere(target));
                unknown(format!(
                    "no message {name} in {topic}{elsewhere}: never put, or finished and forgotten"
                ))
            }
            Err(fault) => fault,
        }
    }

    /// Redis's clock.
    ///
    /// # Errors
    /// Redis cannot be used, or the deployment does not exist.
    pub async fn now(&self) -> Result<UnixMillis, Fault> {
        redis_now(&self.admin()).await
    }
}

/// Checks that the topic exists, so that a misspelt name is an error.
///
/// # Errors
/// The topic does not exist, and the message names a similar topic; or Redis cannot be used.
pub async fn check_topic(admin: &Admin, topic: &Topic) -> Result<(), Fault> {
    let topics = admin.topics().await.map_err(of_core)?;
    if topics.contains(topic) { Ok(()) } else { Err(unknown(no_topic(topic, &topics))) }
}

/// Redis's clock, read through the first shard that is not left out.
///
/// # Errors
/// Redis cannot be used, or the deployment does not exist.
pub async fn redis_now(admin: &Admin) -> Result<UnixMillis, Fault> {
    let first = admin.shards().all().into_iter().next().expect("a deployment has at least one shard");
    let mut overviews = admin.shards().overview_of(&[first]).await;
    let overview = overviews.pop().expect("each shard has one answer").map_err(of_core)?;
    Ok(overview.now.millis())
}

/// `None` if no name is similar enough.
fn like<'t>(topic: &Topic, topics: &'t [Topic]) -> Option<&'t Topic> {
    let likeness = |known: &&Topic| strsim::jaro_winkler(topic.as_str(), known.as_str());
    let like = topics.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    like.filter(|known| likeness(known) > 0.8)
}

/// Says that the topic does not exist, and suggests a similar name.
pub fn no_topic(topic: &Topic, topics: &[Topic]) -> String {
    match like(topic, topics) {
        Some(known) => format!("no topic {topic}; did you mean {known}?"),
        None if topics.is_empty() => {
            format!("no topic {topic}: there are no topics yet, the first put creates one")
        }
        None => format!("no topic {topic}; delayq topics lists all {}", topics.len()),
    }
}
