//! A connection to PostgreSQL that is made again after an error.
//!
//! Statements are sent unnamed and with the types of their parameters, and settings hold for one transaction: so a pooler in
//! the mode `transaction` may stand in between.

use crate::outbox::config::OutboxConfig;
use crate::outbox::store::StoreError;
use crate::outbox::tls;
use delayq_service::config::ExposeSecret as _;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a new connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// After so much silence a dead peer is noticed.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A connection, made when it is needed.
pub(super) struct Connection {
    config: OutboxConfig,
    client: Option<Client>,
}

// === impl Connection ===

impl Connection {
    pub(super) fn new(config: OutboxConfig) -> Self {
        Self { config, client: None }
    }

    /// Whether it is there.
    pub(super) fn is_open(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.is_closed())
    }

    /// The client, of a new connection if there is none.
    pub(super) async fn open(&mut self) -> Result<&Client, StoreError> {
        if !self.is_open() {
            let (client, messages) = connect(&self.config).await?;
            tokio::spawn(drive(messages));
            self.client = Some(client);
        }
        Ok(self.client.as_ref().expect("it was made where there was none"))
    }

    /// The client of the present connection.
    pub(super) fn client(&self) -> Option<&Client> {
        self.client.as_ref().filter(|client| !client.is_closed())
    }

    /// Drops it: the server rolls back what was under way.
    pub(super) fn close(&mut self) {
        self.client = None;
    }
}

/// The messages of a connection, which has to be polled for its client to be answered.
pub(super) type Messages =
    Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

/// A client, and the messages of its connection.
pub(super) async fn connect(config: &OutboxConfig) -> Result<(Client, Messages), StoreError> {
    let settings = settings(config).map_err(StoreError::Unfit)?;
    let connecting = async {
        if config.tls {
            let tls = tls::client(config.pem_files()).map_err(StoreError::Unfit)?;
            let made = settings.connect(MakeRustlsConnect::new(tls)).await.map_err(|error| failed(&error))?;
            Ok((made.0, messages(made.1)))
        } else {
            let made = settings.connect(NoTls).await.map_err(|error| failed(&error))?;
            Ok((made.0, messages(made.1)))
        }
    };
    let timed_out = |_| StoreError::Unreachable(format!("no connection within {CONNECT:?}"));
    tokio::time::timeout(CONNECT, connecting).await.map_err(timed_out)?
}

fn messages<S, T>(mut link: tokio_postgres::Connection<S, T>) -> Messages
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::new(move |context| link.poll_message(context))
}

/// Drives a connection until it ends; its error reaches the caller that waits for an answer.
async fn drive(mut messages: Messages) {
    while let Some(message) = poll_fn(&mut messages).await {
        if let Err(error) = message {
            tracing::debug!(%error, "the connection to the database of the outbox ended");
            return;
        }
    }
}

/// How to connect.
///
/// # Errors
/// A sentence without the URL, which may hold a password.
pub(in crate::outbox) fn settings(config: &OutboxConfig) -> Result<Config, String> {
    let url = config.url.as_ref().ok_or("`[outbox] url` is unset")?.reveal()?;
    let mut settings: Config =
        url.expose_secret().parse().map_err(|_| "`[outbox] url` is not a URL of PostgreSQL")?;
    if settings.get_ssl_mode() != SslMode::Prefer {
        return Err("`[outbox] url` has `sslmode`; set `tls` instead".to_owned());
    }
    settings.ssl_mode(if config.tls { SslMode::Require } else { SslMode::Disable });
    if let Some(password) = &config.password {
        if settings.get_password().is_some() {
            return Err("`[outbox] url` holds a password too; keep one of the two".to_owned());
        }
        settings.password(password.reveal()?.expose_secret());
    }
    settings.application_name("delayq").connect_timeout(CONNECT);
    settings.keepalives_idle(KEEPALIVE).tcp_user_timeout(2 * KEEPALIVE);
    Ok(settings)
}

/// What an error of the client means.
pub(in crate::outbox) fn failed(error: &tokio_postgres::Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map_or(String::new(), |cause| format!(": {cause}"));
        return StoreError::Unreachable(format!("{error}{cause}"));
    };
    let said = format!("{} ({})", refusal.message(), refusal.code().code());
    match refusal.code() {
        code if [
            &SqlState::UNDEFINED_TABLE,
            &SqlState::INVALID_SCHEMA_NAME,
            &SqlState::UNDEFINED_FUNCTION,
        ]
        .contains(&code) =>
        {
            StoreError::Unfit(format!("there is no outbox: {said}; see delayq outbox init"))
        }
        // Classes of failures that pass: connection, resources, intervention of an operator, and the server's start and end.
        code if ["08", "53", "57", "58"].iter().any(|class| code.code().starts_with(class)) => {
            StoreError::Unreachable(said)
        }
        _ => StoreError::Refused(said),
    }
}
