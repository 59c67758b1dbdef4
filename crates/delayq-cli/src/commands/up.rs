//! `delayq up`: everything on this machine, until Ctrl-C.

use crate::deployment::Global;
use crate::failure::usage;
use crate::output::{Output, say};
use crate::up::{DataFolder, Forward, Given, Options, Roles, Servers, Shape, TOKEN, TOKENS};
use clap::Args;
use delayq_forwarder::RouteConfig;
use delayq_gateway::GatewayConfig;
use delayq_service::config::{AdminConfig, Environment, LogConfig, ShutdownConfig, Source, load};
use delayq_service::{Exit, Fault, Life, Program, Tasks, live, telemetry};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PROGRAM: Program = Program { name: "delayq-up", version: env!("CARGO_PKG_VERSION") };

/// Run everything on this machine, with a private Redis and etcd, until Ctrl-C
///
/// Ready messages wait for your workers (delayq work TOPIC, or a client in your language). Only topics named by --forward or
/// by the routes in --config are forwarded. Resumes after a crash when given the same --data.
#[derive(Debug, Args)]
pub struct Up {
    /// The folder for all data
    #[arg(long, value_name = "DIR", default_value = ".delayq")]
    data: PathBuf,
    /// Run without etcd: a single timer owns every shard
    #[arg(long)]
    no_etcd: bool,
    /// Use a Redis Cluster with this many masters (3 to 9), to try one; only for a new folder. Its nodes talk over ports of
    /// this machine without a password
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=9))]
    redis_cluster: Option<u8>,
    /// Use this many independent Redises (2 to 9), each with its part of the shards, to try them; only for a new folder
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=9), conflicts_with = "redis_cluster")]
    redis_nodes: Option<u8>,
    /// Have Redis listen on this port of 127.0.0.1 instead of a socket in the folder, with the password in redis.password
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["redis_cluster", "redis_nodes"])]
    port: Option<u16>,
    /// Forward a topic, or a pattern such as 'notices.*', to file[:NAME] in the folder's forwarded/ or to stream[:NAME] of the private
    /// Redis; may be repeated
    #[arg(long = "forward", value_name = "TOPIC=DESTINATION")]
    forwards: Vec<Forward>,
}

delayq_service::configuration! {
    /// The sections of the written configuration that the life of the process and the announcement need.
    struct UpSections {
        admin: AdminConfig,
        shutdown: ShutdownConfig,
        routes: Vec<RouteConfig>,
        gateway: GatewayConfig,
    }
}

// === impl Up ===

impl Up {
    /// Runs until Ctrl-C.
    ///
    /// # Errors
    /// The folder is in use, a program is missing, or a server does not start.
    pub async fn run(self, global: &Global) -> Result<Exit, Fault> {
        let options = self.options(global)?;
        let log = options.given.as_ref().and_then(Given::log);
        let logging = Arc::new(telemetry::init(
            &log.unwrap_or_else(|| LogConfig { filter: "warn".to_owned(), ..LogConfig::default() }),
        )?);
        let reporting = Arc::clone(&logging);
        tokio::spawn(async move { reporting.report_now_and_then().await });
        let folder = DataFolder::open(&self.data)?;
        let servers = Servers::start(&folder, &options).await?;
        let text = folder.read("delayq.toml")?.unwrap_or_default();
        let sections: UpSections =
            load(&Source::text("delayq.toml", text.as_str()), &Environment::empty())?.config;
        let UpSections { admin, shutdown, routes, gateway } = sections;
        let token = (gateway.tokens == Some(folder.join(TOKENS))).then(|| folder.join(TOKEN));
        let secret = token.as_ref().map(|_| folder.read(TOKEN)).transpose()?.flatten();
        let life = Life { admin, shutdown };
        let output = Output::of_process(global.json());
        let exit = live(PROGRAM, &life, async |process| {
            let roles = Roles::build(&text, &servers, process).await?;
            let started = Started {
                folder: &folder,
                servers: &servers,
                life: &life,
                routes: &routes,
                gateway: roles.gateway_url(),
                page: roles.page_url(secret.as_deref())?,
                token,
            };
            started.announce(output)?;
            let servers = &servers;
            Ok(move |tasks: &Tasks| {
                roles.run(tasks);
                servers.watch(tasks);
            })
        })
        .await;
        logging.report_repeats();
        servers.end(&folder).await?;
        if exit == Exit::Done && !global.json() {
            say(&format!("stopped; all data is in {}", folder.path().display()))?;
        }
        Ok(exit)
    }

