//! The roles of a deployment in a single process: timer, forwarder, compensator and gateway, each from a separate
//! library.

use super::servers::Servers;
use delayq_cluster::advertised;
use delayq_compensator::{CompensatorConfig, IntakeConfig, Sources, SourcesConfig, SourcesDeps};
use delayq_forwarder::{Config as ForwarderConfig, Forwarder, Settings as ForwarderSettings};
use delayq_gateway::{Gateway, GatewayConfig, LmstfyConfig, SharedSpool};
use delayq_look::Deployment;
use delayq_service::config::{Environment, Loaded, Source, SpoolConfig, load};
use delayq_service::deployment::client;
use delayq_service::traces::{self, Exporter};
use delayq_service::{Fault, Process, Tasks, codes, configuration};
use delayq_timer::{Membership, SweepConfig, Timer, TimerConfig, stores};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

configuration! {
    /// The sections of timer, compensator and gateway, in addition to the sections of the command line.
    struct RoleSections {
        timer: TimerConfig,
        sweep: SweepConfig,
        compensator: CompensatorConfig,
        intake: BTreeMap<String, IntakeConfig>,
        gateway: GatewayConfig,
        lmstfy: LmstfyConfig,
    }
}

/// The roles, built and not yet running.
pub struct Roles {
    timer: Timer,
    /// `None` if nothing is to be forwarded.
    forwarder: Option<Forwarder>,
    /// `None` without a trace collector.
    exporter: Option<Exporter>,
    sources: Sources,
    gateway: Gateway,
}

// === impl Roles ===

impl Roles {
    /// Builds all roles from the configuration that was written into the folder.
    ///
    /// # Errors
    /// A role cannot be built.
    pub async fn build(text: &str, servers: &Servers, process: &Process) -> Result<Self, Fault> {
        let source = Source::text("delayq.toml", text);
        let RoleSections { timer, sweep, compensator, intake, gateway, lmstfy } =
            load::<RoleSections>(&source, &Environment::empty())?.config;
        let Loaded { config: forwarder, locations, .. } =
            load::<ForwarderConfig>(&source, &Environment::empty())?;
        let config = &servers.config;
        let membership = match config.etcd.enabled {
            // The folder is locked: the owner of this name is this process or a process that has ended.
            false => Membership::Single { owner: timer.effective_name() },
            true => {
                let address = advertised(&forwarder.admin, process.admin, &config.etcd).await;
                stores::membership(&timer, &config.deployment, &config.etcd, address)
            }
        };
        let (metrics, readiness) = (process.metrics.clone(), process.readiness.clone());
        // Each role has a separate connection, as in separate processes: a slow call of a role does not hold up another
        // role.
        let timer_deps = delayq_timer::Deps {
            client: client(&servers.config.deployment, &servers.config.redis)?,
            metrics: metrics.clone(),
            readiness: readiness.clone(),
            membership,
            sweep,
        };
        let timer = delayq_timer::build(timer, timer_deps).await?;
        let sources = SourcesConfig {
            spool: config.spool.folder().map(Path::to_owned),
            compensator,
            outbox: config.outbox.clone(),
            intake,
        };
        let deps = SourcesDeps {
            client: client(&servers.config.deployment, &servers.config.redis)?,
            holder: format!("{}, process {}", process.program, std::process::id()),
            metrics: metrics.clone(),
            readiness: readiness.clone(),
        };
        // A source that cannot be used stops neither the other sources nor another role.
        let sources = Sources::build(sources, deps, false).await?;
        let deps = delayq_gateway::Deps {
            deployment: Deployment::new(
                client(&servers.config.deployment, &servers.config.redis)?,
                &servers.config.deployment,
                &servers.config.etcd,
            ),
            spool: gateway_spool(&config.spool),
            pools: lmstfy.clients(|deployment| client(deployment, &servers.config.redis))?,
            metrics: metrics.clone(),
        };
        let gateway = delayq_gateway::build(gateway, lmstfy, deps).await?;
        let settings = ForwarderSettings { locations, ..forwarder.settings() };
        let mut exporter = None;
        let forwarder = match settings.routes.is_empty() {
            true => None,
            false => {
                let (traces, opened) =
                    traces::open(&forwarder.traces, process, &delayq_service::name_of_process())?;
                exporter = opened;
                let deps = delayq_forwarder::Deps {
                    client: client(&servers.config.deployment, &servers.config.redis)?,
                    redis: config.redis.clone(),
                    metrics,
                    readiness,
                    traces,
                };
                Some(delayq_forwarder::build(settings, deps).await?)
            }
        };
        Ok(Self { timer, forwarder, exporter, sources, gateway })
    }

    /// The URL of the gateway.
    pub fn gateway_url(&self) -> String {
        format!("http://{}", self.gateway.address())
    }

    /// The address of the gateway's page; with this token, a link that logs the first visitor in.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn page_url(&self, token: Option<&str>) -> Result<String, Fault> {
        let link = |token| self.gateway.one_time_link(token);
        let link = token.map_or_else(|| Ok(self.gateway_url()), link);
        link.map_err(|error| Fault::new(&codes::SYSTEM, "cannot make a link to the page").because(error))
    }

    /// Starts the roles.
    pub fn run(self, tasks: &Tasks) {
        tasks.spawn("timer", self.timer.run(tasks.shutdown().clone()));
        if let Some(forwarder) = self.forwarder {
            tasks.spawn("forwarder", forwarder.run(tasks.shutdown().clone()));
        }
        if let Some(exporter) = self.exporter {
            tasks.spawn("traces", exporter.run());
        }
        self.sources.run(tasks);
        self.gateway.run(tasks);
    }
}

/// A spool that cannot be used does not stop the gateway: as a source, the spool makes the process unready.
fn gateway_spool(config: &SpoolConfig) -> Option<Arc<SharedSpool>> {
    delayq_gateway::open_spool(config).unwrap_or_else(|fault| {
        tracing::error!("the gateway runs without the spool: {fault}");
        None
    })
}
