//! The connection to one etcd member at a time, replaced by the next endpoint after a missing answer.

use crate::config::{Endpoint, EtcdConfig};
use crate::error::ClusterError;
use crate::stats::Counters;
use delayq::protocol::DeploymentId;
use delayq_service::config::{ExposeSecret, Login};
use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

/// Interval between two probes of a connection with an open stream; etcd closes connections that are probed more often
/// than every 5 s.
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBE_DEADLINE: Duration = Duration::from_secs(3);

// gRPC's status codes, by number: the client passes them through without naming their type.
const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const OUT_OF_RANGE: i32 = 11;
const UNAUTHENTICATED: i32 = 16;

/// The reason why a request has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EtcdError {
    /// No answer, or an answer of a cluster without a leader. The request may have been executed.
    #[error("{0}")]
    Silent(String),
    #[error("the lease expired at once")]
    LeaseGone,
    /// The requested revision no longer exists: read again.
    #[error("the history was compacted")]
    Compacted,
    /// The user may not do this, or is unknown.
    #[error("{0}")]
    Refused(String),
    /// The fleet belongs to another deployment.
    #[error("the fleet is that of deployment {recorded}, not of {mine}")]
    Foreign {
        /// The beginning of the fleet's keys.
        base: String,
        recorded: DeploymentId,
        mine: DeploymentId,
    },
    /// etcd takes no writes for now, for example with a full database: every member of etcd answers the same.
    #[error("{0}")]
    Exhausted(String),
}

/// A connection that switches endpoints by itself. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EtcdLink {
    shared: Arc<Shared>,
}

struct Shared {
    config: EtcdConfig,
    options: ConnectOptions,
    current: Mutex<Current>,
    /// Rises whenever a connection is given up.
    turns: watch::Sender<u64>,
    /// The last request had no answer: only the first failure of a row is worth a warning.
    failing: AtomicBool,
    /// The reason why etcd takes no writes, though etcd answers.
    refusal: watch::Sender<Option<String>>,
    counters: Arc<Counters>,
}

struct Current {
    client: Option<Client>,
    endpoint: usize,
}

// === impl EtcdError ===

impl EtcdError {
    pub(super) fn of(error: &Error) -> Self {
        let Error::GRpcStatus(status) = error else { return Self::Silent(error.to_string()) };
        match i32::from(status.code()) {
            NOT_FOUND => Self::LeaseGone,
            OUT_OF_RANGE => Self::Compacted,
            PERMISSION_DENIED | UNAUTHENTICATED => Self::Refused(status.message().to_owned()),
            RESOURCE_EXHAUSTED => Self::Exhausted(status.message().to_owned()),
            _ if is_authentication(status.message()) => Self::Refused(status.message().to_owned()),
            _ => Self::Silent(with_root_cause(status.message(), status)),
        }
    }

    pub(crate) fn to_error(&self, config: &EtcdConfig, waited: Duration) -> ClusterError {
        match self {
            Self::Refused(cause) => {
                let user = config.login.username.as_deref().unwrap_or("none");
                ClusterError::Refused(format!("{cause} (user {user}, keys below {})", config.prefix))
            }
            Self::Exhausted(cause) => ClusterError::Exhausted(cause.clone()),
            Self::Foreign { base, recorded, mine } => {
                ClusterError::Foreign { base: base.clone(), recorded: *recorded, mine: *mine }
            }
            cause => {
                let cause = config.explain(cause.to_string());
                ClusterError::Unreachable { endpoints: config.addresses(), waited, cause }
            }
        }
    }
}

/// etcd answers a wrong password with *invalid argument*, the code of any other fault in a request.
fn is_authentication(message: &str) -> bool {
    message.contains("authentication failed") || message.contains("user name is empty")
}

/// Adds the root cause to an error's message: a failed connection's own message omits the cause.
fn with_root_cause(message: &str, error: &dyn std::error::Error) -> String {
    match std::iter::successors(error.source(), |cause| cause.source()).last() {
        Some(root) if root.to_string() != message => format!("{message}: {root}"),
        _ => message.to_owned(),
    }
}

// === impl EtcdLink ===

impl EtcdLink {
    pub(crate) fn new(config: EtcdConfig, counters: Arc<Counters>) -> Result<Self, ClusterError> {
        // A second installation is refused, and the first stays in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = options(&config)?;
        let endpoint = fastrand::usize(..config.endpoints.len());
        let current = Mutex::new(Current { client: None, endpoint });
        let (turns, _) = watch::channel(0);
        Ok(Self {
            shared: Arc::new(Shared {
                config,
                options,
                current,
                turns,
                failing: AtomicBool::new(false),
                refusal: watch::Sender::new(None),
                counters,
            }),
        })
    }

    pub(crate) fn config(&self) -> &EtcdConfig {
        &self.shared.config
    }

    /// Streams of the old connection must be opened again.
    pub(crate) fn turns(&self) -> watch::Receiver<u64> {
        self.shared.turns.subscribe()
    }

