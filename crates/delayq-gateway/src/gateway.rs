//! Building a gateway, which may fail, and running it until shutdown.

use crate::codes::{BIND, RECEIPT_KEY};
use crate::config::GatewayConfig;
use crate::dispatch::{Dispatcher, GivingBack, Running};
use crate::metrics::GatewayMetrics;
use crate::receipts::Receipts;
use crate::routes::router;
use crate::server::Server;
use crate::state::{App, Parts};
use crate::tokens::Tokens;
use delayq::protocol::Holder;
use delayq::{Admin, Client, Producer, ProducerOptions};
use delayq_service::{Fault, Metrics, Tasks};
use secrecy::ExposeSecret as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

/// Minimum characters of a configured key of receipts.
const MIN_KEY: usize = 16;

/// The parts that a gateway needs.
pub struct Deps {
    /// The deployment.
    pub client: Client,
    /// The registry for metrics.
    pub metrics: Metrics,
}

/// A gateway that listens, and does not answer yet.
pub struct Gateway {
    address: SocketAddr,
    app: App,
    server: Server,
    running: Running,
    giving_back: GivingBack,
}

/// Creates a gateway and binds the address. Redis may be unavailable.
///
/// # Errors
/// The address cannot be bound, or the tokens or the key cannot be read.
pub async fn build(config: GatewayConfig, deps: Deps) -> Result<Gateway, Fault> {
    let Deps { client, metrics } = deps;
    let metrics = GatewayMetrics::register(&metrics);
    let tokens = Tokens::read(config.tokens.as_deref())?;
    let admin = Admin::new(client.clone());
    let receipts = Receipts::new(admin.clone(), key(&config)?);
    let (dispatcher, arriving) = Dispatcher::new(config.max_polls);
    let (back, lost) = mpsc::unbounded_channel();
    // On a separate connection: a reserve waits neither behind settlements nor behind puts.
    let running = Running { holder: Holder::new(client.apart()), receipts: receipts.clone(), arriving, back };
    let holder = Holder::new(client.clone());
    let giving_back = GivingBack { holder: holder.clone(), lost, metrics: metrics.clone() };
    let app = App::new(Parts {
        producer: Producer::start(client, ProducerOptions::default()),
        admin,
        holder,
        dispatcher,
        receipts,
        tokens,
        metrics: metrics.clone(),
        room: Arc::new(Semaphore::new(config.max_bytes.as_usize())),
        body_timeout: *config.body_timeout,
        lease: *config.lease,
        is_local: config.is_local(),
        stopping: AtomicBool::new(false),
    });
    let listen = &config.listen;
    let refusal = |error| Fault::new(&BIND, format!("cannot listen on {listen}")).because(error);
    let listener = TcpListener::bind((listen.host(), listen.port())).await.map_err(refusal)?;
    let address = listener.local_addr().map_err(refusal)?;
    let server = Server::new(listener, router(&app), &config, metrics);
    Ok(Gateway { address, app, server, running, giving_back })
}

/// The configured key of receipts.
fn key(config: &GatewayConfig) -> Result<Option<Arc<[u8]>>, Fault> {
    let Some(secret) = &config.receipt_key else { return Ok(None) };
    let fault = |why| Fault::new(&RECEIPT_KEY, why);
    let key = secret.reveal().map_err(fault)?;
    match key.expose_secret() {
        key if key.len() < MIN_KEY => Err(fault(format!("it has fewer than {MIN_KEY} characters"))),
        key => Ok(Some(key.as_bytes().into())),
    }
}

// === impl Gateway ===

impl Gateway {
    /// The bound address, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the tasks. On shutdown, reserves that wait are answered empty, requests that were taken are answered, and what
    /// reached no client is given back.
    pub fn run(self, tasks: &Tasks) {
        let Self { address, app, server, running, giving_back } = self;
        tracing::info!(%address, "gateway listening");
        let shutdown = tasks.shutdown();
        let (tokens, until) = (app.tokens.clone(), shutdown.clone());
        tasks.spawn("tokens", async move {
            tokens.follow(until).await;
            Ok(())
        });
        let until = shutdown.clone();
        tasks.spawn("reserving", async move {
            running.run(until).await;
            Ok(())
        });
        tasks.spawn("giving back", async move {
            giving_back.run().await;
            Ok(())
        });
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
