//! A connection to PostgreSQL that is made again after an error.
//!
//! Statements are sent unnamed and with parameter types, and settings last for a transaction: so a pooler in the mode
//! `transaction` may stand in between.

use crate::outbox::config::OutboxConfig;
use crate::outbox::store::{SLOW, StoreError, within};
use crate::outbox::{parameters, tls};
use delayq_service::config::ExposeSecret as _;
use futures_util::StreamExt as _;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Maximum time for a connection to a host, and to an address of the host.
const CONNECT: Duration = Duration::from_secs(5);
const ADDRESS: Duration = Duration::from_secs(2);
/// After so much silence a dead peer is noticed.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// The parameters of a URL that have an effect. The others are set here, or are for a client that chooses among hosts.
const PARAMETERS: [&str; 13] = [
    "channel_binding",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_interval",
    "keepalives_retries",
    "options",
    "password",
    "port",
    "sslnegotiation",
    "target_session_attrs",
    "user",
];

/// A parameter with the type.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection, made on demand.
pub(super) struct Connection {
    config: OutboxConfig,
    link: Option<PostgresLink>,
}

/// An open connection. Each statement is bounded: a database that hangs is an error.
pub(super) struct PostgresLink {
    client: Client,
    driver: Driver,
    limit: Duration,
}

// === impl Connection ===

impl Connection {
    pub(super) fn new(config: OutboxConfig) -> Self {
        Self { config, link: None }
    }

    /// True if the connection is open.
    pub(super) fn is_open(&self) -> bool {
        self.present().is_some()
    }

    /// The link; connects if needed.
    pub(super) async fn open(&mut self) -> Result<&PostgresLink, StoreError> {
        if !self.is_open() {
            let (client, driver) = connect(&self.config).await?;
            self.link = Some(PostgresLink { client, driver, limit: *self.config.deadline });
        }
        Ok(self.link.as_ref().expect("it was made where there was none"))
    }

    /// The present link.
    pub(super) fn present(&self) -> Option<&PostgresLink> {
        self.link.as_ref().filter(|link| !link.client.is_closed())
    }

    /// Drops the connection: the server rolls back the open transaction. A request to cancel is sent as well, because a
    /// backend that waits for a lock does not notice a lost client, and each try would leave another waiting backend.
    /// Returns that request, if there was a link.
    pub(super) fn close(&mut self) -> Option<JoinHandle<()>> {
        let link = self.link.take()?;
        let (token, config) = (link.client.cancel_token(), self.config.clone());
        Some(tokio::spawn(async move {
            let asking = async {
                match tls::client(&config.files) {
                    Ok(tls) if config.tls => token.cancel_query(MakeRustlsConnect::new(tls)).await,
                    _ => token.cancel_query(NoTls).await,
                }
            };
            // If the request fails, the server notices by itself.
            let _ = tokio::time::timeout(CONNECT, asking).await;
        }))
    }
}

// === impl PostgresLink ===

impl PostgresLink {
    /// Runs a statement.
    pub(super) async fn rows(&self, statement: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let asked =
            async { self.client.query_typed(statement, params).await.map_err(|error| failed(&error)) };
        within(self.limit, asked).await
    }

