//! Accepting connections: a bounded number at a time, each with a deadline.

use super::slots::Slots;
use crate::codes::ADMIN_BIND;
use crate::config::{AdminConfig, Listen};
use crate::fault::Fault;
use crate::metrics::Metrics;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Pause after an accept that failed for lack of files or memory, to avoid spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits on clients of the endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum concurrent connections, from 1; default 64. A further connection closes the oldest of the address with
    /// the most.
    pub connections: usize,
    /// Maximum lifetime of a connection, from accept to close; default 10 s. Bounds a slow head, an endless body and a
    /// stalled reader alike.
    pub deadline: Duration,
}

/// The endpoint as configured: bound and listening, or off.
#[derive(Debug)]
pub struct Admin(Option<AdminServer>);

#[derive(Debug)]
struct AdminServer {
    listener: TcpListener,
    address: SocketAddr,
    deadline: Duration,
    slots: Slots,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 64, deadline: Duration::from_secs(10) }
    }
}

// === impl Admin ===

impl Admin {
    /// Binds the address, unless the endpoint is off.
    ///
    /// # Errors
    /// [`ADMIN_BIND`] if the address cannot be bound.
    pub async fn bind(config: &AdminConfig, limits: Limits, metrics: &Metrics) -> Result<Self, Fault> {
        let Listen::At(listen) = &config.listen else { return Ok(Self(None)) };
        let refusal = |error| Fault::new(&ADMIN_BIND, format!("cannot listen on {listen}")).because(error);
        let listener = TcpListener::bind((listen.host(), listen.port())).await.map_err(refusal)?;
        let address = listener.local_addr().map_err(refusal)?;
        let help = "Connections to the admin endpoint closed to make room for another";
        let closed = metrics.register("admin_connections_closed", help, Counter::default());
        let help = "Open connections to the admin endpoint";
        let connections = metrics.register("admin_connections", help, Gauge::default());
        let slots = Slots::new(limits.connections, connections, closed);
        Ok(Self(Some(AdminServer { listener, address, deadline: limits.deadline, slots })))
    }

    /// The bound address with the actual port; `None` if the endpoint is off.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.as_ref().map(|server| server.address)
    }

    /// Answers until dropped; if the endpoint is off, waits for ever.
    pub async fn serve(self, router: Router) {
        match self.0 {
            Some(server) => server.serve(router).await,
            None => std::future::pending().await,
        }
    }
}

// === impl AdminServer ===

impl AdminServer {
    async fn serve(self, router: Router) {
        for number in 0.. {
            let (stream, from) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "the admin endpoint cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (router, deadline) = (router.clone(), self.deadline);
            let connection = async move {
                if timeout(deadline, answer(stream, router)).await.is_err() {
                    tracing::debug!(%from, "a connection to the admin endpoint took too long");
                }
            };
            self.slots.occupy(number, from.ip(), connection);
        }
    }
}

/// Answers a single request per connection. Reconnecting costs a scraper less than supervising kept connections would.
async fn answer(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to the admin endpoint ended early");
    }
}
