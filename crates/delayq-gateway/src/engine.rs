//! Engines: each serves the messages of one deployment. All engines of a process share the room for bodies, the places of waiting
//! requests, and the tokens.

use crate::actions::{Actions, Recording};
use crate::codes::{BIND, RECEIPT_KEY};
use crate::config::GatewayConfig;
use crate::dispatch::{Dispatcher, GivingBack, ReserveTask};
use crate::metrics::GatewayMetrics;
use crate::oidc::Oidc;
use crate::quotas::TenantQuotas;
use crate::receipts::Receipts;
use crate::server::{Answers, Server};
use crate::shown::Shown;
use crate::spool::SharedSpool;
use crate::state::{App, AppSettings, Unscoped};
use crate::tenants::Tenants;
use crate::tls::Tls;
use crate::tokens::Tokens;
use delayq::protocol::Holder;
use delayq::spool::Spool;
use delayq::{Admin, Client, Producer, ProducerOptions};
use delayq_service::config::HostPort;
use delayq_service::{Fault, Tasks};
use secrecy::ExposeSecret as _;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

/// Minimum characters of a configured key of receipts.
const MIN_KEY: usize = 16;

pub(crate) struct Common {
    config: GatewayConfig,
    key: Option<Arc<[u8]>>,
    tokens: Tokens,
    oidc: Option<Oidc>,
    tls: Option<Tls>,
    quotas: TenantQuotas,
    actions: Actions,
    recording: Option<Recording>,
    metrics: GatewayMetrics,
    room: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

pub(crate) struct Engine {
    pub(crate) app: App,
    running: ReserveTask,
    giving_back: GivingBack,
}

// === impl Common ===

impl Common {
    pub(crate) fn new(config: GatewayConfig, metrics: GatewayMetrics, admin: Admin) -> Result<Self, Fault> {
        let tenants = Tenants::new(admin.clone());
        let (actions, recording) = Actions::new(admin, config.actions, metrics.clone());
        let (max_bytes, max_polls) = (config.max_bytes.as_usize(), config.max_polls as usize);
        Ok(Self {
            key: key(&config)?,
            tokens: Tokens::read(config.tokens.as_deref(), tenants.clone())?,
            oidc: config.oidc.as_ref().map(Oidc::new).transpose()?,
            tls: Tls::read(&config)?,
            quotas: TenantQuotas::new(tenants, metrics.clone(), &config),
            actions,
            recording: Some(recording),
            metrics,
            room: Arc::new(Semaphore::new(max_bytes)),
            places: Arc::new(Semaphore::new(max_polls)),
            config,
        })
    }

    /// Without a spool, writes that cannot reach Redis fail.
    pub(crate) fn engine(&self, client: Client, spool: Option<Arc<SharedSpool>>) -> Engine {
        let admin = Admin::new(client.clone());
        let receipts = Receipts::new(admin.clone(), self.key.clone());
        let (dispatcher, arriving) = Dispatcher::new(Arc::clone(&self.places));
        let (back, lost) = mpsc::unbounded_channel();
        // On a separate connection: a reserve waits neither behind settlements nor behind puts.
        let running =
            ReserveTask { holder: Holder::new(client.apart()), receipts: receipts.clone(), arriving, back };
        let holder = Holder::new(client.clone());
        let giving_back = GivingBack { holder: holder.clone(), lost, metrics: self.metrics.clone() };
        let settings = AppSettings {
            tokens: self.tokens.clone(),
            oidc: self.oidc.clone(),
            quotas: self.quotas.clone(),
            actions: self.actions.clone(),
            metrics: self.metrics.clone(),
            room: Arc::clone(&self.room),
            body_timeout: *self.config.body_timeout,
            lease: *self.config.lease,
            is_local: self.config.is_local(),
            shown: Shown::new(&self.config.shown),
        };
        let mut options = ProducerOptions::default();
        options.spool = spool.clone().map(|spool| spool as Arc<dyn Spool>);
        let producer = Producer::start(client, options);
        let app = App::new(settings, Unscoped { producer, spool, admin, holder, dispatcher, receipts });
        Engine { app, running, giving_back }
    }

    /// Writes the log of actions; `None` from the second call on.
    pub(crate) fn recording(&mut self) -> Option<Recording> {
        self.recording.take()
    }

    /// TLS of the gateway's own address; `None`: HTTP without TLS.
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.tls.clone()
    }

    /// [`BIND`]: the address cannot be bound.
    pub(crate) async fn server(
        &self,
        listen: &HostPort,
        tls: Option<Tls>,
        answers: Answers,
    ) -> Result<(SocketAddr, Server), Fault> {
        let refusal = |error| Fault::new(&BIND, format!("cannot listen on {listen}")).because(error);
        let listener = TcpListener::bind((listen.host(), listen.port())).await.map_err(refusal)?;
        let address = listener.local_addr().map_err(refusal)?;
        Ok((address, Server::new(listener, tls, answers, &self.config, self.metrics.clone())))
    }
}

fn key(config: &GatewayConfig) -> Result<Option<Arc<[u8]>>, Fault> {
    let Some(secret) = &config.receipt_key else { return Ok(None) };
    let fault = |why| Fault::new(&RECEIPT_KEY, why);
    let key = secret.reveal().map_err(fault)?;
    match key.expose_secret() {
        key if key.len() < MIN_KEY => Err(fault(format!("the key has fewer than {MIN_KEY} characters"))),
        key => Ok(Some(key.as_bytes().into())),
    }
}

// === impl Engine ===

impl Engine {
    /// Also gives back messages that reached no client.
    pub(crate) fn run(self, tasks: &Tasks) {
        let Self { app: _, running, giving_back } = self;
        let until = tasks.shutdown().clone();
        tasks.spawn("reserving", async move {
            running.run(until).await;
            Ok(())
        });
        tasks.spawn("giving back", async move {
            giving_back.run().await;
            Ok(())
        });
    }
}