    /// Runs a statement that may read whole tables before the first row, and passes rows on singly.
    pub(super) async fn each_row(
        &self,
        statement: &str,
        params: &[Param<'_>],
        mut each: impl FnMut(&Row),
    ) -> Result<(), StoreError> {
        let params = params.iter().map(|(value, of)| (*value, of.clone()));
        let asked = async {
            let found =
                self.client.query_typed_raw(statement, params).await.map_err(|error| failed(&error))?;
            let mut found = Box::pin(found);
            Ok((found.next().await, found))
        };
        let (mut next, mut found) = within(SLOW, asked).await?;
        while let Some(row) = next {
            each(&row.map_err(|error| failed(&error))?);
            next = within(self.limit, async { Ok(found.next().await) }).await?;
        }
        Ok(())
    }

    /// Runs statements without parameters.
    pub(super) async fn batch(&self, statements: &str) -> Result<(), StoreError> {
        self.batch_within(self.limit, statements).await
    }

    /// Runs statements without parameters that may take longer.
    pub(super) async fn batch_within(&self, limit: Duration, statements: &str) -> Result<(), StoreError> {
        within(limit, async { self.client.batch_execute(statements).await.map_err(|error| failed(&error)) })
            .await
    }
}

/// A hanging server would keep the connection if the driver waited for an answer.
impl Drop for PostgresLink {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Drives a connection to the end. Errors reach the caller that waits for an answer.
type Driver = JoinHandle<()>;

async fn connect(config: &OutboxConfig) -> Result<(Client, Driver), StoreError> {
    let settings = settings(config).map_err(StoreError::Unfit)?;
    let mut connected = Err(StoreError::Unfit("`[outbox] url` names no host".to_owned()));
    for host in hosts(&settings) {
        connected = within(CONNECT, connect_to(&host, config)).await;
        if connected.is_ok() {
            break;
        }
    }
    connected
}

async fn connect_to(host: &Config, config: &OutboxConfig) -> Result<(Client, Driver), StoreError> {
    if config.tls {
        let tls = tls::client(&config.files).map_err(StoreError::Unfit)?;
        let made = host.connect(MakeRustlsConnect::new(tls)).await.map_err(|error| failed(&error))?;
        Ok((made.0, drive(made.1)))
    } else {
        let made = host.connect(NoTls).await.map_err(|error| failed(&error))?;
        Ok((made.0, drive(made.1)))
    }
}

/// The settings for each host by itself: the client would wait for a host that accepts and is silent, and never try the
/// next.
fn hosts(all: &Config) -> Vec<Config> {
    let count = all.get_hosts().len().max(all.get_hostaddrs().len());
    let of = |place: usize| {
        let mut one = Config::new();
        match all.get_hosts().get(place) {
            Some(Host::Tcp(name)) => drop(one.host(name)),
            Some(Host::Unix(path)) => drop(one.host_path(path)),
            None => {}
        }
        all.get_hostaddrs().get(place).map(|address| one.hostaddr(*address));
        all.get_ports().get(place).or(all.get_ports().first()).map(|port| one.port(*port));
        all.get_user().map(|user| one.user(user));
        all.get_password().map(|password| one.password(password));
        all.get_dbname().map(|name| one.dbname(name));
        all.get_options().map(|options| one.options(options));
        all.get_application_name().map(|name| one.application_name(name));
        all.get_connect_timeout().map(|limit| one.connect_timeout(*limit));
        all.get_tcp_user_timeout().map(|limit| one.tcp_user_timeout(*limit));
        all.get_keepalives_interval().map(|every| one.keepalives_interval(every));
        all.get_keepalives_retries().map(|retries| one.keepalives_retries(retries));
        one.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
        one.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
        one.channel_binding(all.get_channel_binding()).target_session_attrs(all.get_target_session_attrs());
        one.load_balance_hosts(all.get_load_balance_hosts());
        one
    };
    (0..count).map(of).collect()
}

fn drive(connection: impl Future<Output = Result<(), Error>> + Send + 'static) -> Driver {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the database of the outbox ended");
        }
    })
}

/// The options of a connection.
///
/// # Errors
/// A sentence without the URL, which may hold a password.
pub(in crate::outbox) fn settings(config: &OutboxConfig) -> Result<Config, String> {
    let url = config.url.as_ref().ok_or("`[outbox] url` is unset")?.reveal()?;
    parameters::check(url.expose_secret(), &PARAMETERS, &["sslmode"])?;
    let mut settings: Config =
        url.expose_secret().parse().map_err(|_| "`[outbox] url` is not a URL of PostgreSQL")?;
    settings.ssl_mode(if config.tls { SslMode::Require } else { SslMode::Disable });
    if let Some(password) = &config.password {
        if settings.get_password().is_some() {
            return Err("`[outbox] url` has a password too; keep one of the two".to_owned());
        }
        settings.password(password.reveal()?.expose_secret());
    }
    settings.application_name("delayq").connect_timeout(ADDRESS);
    settings.keepalives_idle(KEEPALIVE).tcp_user_timeout(2 * KEEPALIVE);
    Ok(settings)
}

/// Judges an error of the client.
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
            StoreError::Unfit(format!("no outbox: {said}; see delayq outbox init"))
        }
        // Classes of failures that pass: connection, resources, intervention of an operator, and the server's start and end.
        code if ["08", "53", "57", "58"].iter().any(|class| code.code().starts_with(class)) => {
            StoreError::Unreachable(said)
        }
        _ => StoreError::Refused(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_service::config::Secret;

    #[test]
    fn a_parameter_without_effect_is_refused_without_the_password() {
        let plain = |url: &str| OutboxConfig { url: Some(Secret::plain(url)), ..OutboxConfig::default() };
        let url = "postgres://app:hidden@one,two/shop";
        for query in PARAMETERS.map(|name| match name {
            "channel_binding" => "channel_binding=require".to_owned(),
            "hostaddr" => "hostaddr=127.0.0.1,127.0.0.2".to_owned(),
            "sslnegotiation" => "sslnegotiation=direct".to_owned(),
            "target_session_attrs" => "target_session_attrs=read-write".to_owned(),
            "options" => "options=-c%20jit%3Doff".to_owned(),
            name => format!("{name}=5"),
        }) {
            let url = if query.starts_with("host=") { "postgres://app@/shop" } else { url };
            assert!(settings(&plain(&format!("{url}?{query}"))).is_ok(), "{query}");
        }
        for (query, expected) in [
            ("sslmode=prefer", "set `tls`"),
            ("sslmode=disable", "set `tls`"),
            ("application_name=mine", "unsupported parameter; allowed are: channel_binding, dbname"),
            ("connect_timeout=1", "unsupported parameter"),
            ("load_balance_hosts=random", "unsupported parameter"),
            ("options=-c%20jit%3Doff&hidden=1", "unsupported parameter"),
        ] {
            let why = settings(&plain(&format!("{url}?{query}"))).unwrap_err();
            assert!(why.contains(expected) && !why.contains("hidden"), "{query}: {why}");
        }
    }
}