    /// Does nothing if another task turned away since `turn`.
    pub(crate) async fn turn_away(&self, turn: u64, cause: &EtcdError) {
        let mut current = self.shared.current.lock().await;
        if *self.shared.turns.borrow() != turn {
            return;
        }
        let endpoints = &self.shared.config.endpoints;
        let endpoint = endpoints[current.endpoint].as_str();
        if self.shared.failing.swap(true, Ordering::Relaxed) {
            tracing::debug!(endpoint, %cause, "still no valid reply from etcd");
        } else {
            tracing::warn!(
                endpoint,
                %cause,
                "no valid reply from etcd: trying each endpoint in turn"
            );
        }
        current.client = None;
        current.endpoint = (current.endpoint + 1) % endpoints.len();
        self.shared.counters.count(|stats| stats.reconnects += 1);
        self.shared.turns.send_modify(|turn| *turn += 1);
    }

    pub(crate) fn turn(&self) -> u64 {
        *self.shared.turns.borrow()
    }

    /// A connection without an answer is given up.
    pub(super) async fn ask<T, F>(&self, request: impl FnOnce(Client) -> F) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let turn = self.turn();
        let answer = async { request(self.client().await?).await.map_err(|e| EtcdError::of(&e)) };
        let deadline = *self.shared.config.call_deadline;
        self.count_request();
        let answer = timeout(deadline, answer)
            .await
            .unwrap_or_else(|_| Err(EtcdError::Silent(format!("no reply within {deadline:?}"))));
        match &answer {
            Err(error @ (EtcdError::Silent(_) | EtcdError::Refused(_))) => self.turn_away(turn, error).await,
            Err(EtcdError::Exhausted(cause)) if self.refusal().is_none() => self.note_refusal(cause),
            _ => {}
        }
        if answer.is_ok() && self.shared.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("etcd answers again");
        }
        answer
    }

    /// `None` while etcd takes writes, as far as is known.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.shared.refusal.borrow().clone()
    }

    pub(super) fn note_refusal(&self, cause: &str) {
        let before = self.shared.refusal.send_replace(Some(cause.to_owned()));
        if before.is_none() {
            tracing::error!(
                cause,
                "etcd accepts no writes: until an operator frees space, plans do not change and timers \
                 cannot join"
            );
        }
    }

    /// Records that a write was taken, or that no alarm was found.
    pub(super) fn note_write(&self) {
        if self.refusal().is_some() && self.shared.refusal.send_replace(None).is_some() {
            tracing::info!("etcd accepts writes again");
        }
    }

    pub(super) fn count_request(&self) {
        self.shared.counters.count(|stats| stats.requests += 1);
    }

    pub(super) async fn client(&self) -> Result<Client, EtcdError> {
        let mut current = self.shared.current.lock().await;
        if let Some(client) = &current.client {
            return Ok(client.clone());
        }
        let endpoint = &self.shared.config.endpoints[current.endpoint];
        let client = self.connect(endpoint).await?;
        current.client = Some(client.clone());
        Ok(client)
    }

    /// With the present password; the caller keeps the deadline.
    pub(super) async fn connect(&self, endpoint: &Endpoint) -> Result<Client, EtcdError> {
        let mut options = self.shared.options.clone();
        let Login { username, password } = &self.shared.config.login;
        if let (Some(user), Some(password)) = (username, password) {
            // A password file that is being replaced counts as silence: the file is back a moment later.
            let password = password.reveal().map_err(EtcdError::Silent)?;
            options = options.with_user(user, password.expose_secret());
        }
        Client::connect([endpoint.as_str()], Some(options)).await.map_err(|e| EtcdError::of(&e))
    }
}

fn options(config: &EtcdConfig) -> Result<ConnectOptions, ClusterError> {
    let mut options = ConnectOptions::new()
        .with_require_leader(true)
        .with_auto_token_refresh(true)
        .with_connect_timeout(*config.call_deadline)
        .with_keep_alive(PROBE_EVERY, PROBE_DEADLINE)
        .with_keep_alive_while_idle(false);
    if config.is_tls() {
        options = options.with_tls(tls(config)?);
    }
    Ok(options)
}

fn tls(config: &EtcdConfig) -> Result<TlsOptions, ClusterError> {
    let mut options = match &config.files.ca {
        Some(file) => TlsOptions::new().ca_certificate(Certificate::from_pem(read_pem(file)?)),
        None => TlsOptions::new().with_native_roots(),
    };
    if let Some(name) = &config.server_name {
        options = options.domain_name(name);
    }
    if let (Some(certificate), Some(key)) = (&config.files.cert, &config.files.key) {
        options = options.identity(Identity::from_pem(read_pem(certificate)?, read_pem(key)?));
    }
    Ok(options)
}

fn read_pem(file: &Path) -> Result<Vec<u8>, ClusterError> {
    delayq_service::config::read_pem(file).map_err(ClusterError::Tls)
}
