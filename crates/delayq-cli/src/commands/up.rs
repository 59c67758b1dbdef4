//! `delayq up`: everything on this machine, until Ctrl-C.

use std::path::{Path, PathBuf};

use clap::Args;
use delayq_service::config::{AdminConfig, Environment, LogConfig, ShutdownConfig, Source, load};
use delayq_service::{Exit, Fault, Life, Program, Tasks, live, telemetry};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::deployment::Global;
use crate::failure::usage;
use crate::output::{Output, say};
use crate::up::{DataFolder, Options, Roles, Servers};

/// What the process is called in its log.
pub const PROGRAM: Program = Program { name: "delayq-up", version: env!("CARGO_PKG_VERSION") };

/// Run everything on this machine, with a Redis and an etcd of its own, until Ctrl-C
///
/// Timer, forwarder and compensator are one process. Started again on the same folder, nothing is lost.
#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    place: Place,
}

/// Where everything is kept.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// The folder that everything is kept in
    #[arg(long, value_name = "DIR", default_value = ".delayq")]
    pub data: PathBuf,
    /// Leave etcd out: a single timer owns every shard
    #[arg(long)]
    pub no_etcd: bool,
}

/// The sections that the life of the process needs.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LifeSections {
    admin: AdminConfig,
    shutdown: ShutdownConfig,
}

impl delayq_service::config::Section for LifeSections {}

// === impl Up ===

impl Up {
    /// Runs until Ctrl-C.
    ///
    /// # Errors
    /// The folder is in use, a program is missing, or a server does not start.
    pub async fn run(self, global: &Global) -> Result<Exit, Fault> {
        telemetry::init(&LogConfig { filter: "warn".to_owned(), ..LogConfig::default() })?;
        let folder = DataFolder::open(&self.place.data)?;
        let servers = Servers::start(&folder, &self.place.options(global)?).await?;
        let text = folder.read("delayq.toml")?.unwrap_or_default();
        let life = life(&text)?;
        let output = Output::of_process(global.json);
        let exit = live(PROGRAM, &life, async |process| {
            let roles = Roles::build(&text, &servers, process).await?;
            announce(output, &folder, &servers, &life)?;
            let servers = &servers;
            Ok(move |tasks: &Tasks| {
                roles.run(tasks);
                servers.watch(tasks);
            })
        })
        .await;
        servers.end(&folder).await?;
        if exit == Exit::Done && !global.json {
            say(&format!("stopped; everything is kept in {}", folder.path().display()))?;
        }
        Ok(exit)
    }
}

// === impl Place ===

impl Place {
    /// What to start there.
    ///
    /// # Errors
    /// Options that name another Redis.
    pub fn options(&self, global: &Global) -> Result<Options, Fault> {
        // That of this very folder, as DELAYQ_CONFIG names it for the other commands, asks for nothing else.
        let own = |config: &PathBuf| same_file(config, &self.data.join("delayq.toml"));
        if global.redis.is_some() || global.config.as_ref().is_some_and(|config| !own(config)) {
            return Err(usage(
                "up starts a Redis of its own: leave --redis and --config (or DELAYQ_CONFIG) out",
            ));
        }
        Ok(Options {
            no_etcd: self.no_etcd,
            namespace: global.namespace.clone(),
            shards: global.shards,
            on_port: false,
        })
    }
}

/// Whether both name the same file, which may not be there yet.
fn same_file(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// The settings of the process's life, from the configuration that was written.
///
/// # Errors
/// Never, for what `up` writes.
pub fn life(text: &str) -> Result<Life, Fault> {
    let source = Source::text("delayq.toml", text);
    let LifeSections { admin, shutdown } = load::<LifeSections>(&source, &Environment::empty())?.config;
    Ok(Life { admin, shutdown })
}

fn announce(output: Output, folder: &DataFolder, servers: &Servers, life: &Life) -> Result<(), Fault> {
    let (config, delivered) = (folder.configuration(), folder.delivered());
    let etcd = servers.config.etcd.enabled.then(|| servers.config.etcd.endpoints.join(","));
    let value = json!({
        "config": config, "redis": servers.client.address(), "etcd": etcd,
        "admin": life.admin.listen.to_string(), "delivered": delivered, "created_shards": servers.created,
    });
    output.line(&value, || {
        let state = if servers.created > 0 { "new" } else { "as it was left" };
        let mut rows = output.rows(&["part", "where"]);
        rows.row(["data".to_owned(), format!("{} ({state})", folder.path().display())]);
        let password = if !servers.on_socket { ", with the password in redis.password" } else { "" };
        rows.row(["redis".to_owned(), format!("{}{password}", servers.client.address())]);
        rows.row([
            "etcd".to_owned(),
            etcd.unwrap_or_else(|| "left out: a single timer owns every shard".to_owned()),
        ]);
        rows.row(["metrics".to_owned(), format!("http://{}/metrics", life.admin.listen)]);
        rows.row(["deliveries".to_owned(), delivered.display().to_string()]);
        let delayq = format!("delayq --config {}", config.display());
        format!(
            "{}\n\ndelayq is up; Ctrl-C stops it. In another terminal:\n  \
             {delayq} put orders '{{\"order\":17}}' --in 10s --id order-17\n  \
             delayq tail --file {}",
            rows.text(),
            delivered.display()
        )
    })
}
