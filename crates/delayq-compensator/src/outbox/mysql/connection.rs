//! A connection to MySQL that is made again after an error.

use super::sql;
use crate::outbox::config::OutboxConfig;
use crate::outbox::store::{StoreError, within};
use crate::outbox::{parameters, tls};
use delayq_service::config::ExposeSecret as _;
use mysql_async::prelude::{FromValue, Queryable as _};
use mysql_async::{ClientIdentity, Conn, Error, Opts, OptsBuilder, Params, Row, SslOpts};
use std::time::Duration;

/// Maximum time for a new connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Silence after which a dead peer is noticed.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Longer than a reader rests between two turns, besides the poll.
const REST: Duration = Duration::from_secs(10);
/// Maximum bytes of a packet: several times the bytes of a row.
const LARGEST_PACKET: usize = 64 << 20;
/// The parameters of a URL that have an effect. Those of a pool have none, and some are set here.
const PARAMETERS: [&str; 6] =
    ["compression", "enable_cleartext_plugin", "secure_auth", "socket", "stmt_cache_size", "tcp_nodelay"];
const OF_TLS: [&str; 4] = ["require_ssl", "verify_ca", "verify_identity", "built_in_roots"];
/// The first versions with `SKIP LOCKED`, and with checks that refuse.
const OLDEST: [(&str, [u32; 3]); 2] = [("MariaDB", [10, 6, 0]), ("MySQL", [8, 0, 16])];

/// A connection, made on demand.
pub(super) struct Connection {
    config: OutboxConfig,
    link: Option<MySqlLink>,
}

/// An open connection. Each statement is bounded: a database that hangs is an error.
pub(super) struct MySqlLink {
    conn: Conn,
    limit: Duration,
}

// === impl Connection ===

impl Connection {
    pub(super) fn new(config: OutboxConfig) -> Self {
        Self { config, link: None }
    }

    /// True if the connection is open.
    pub(super) fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// The link; connects if needed.
    pub(super) async fn open(&mut self) -> Result<&mut MySqlLink, StoreError> {
        let link = match self.link.take() {
            Some(link) => link,
            None => MySqlLink { conn: connect(&self.config).await?, limit: *self.config.deadline },
        };
        Ok(self.link.insert(link))
    }

    /// The present link.
    pub(super) fn present(&mut self) -> Option<&mut MySqlLink> {
        self.link.as_mut()
    }

    /// Drops the connection: the server rolls back the open transaction.
    pub(super) fn close(&mut self) {
        self.link = None;
    }
}

// === impl MySqlLink ===

impl MySqlLink {
    /// The rows of a statement.
    pub(super) async fn rows(&mut self, statement: &str) -> Result<Vec<Row>, StoreError> {
        within(self.limit, async { self.conn.query(statement).await.map_err(failed) }).await
    }

    /// The first row of a statement.
    pub(super) async fn first(&mut self, statement: &str) -> Result<Option<Row>, StoreError> {
        within(self.limit, async { self.conn.query_first(statement).await.map_err(failed) }).await
    }

    /// Runs statements.
    pub(super) async fn run(&mut self, statements: &str) -> Result<(), StoreError> {
        within(self.limit, async { self.conn.query_drop(statements).await.map_err(failed) }).await
    }

    /// Runs a statement with parameters.
    pub(super) async fn run_with(
        &mut self,
        statement: &str,
        params: impl Into<Params> + Send,
    ) -> Result<(), StoreError> {
        within(self.limit, async { self.conn.exec_drop(statement, params).await.map_err(failed) }).await
    }
}

async fn connect(config: &OutboxConfig) -> Result<Conn, StoreError> {
    let mut options = OptsBuilder::from_opts(settings(config).map_err(StoreError::Unfit)?);
    if config.tls {
        options = options.ssl_opts(trusted(config).map_err(StoreError::Unfit)?);
    }
    let connecting = async {
        let mut conn = Conn::new(options).await.map_err(failed)?;
        let found = conn.query_first(sql::SERVER).await.map_err(failed)?;
        let version: String = match found {
            Some(mut found) => column(&mut found, 0)?,
            None => String::new(),
        };
        is_new_enough(&version).map_err(StoreError::Unfit)?;
        Ok(conn)
    };
    within(CONNECT, connecting).await
}

/// The options of a connection, TLS aside.
///
/// # Errors
/// A sentence without the URL, which may hold a password.
pub(in crate::outbox) fn settings(config: &OutboxConfig) -> Result<Opts, String> {
    let url = config.url.as_ref().ok_or("`[outbox] url` is unset")?.reveal()?;
    let url = url.expose_secret().replacen("mariadb://", "mysql://", 1);
    parameters::check(&url, &PARAMETERS, &OF_TLS)?;
    let given = Opts::from_url(&url).map_err(|_| "`[outbox] url` is not a URL of MySQL")?;
    if given.db_name().is_none_or(str::is_empty) {
        return Err("`[outbox] url` names no database: mysql://user@host/database".to_owned());
    }
    let other = OutboxConfig::default();
    for (name, is_set) in [
        ("schema", config.schema != other.schema),
        ("rotate_every", config.rotate_every != other.rotate_every),
        ("keep", config.keep != other.keep),
    ] {
        if is_set {
            return Err(format!("`[outbox] {name}` is only for PostgreSQL: remove it, or set its default"));
        }
    }
    let mut options = OptsBuilder::from_opts(given.clone());
    if let Some(password) = &config.password {
        if given.pass().is_some() {
            return Err("`[outbox] url` has a password too; keep one of the two".to_owned());
        }
        options = options.pass(Some(password.reveal()?.expose_secret().to_owned()));
    }
    options = options.prefer_socket(false).tcp_keepalive(Some(KEEPALIVE)).setup(session(config));
    // A server sends rows above its own limit.
    options = options.max_allowed_packet(Some(LARGEST_PACKET));
    Ok(options.into())
}

