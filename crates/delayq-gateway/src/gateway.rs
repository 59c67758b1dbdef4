//! Building a gateway, which may fail, and running it until shutdown.

use crate::actions::Recording;
use crate::config::GatewayConfig;
use crate::engine::{Common, Engine};
use crate::lmstfy::{self, Lmstfy, LmstfyConfig};
use crate::looks::Looks;
use crate::metrics::GatewayMetrics;
use crate::processes::Processes;
use crate::routes::answers;
use crate::server::Server;
use crate::spool::SharedSpool;
use crate::tls::Tls;
use delayq::{Admin, Client, Error};
use delayq_look::Deployment;
use delayq_service::{Fault, Metrics, Tasks};
use std::net::SocketAddr;
use std::sync::Arc;

/// The parts that a gateway needs.
pub struct Deps {
    /// The deployment.
    pub deployment: Deployment,
    /// The spool for writes of the deployment that cannot reach Redis, from [`crate::open_spool`]. `None`: such writes fail.
    pub spool: Option<Arc<SharedSpool>>,
    /// The deployments of lmstfy's further pools, by name of the pool: [`LmstfyConfig::clients`].
    pub pools: Vec<(String, Client)>,
    /// The registry for metrics.
    pub metrics: Metrics,
}

/// A gateway that listens, and does not answer yet.
pub struct Gateway {
    address: SocketAddr,
    engine: Engine,
    /// `None`: HTTP without TLS.
    tls: Option<Tls>,
    server: Server,
    /// `None`: lmstfy's API is not served.
    lmstfy: Option<Lmstfy>,
    recording: Recording,
    processes: Processes,
}

/// Creates a gateway and binds the addresses. Redis may be unavailable.
///
/// # Errors
/// An address cannot be bound; or the tokens, the certificate, the key or an account cannot be read.
pub async fn build(config: GatewayConfig, lmstfy: LmstfyConfig, deps: Deps) -> Result<Gateway, Fault> {
    let Deps { deployment, spool, pools, metrics } = deps;
    let listen = config.listen.clone();
    let client = deployment.client().clone();
    let processes = Processes::new(deployment.clone(), &config.processes);
    let mut common = Common::new(config, GatewayMetrics::register(&metrics), Admin::new(client.clone()))?;
    let engine = common.engine(client.clone(), spool.clone());
    let (tls, answers) = (common.tls(), answers(&engine.app, &Looks::new(deployment), &processes));
    let (address, server) = common.server(&listen, tls.clone(), answers).await?;
    let lmstfy = match lmstfy.enabled {
        true => Some(lmstfy::build(&lmstfy, &common, (client, spool), pools).await?),
        false => None,
    };
    let recording = common.recording().expect("it was not taken");
    Ok(Gateway { address, engine, tls, server, lmstfy, recording, processes })
}

// === impl Gateway ===

impl Gateway {
    /// The bound address, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bound addresses of lmstfy's API and its admin API, if they are served.
    #[must_use]
    pub fn lmstfy(&self) -> Option<[SocketAddr; 2]> {
        self.lmstfy.as_ref().map(|lmstfy| lmstfy.addresses)
    }

    /// The address of the page, with a code that logs its first visitor in as the holder of this token.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn one_time_link(&self, token: &str) -> Result<String, Error> {
        let code = self.engine.app.sessions.one_time_code(token)?;
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}/?once={code}", self.address))
    }

    /// Starts the tasks. On shutdown, reserves that wait are answered empty, requests that were taken are answered, and what
    /// reached no client is given back.
    pub fn run(self, tasks: &Tasks) {
        let Self { address, engine, tls, server, lmstfy, recording, processes } = self;
        tracing::info!(%address, tls = tls.is_some(), "gateway listening");
        let shutdown = tasks.shutdown();
        let (app, until) = (engine.app.clone(), shutdown.clone());
        let tokens = app.tokens.clone();
        tasks.spawn("tokens", async move {
            tokens.follow(until).await;
            Ok(())
        });
        let (admin, quotas, until) = (app.unscoped().admin.clone(), app.quotas().clone(), shutdown.clone());
        tasks.spawn("quotas of tenants", async move {
            tokio::join!(quotas.deal(admin.clone(), until.clone()), quotas.count(admin, until));
            Ok(())
        });
        let until = shutdown.clone();
        tasks.spawn("log of actions", async move {
            recording.run(until).await;
            Ok(())
        });
        let until = shutdown.clone();
        tasks.spawn("lateness of the hour", async move {
            processes.run(until).await;
            Ok(())
        });
        if let Some(tls) = tls {
            let until = shutdown.clone();
            tasks.spawn("certificate", async move {
                tls.follow(until).await;
                Ok(())
            });
        }
        let (operations, until) = (app.operations.clone(), shutdown.clone());
        tasks.spawn("operations", async move {
            operations.run(until).await;
            Ok(())
        });
        engine.run(tasks);
        if let Some(lmstfy) = lmstfy {
            lmstfy.run(tasks);
        }
        let until = shutdown.clone();
        tasks.spawn("HTTP", async move {
            let stop = async {
                until.requested().await;
                app.stop();
            };
            tokio::join!(stop, server.run(until.clone()));
            Ok(())
        });
    }
}
