//! Accepting: a limit of connections, and a deadline for each part of each request.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};

use crate::codes::ADMIN_BIND;
use crate::config::{AdminConfig, Listen};
use crate::fault::Fault;
use crate::metrics::Metrics;

use super::connection::Idling;
use super::places::Places;

/// How long to wait after an accept that failed for want of files or memory, instead of spinning on it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The endpoint as configured: bound and listening, or off.
#[derive(Debug)]
pub struct Admin(Option<AdminServer>);

/// A bound endpoint that has not begun to answer.
#[derive(Debug)]
pub struct AdminServer {
    listener: TcpListener,
    address: SocketAddr,
    config: AdminConfig,
    places: Places,
}

// === impl Admin ===

impl Admin {
    /// Binds the address, if there is one.
    ///
    /// # Errors
    /// [`ADMIN_BIND`] if the address cannot be had.
    pub async fn bind(config: &AdminConfig, metrics: &Metrics) -> Result<Self, Fault> {
        let Listen::At(listen) = &config.listen else { return Ok(Self(None)) };
        let refusal = |error| Fault::new(&ADMIN_BIND, format!("cannot listen on {listen}")).because(error);
        let listener = TcpListener::bind((listen.host(), listen.port())).await.map_err(refusal)?;
        let address = listener.local_addr().map_err(refusal)?;
        let help = "Connections to the admin endpoint closed to make room for another.";
        let closed = metrics.register("admin_connections_closed", help, Counter::default());
        let help = "Connections to the admin endpoint that are open.";
        let connections = metrics.register("admin_connections", help, Gauge::default());
        let places = Places::new(config.max_connections.get() as usize, connections, closed);
        Ok(Self(Some(AdminServer { listener, address, config: config.clone(), places })))
    }

    /// Where it listens, with the port it was given; `None` if it is off.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.as_ref().map(|server| server.address)
    }

    /// Answers until it is dropped; if it is off, waits for ever.
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
        let router = bounded(router, &self.config);
        for number in 0.. {
            let (stream, from) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "the admin endpoint cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            self.places.take(number, from.ip(), answer(stream, router.clone(), self.config.clone()));
        }
    }
}

/// Answers the requests of one connection until it closes or a limit closes it.
async fn answer(stream: TcpStream, router: Router, config: AdminConfig) {
    let stream = TokioIo::new(Idling::new(stream, *config.idle_timeout));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(*config.header_timeout)
        .serve_connection(stream, TowerToHyperService::new(router));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to the admin endpoint ended early");
    }
}

/// Every request has its whole body before a handler runs, within a deadline and a size.
fn bounded(router: Router, config: &AdminConfig) -> Router {
    let (deadline, max_bytes) = (*config.body_timeout, config.max_body.as_usize());
    router
        .layer(middleware::from_fn(move |request, next| with_whole_body(request, next, deadline, max_bytes)))
}

async fn with_whole_body(request: Request, next: Next, deadline: Duration, max_bytes: usize) -> Response {
    let (head, body) = request.into_parts();
    match tokio::time::timeout(deadline, to_bytes(body, max_bytes)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}