/// The settings of the session: the session sees committed rows, locks no gaps, and ends if this process is frozen. A
/// statement may take as long as this process waits, whatever limit the user or the server has. MariaDB alone reads the
/// comment `M!`, and MySQL alone the other comment.
fn session(config: &OutboxConfig) -> Vec<String> {
    let idle = 2 * *config.deadline + *config.poll_interval + REST;
    let limit = config.deadline.as_secs();
    vec![
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
        format!(
            "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = {limit}, \
             lock_wait_timeout = {limit}, wait_timeout = {} /*M!100600 , max_statement_time = {limit} */ \
             /*!80000 , max_execution_time = {limit}000 */",
            idle.as_secs(),
        ),
    ]
}

/// The trusted authorities, and the client's certificate.
fn trusted(config: &OutboxConfig) -> Result<SslOpts, String> {
    let files = &config.files;
    let authorities = tls::authorities(files)?.into_iter().map(|cert| cert.to_vec().into()).collect();
    let options = SslOpts::default().with_disable_built_in_roots(true).with_root_certs(authorities);
    let identity = files.identity()?.map(|[cert, key]| ClientIdentity::new(cert.into(), key.into()));
    Ok(options.with_client_identity(identity))
}

/// Refuses a server that lacks what is needed.
fn is_new_enough(version: &str) -> Result<(), String> {
    let (name, oldest) = OLDEST[usize::from(!version.contains("MariaDB"))];
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    let found = [(); 3].map(|()| parts.next().unwrap_or(0));
    let [a, b, c] = oldest;
    if found < oldest {
        Err(format!("{name} {version} is too old: version {a}.{b}.{c} or newer is required"))
    } else {
        Ok(())
    }
}

/// Takes a value out of a row.
pub(super) fn column<T: FromValue>(row: &mut Row, at: usize) -> Result<T, StoreError> {
    match row.take_opt(at) {
        Some(Ok(value)) => Ok(value),
        _ => Err(StoreError::Unfit(format!("column {at} of an answer is missing, or of another type"))),
    }
}

/// Judges an error of the client.
pub(super) fn failed(error: Error) -> StoreError {
    let Error::Server(refusal) = error else { return StoreError::Unreachable(error.to_string()) };
    let said = format!("{} ({})", refusal.message, refusal.code);
    match refusal.code {
        // The database or the table is missing.
        1049 | 1146 => StoreError::Unfit(format!("no outbox: {said}; see delayq outbox init")),
        // Too many connections, shutdown, lock waits, deadlocks, statements that took too long or that an operator ended.
        1040 | 1053 | 1205 | 1213 | 1317 | 1927 | 1969 | 3024 => StoreError::Unreachable(said),
        _ => StoreError::Refused(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_service::config::{HumanDuration, Secret};

    #[test]
    fn a_server_without_skip_locked_is_refused() {
        for (version, expected) in [
            ("10.11.19-MariaDB-0+deb12u1", true),
            ("10.6.0-MariaDB", true),
            ("10.5.29-MariaDB-log", false),
            ("8.0.16", true),
            ("8.4.3-commercial", true),
            ("8.0.15", false),
            ("5.7.44-log", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version).is_ok(), expected, "{version}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_the_password() {
        let plain = |url: &str| OutboxConfig { url: Some(Secret::plain(url)), ..OutboxConfig::default() };
        let url = "mysql://app:hidden@db/shop";
        assert!(settings(&plain("mariadb://app@db/shop")).is_ok());
        assert!(settings(&plain("mysql://app@db/shop?tcp_nodelay=true&compression=fast")).is_ok());
        for (config, expected) in [
            (plain("mysql://app:hidden@db"), "names no database"),
            (plain("mysql://app:hidden@db/shop?require_ssl=true&verify_ca=false"), "set `tls`"),
            (plain("mysql://app:hidden@db/shop?verify_identity=false"), "set `tls`"),
            (
                plain("mysql://app:hidden@db/shop?hidden=1"),
                "an unsupported parameter; allowed are: compression",
            ),
            (plain("mysql://app:hidden@db/shop?compression=fast&pool_max=3"), "an unsupported parameter"),
            (plain("mysql://app:hidden@db:port/shop"), "not a URL"),
            (OutboxConfig { password: Some(Secret::plain("two")), ..plain(url) }, "a password too"),
            (
                OutboxConfig { schema: "other".to_owned(), ..plain(url) },
                "`[outbox] schema` is only for PostgreSQL",
            ),
            (OutboxConfig { keep: HumanDuration::from_secs(1), ..plain(url) }, "`[outbox] keep`"),
        ] {
            let why = settings(&config).unwrap_err();
            assert!(why.contains(expected) && !why.contains("hidden"), "{why}");
        }
    }
}