    fn options(&self, global: &Global) -> Result<Options, Fault> {
        if global.redis.is_some() {
            return Err(usage("delayq up runs its own Redis: omit --redis"));
        }
        let given = match global.file() {
            Some(path) => Given::read(&path, &self.data.join("delayq.toml"))?,
            None => None,
        };
        Ok(Options {
            no_etcd: self.no_etcd,
            namespace: global.namespace.clone(),
            shards: global.shards,
            shape: self.redis_cluster.map(Shape::Cluster).or(self.redis_nodes.map(Shape::Nodes)),
            port: self.port,
            forwards: self.forwards.clone(),
            given,
        })
    }
}

struct Started<'u> {
    folder: &'u DataFolder,
    servers: &'u Servers,
    life: &'u Life,
    routes: &'u [RouteConfig],
    gateway: String,
    /// For a browser.
    page: String,
    /// `None` if the user configured tokens.
    token: Option<PathBuf>,
}

// === impl Started ===

impl Started<'_> {
    fn announce(&self, output: Output) -> Result<(), Fault> {
        let Self { folder, servers, life, routes, gateway, page, token } = self;
        let etcd = servers.config.etcd.enabled.then(|| servers.config.etcd.addresses());
        let forwards: Vec<_> = routes
            .iter()
            .map(|route| json!({ "topic": route.topic, "sink": route.sink, "to": route.to }))
            .collect();
        let value = json!({
            "config": folder.configuration(), "redis": servers.client.address(), "etcd": etcd,
            "admin": life.admin.listen.to_string(), "gateway": gateway, "gateway_token": token, "page": page, "forwards": forwards, "created_shards": servers.created,
        });
        output.line(&value, || {
            let state = if servers.created > 0 { "new" } else { "kept from the last run" };
            let mut rows = output.rows(&["part", "where"]);
            rows.row(["data".to_owned(), format!("{} ({state})", folder.path().display())]);
            let password = if !servers.on_socket { ", with the password in redis.password" } else { "" };
            rows.row(["redis".to_owned(), format!("{}{password}", servers.client.address())]);
            let none = || "left out: a single timer owns every shard".to_owned();
            rows.row(["etcd".to_owned(), etcd.unwrap_or_else(none)]);
            rows.row(["page".to_owned(), page.clone()]);
            rows.row(["http".to_owned(), format!("{gateway}/v1")]);
            rows.row(["metrics".to_owned(), format!("http://{}/metrics", life.admin.listen)]);
            if routes.is_empty() {
                rows.row(["forwards", "no topic: ready messages wait for your workers"]);
            }
            for route in *routes {
                rows.row(["forwards".to_owned(), forwarded(route)]);
            }
            let delayq = format!("delayq --config {}", folder.configuration().display());
            format!(
                "{}\n\ndelayq is up; Ctrl-C stops it. In another terminal:\n  \
                 {delayq} put orders '{{\"order\":17}}' --in 10s --id order-17\n  \
                 {delayq} work orders\n{}{}",
                rows.text(),
                over_http(gateway, token.as_deref()),
                servers
                    .url
                    .as_ref()
                    .map(|url| from_programs(url, folder, servers.on_socket))
                    .unwrap_or_default()
            )
        })
    }
}

fn forwarded(route: &RouteConfig) -> String {
    let to = route.to.as_ref().map(|to| format!(", {to}")).unwrap_or_default();
    format!("{} to the sink {}{to}", route.topic, route.sink)
}

/// A shell command to paste.
fn over_http(gateway: &str, token: Option<&Path>) -> String {
    let header = token.map(|file| format!("-H \"Authorization: Bearer $(cat '{}')\" ", file.display()));
    format!("  curl {}{gateway}/v1/topics", header.unwrap_or_default())
}

/// Lines to paste, one for each language.
fn from_programs(url: &str, folder: &DataFolder, on_socket: bool) -> String {
    let path = url.trim_start_matches("unix://");
    let password = folder.join("redis.password").display().to_string();
    // redis-cli logs in as a user named "" where a URL has a password and no user.
    let (export, cli, node) = match on_socket {
        true => (format!("export REDIS_URL='{url}'"), format!("redis-cli -s '{path}'"), format!("{path:?}")),
        false => (
            format!(
                "export REDIS_URL=\"redis://default:$(cat '{password}')@{}\"",
                url.trim_start_matches("redis://")
            ),
            "redis-cli -u \"$REDIS_URL\"".to_owned(),
            "process.env.REDIS_URL".to_owned(),
        ),
    };
    format!(
        "\nFrom your program:\n  {export}\n  Rust:    \
         Client::connect(Settings::new(&std::env::var(\"REDIS_URL\")?)).await?\n  Python:  \
         Client(redis.Redis.from_url(os.environ[\"REDIS_URL\"]))\n  Node:    new Client(new \
         Redis({node}))\n  Go:      redis.ParseURL(os.Getenv(\"REDIS_URL\"))\n  shell:   {cli}"
    )
}
