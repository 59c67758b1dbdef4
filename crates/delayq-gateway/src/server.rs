//! Accepting connections: a bounded number, each with deadlines that no client can hold open.
//!
//! | a client that | is closed after |
//! | --- | --- |
//! | is silent, or drips its handshake or its head | `header_timeout` |
//! | sends a head of more than 64 KiB, sometimes of more than 32 KiB, or 100 headers | the answer 431 |
//! | leaves an answer unread | `write_timeout` |
//!
//! `axum::serve` and hyper-util's automatic builder never close a silent connection, because their timers start once the
//! version of HTTP is known.

mod onward;
mod outgoing;
mod peer;
mod seat;
mod socket;

pub(crate) use onward::{Onward, Terms};
pub(crate) use outgoing::{Enclosure, Outgoing};
pub(crate) use peer::Peer;
pub(crate) use seat::Seat;

use crate::config::GatewayConfig;
use crate::metrics::GatewayMetrics;
use crate::tls::Tls;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use delayq_service::Shutdown;
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use outgoing::Reporting;
use socket::Socket;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Pause after an accept that failed for lack of files or memory, to avoid spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a head after which no more is read of one that has not ended. The last read may double the size.
const MAX_HEAD: usize = 32 * 1024;

const NO_PLACE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\
                          Connection: close\r\n\r\n";

/// Answers requests.
pub(crate) type Answers = Arc<dyn Fn(Request) -> Answering + Send + Sync>;
/// Boxed: hyper keeps room for the answer's future from the start, and an idle connection needs none.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

pub(crate) struct Server {
    listener: TcpListener,
    /// `None`: HTTP without TLS.
    tls: Option<Tls>,
    answers: Answers,
    places: Arc<Semaphore>,
    header_timeout: Duration,
    write_timeout: Duration,
    metrics: GatewayMetrics,
}

// === impl Server ===

impl Server {
    pub(crate) fn new(
        listener: TcpListener,
        tls: Option<Tls>,
        answers: Answers,
        config: &GatewayConfig,
        metrics: GatewayMetrics,
    ) -> Self {
        Self {
            listener,
            tls,
            answers,
            places: Arc::new(Semaphore::new(config.max_connections as usize)),
            header_timeout: *config.header_timeout,
            write_timeout: *config.write_timeout,
            metrics,
        }
    }

    /// After shutdown, until every request that was taken is answered.
    pub(crate) async fn run(self, shutdown: Shutdown) {
        let mut connections = JoinSet::new();
        while let Some(accepted) = shutdown.or(self.listener.accept()).await {
            while connections.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => self.take(stream, &mut connections, &shutdown),
                Err(error) => {
                    tracing::warn!(%error, "the gateway cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        // The port is free for the next process while the last answers are written.
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }

    fn take(&self, stream: TcpStream, connections: &mut JoinSet<()>, shutdown: &Shutdown) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.metrics.connection_refused();
            // Bytes beyond the buffer of the socket are not worth a wait.
            let _ = stream.try_write(NO_PLACE);
            return;
        };
        // An answer is a single write: there is nothing to gather.
        let _ = stream.set_nodelay(true);
        let counted = (place, self.metrics.connection_opened());
        connections.spawn(self.serve(stream, shutdown.clone(), counted));
    }

    /// TLS has a future of its own: its state takes kilobytes, which a connection without TLS would take, too.
    fn serve<C: Send>(
        &self,
        stream: TcpStream,
        shutdown: Shutdown,
        counted: C,
    ) -> impl Future<Output = ()> + Send + use<C> {
        let stream = Arc::new(stream);
        let peer = Peer::of(&stream);
        let socket = Socket::new(stream, self.write_timeout);
        let (answers, header_timeout) = (Arc::clone(&self.answers), self.header_timeout);
        let (tls, metrics) = (self.tls.as_ref().map(Tls::acceptor), self.metrics.clone());
        let secured = tls.map(|acceptor| (acceptor, metrics));
        async move {
            match secured {
                None => serve(socket, answers, peer, header_timeout, &shutdown).await,
                Some((acceptor, metrics)) => {
                    let handshake = tokio::time::timeout(header_timeout, acceptor.accept(socket));
                    let Some(shaken) = shutdown.or(Box::pin(handshake)).await else { return };
                    match shaken {
                        Ok(Ok(stream)) => {
                            Box::pin(serve(Box::new(stream), answers, peer, header_timeout, &shutdown)).await;
                        }
                        Ok(Err(error)) => {
                            tracing::debug!(%error, "a TLS handshake failed");
                            metrics.handshake_failed();
                        }
                        Err(_) => metrics.handshake_failed(),
                    }
                }
            }
            drop(counted);
        }
    }
}

/// Serves the requests of a connection, and the rest after a switch of the protocol.
async fn serve(
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answers: Answers,
    peer: Peer,
    header_timeout: Duration,
    shutdown: &Shutdown,
) {
    let (seat, onward) = (Seat::default(), Onward::default());
    let noted = (peer, seat.clone(), onward.clone());
    requests(connection, answers, noted, header_timeout, shutdown).await;
    onward.follow(Terms { shutdown: shutdown.clone(), silence: header_timeout }).await;
    drop(seat);
}

async fn requests(
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answers: Answers,
    (peer, seat, onward): (Peer, Seat, Onward),
    header_timeout: Duration,
    shutdown: &Shutdown,
) {
    let outgoing = Outgoing::default();
    let connection = Reporting::new(connection, outgoing.clone());
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(outgoing.clone());
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(seat.clone());
        request.extensions_mut().insert(onward.clone());
        answers(request).map(Ok::<_, Infallible>)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(connection), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.requested() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
