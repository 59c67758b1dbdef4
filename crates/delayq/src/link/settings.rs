//! Address, login and time limits of a Redis.

use super::address;
use super::any_url::AnyUrl;
use super::greeting::is_full;
use super::identity::{Identity, is_ended, of_certificate, without_tls};
use super::node::Node;
use super::single_url::SingleUrl;
use crate::error::Error;
use crate::options::{CONNECT_TIMEOUT, DEADLINE, KEEPALIVE, OutOfRange, Range};
use crate::password::Password;
use crate::setters::setters;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError, RedisResult,
    TlsCertificates,
};
use std::fmt;
use std::time::Duration;

/// Address, login and time limits of a Redis.
#[derive(Clone)]
#[non_exhaustive]
pub struct LinkSettings {
    /// `redis://[user[:password]@]host[:port][/db]`, `rediss://…` for TLS, `redis+unix:///path?db=N`; for a Redis whose
    /// sentinels name the master, `redis+sentinel://host:port,host:port/service?db=N`, `rediss+sentinel://…` for TLS;
    /// for a Redis Cluster, `redis+cluster://host:port,host:port`, `rediss+cluster://…` for TLS.
    pub url: String,
    /// The ACL user; `None`: the default user, or the user in the URL.
    pub username: Option<String>,
    /// The user's password, read for each connection; `None`: the password in the URL, if any.
    pub password: Option<Password>,
    /// The certificate authorities to trust with `rediss://`, PEM; `None`: the authorities of the system.
    pub ca_pem: Option<Vec<u8>>,
    /// The client's certificate, for a Redis that requires client certificates; `None` to send no certificate. Needs
    /// TLS. Errors name the two parts, `cert` and `key`.
    pub identity: Option<Identity>,
    /// Maximum time to make a connection, 1 ms to 24 h. Default 1 s.
    pub connect_timeout: Duration,
    /// Maximum time of one call including connecting, 1 ms to 24 h. Default 2 s.
    pub deadline: Duration,
    /// Maximum time to confirm a write to a topic that asks for durability: from 1 ms to half of `deadline`, which is
    /// the default.
    pub confirm_timeout: Option<Duration>,
    /// Silence after which the system probes the connection, 1 s to 32,767 s. Default 5 s.
    pub keepalive: Duration,
    /// Login and TLS of the sentinels, where the URL names sentinels.
    pub sentinel: SentinelSettings,
    /// Speaks RESP2, for a server or a proxy without HELLO; a deployment needs RESP3. Default false.
    pub resp2: bool,
}

/// Login and TLS of the sentinels, where different from the Redis.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SentinelSettings {
    /// The user; `None`: the default user.
    pub username: Option<String>,
    /// The sentinels' password, read for each connection; `None`: no password. The Redis's own password is never sent
    /// to a sentinel.
    pub password: Option<Password>,
    /// True if the sentinels speak TLS; `None`: as the URL says of the Redis.
    pub tls: Option<bool>,
    /// The certificate authorities to trust with TLS, PEM; `None`: as for the Redis.
    pub ca_pem: Option<Vec<u8>>,
    /// The client's certificate, for sentinels that require client certificates; `None`: as for the Redis.
    pub identity: Option<Identity>,
}

// === impl LinkSettings ===

impl LinkSettings {
    /// The defaults for this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            username: None,
            password: None,
            ca_pem: None,
            identity: None,
            connect_timeout: Duration::from_secs(1),
            deadline: Duration::from_secs(2),
            confirm_timeout: None,
            keepalive: Duration::from_secs(5),
            sentinel: SentinelSettings::default(),
            resp2: false,
        }
    }

    setters! {
        username: impl Into<String> => Some(username.into()),
        password: impl Into<Password> => Some(password.into()),
        ca_pem: impl Into<Vec<u8>> => Some(ca_pem.into()),
        connect_timeout: Duration,
        deadline: Duration,
        confirm_timeout: Duration => Some(confirm_timeout),
        keepalive: Duration,
        sentinel: SentinelSettings,
        resp2: bool,
    }

    /// Sets [`Self::identity`]: the client's certificate, optionally followed by the chain of authorities, and the key
    /// without a passphrase; both PEM.
    #[must_use]
    pub fn identity(self, cert_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        Self { identity: Some(Identity::from_pem(cert_pem, key_pem)), ..self }
    }

    pub(crate) fn confirmed_within(&self) -> Duration {
        self.confirm_timeout.unwrap_or(self.deadline / 2)
    }

    fn check_ranges(&self) -> Result<(), OutOfRange> {
        CONNECT_TIMEOUT.check(self.connect_timeout)?;
        DEADLINE.check(self.deadline)?;
        KEEPALIVE.check(self.keepalive)?;
        if let Some(timeout) = self.confirm_timeout {
            Range::new("confirm_timeout", Duration::from_millis(1), self.deadline / 2).check(timeout)?;
        }
        Ok(())
    }

    /// The address without secrets.
    pub fn address(&self) -> String {
        address::printed(&self.url)
    }

    /// Checks that the settings can be used, without connecting.
    ///
    /// # Errors
    /// An option is outside its range ([`Error::Option`]); or the URL, the certificates or the password file are invalid.
    pub fn check(&self) -> Result<(), Error> {
        self.check_ranges()?;
        let unusable = |why| Error::Unreachable { address: self.address(), why };
        let info = match self.url.parse().map_err(unusable)? {
            AnyUrl::Single(url) => url.into(),
            AnyUrl::Cluster(url) => url.node(&url.nodes[0]),
            AnyUrl::Sentinel(url) => {
                self.sentinel_client(&url.nodes[0]).map_err(unusable)?;
                url.master(&url.nodes[0])
            }
        };
        self.client(info).map(drop)
    }

    pub(crate) fn info(&self) -> Result<ConnectionInfo, Error> {
        let url = self.url.parse::<SingleUrl>();
        url.map(SingleUrl::into).map_err(|why| Error::Unreachable { address: self.address(), why })
    }

    /// The login of `info` applies where these settings have none.
    pub(crate) fn client(&self, info: ConnectionInfo) -> Result<Client, Error> {
        let unusable = |error: RedisError| Error::of_connecting(&self.address(), &error);
        self.check_ranges()?;
        // A file that is being replaced is readable again a moment later.
        let unreadable = |why| Error::Unreachable { address: self.address(), why };
        let info = with_login(info, self.username.as_deref(), self.password.as_ref()).map_err(unreadable)?;
        let protocol = if self.resp2 { None } else { Some(ProtocolVersion::RESP3) };
        self.open(info, protocol, certificates(self.ca_pem.as_deref(), self.identity.as_ref()))
            .map_err(unusable)
    }

    pub(crate) async fn unconnected(&self, address: &str, at: &ConnectionAddr, error: &RedisError) -> Error {
        match Error::of_connecting(address, error) {
            Error::Unreachable { address, why } if is_ended(&why) && is_full(at).await => {
                Error::TooManyClients { address }
            }
            Error::Unreachable { address, why } if self.is_tls() => {
                Error::Unreachable { address, why: of_certificate(why, self.identity.is_some()) }
            }
            Error::Unreachable { address, why } => Error::Unreachable { address, why: without_tls(why) },
            error => error,
        }
    }

    pub(crate) fn sentinel_unconnected(&self, why: String) -> String {
        if self.sentinel_tls() { of_certificate(why, self.sentinel_identity().is_some()) } else { why }
    }

    pub(crate) fn sentinel_client(&self, node: &Node) -> Result<Client, String> {
        let SentinelSettings { username, password, ca_pem, .. } = &self.sentinel;
        let tls = self.sentinel_tls();
        let info = node.at(tls).into_connection_info().map_err(|error| error.to_string())?;
        let info = with_login(info, username.as_deref(), password.as_ref())?;
        let ca_pem = ca_pem.as_deref().or(self.ca_pem.as_deref());
        let certificates = certificates(ca_pem, self.sentinel_identity()).filter(|_| tls);
        self.open(info, Some(ProtocolVersion::RESP3), certificates).map_err(|error| error.to_string())
    }

    fn is_tls(&self) -> bool {
        self.url.starts_with("rediss")
    }

    fn sentinel_tls(&self) -> bool {
        self.sentinel.tls.unwrap_or_else(|| self.is_tls())
    }

    fn sentinel_identity(&self) -> Option<&Identity> {
        self.sentinel.identity.as_ref().or(self.identity.as_ref())
    }

    fn open(
        &self,
        info: ConnectionInfo,
        protocol: Option<ProtocolVersion>,
        certificates: Option<TlsCertificates>,
    ) -> RedisResult<Client> {
        let keepalive = TcpKeepalive::new().with_time(self.keepalive).with_interval(Duration::from_secs(5));
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        let mut redis = info.redis_settings().clone();
        if let Some(protocol) = protocol {
            redis = redis.set_protocol(protocol);
        }
        let info = info.set_redis_settings(redis).set_tcp_settings(tcp);
        match certificates {
            None => Client::open(info),
            Some(certificates) => Client::build_with_tls(info, certificates),
        }
    }
}

/// `None` for the system's authorities without a client certificate.
fn certificates(ca_pem: Option<&[u8]>, identity: Option<&Identity>) -> Option<TlsCertificates> {
    let (root_cert, client_tls) = (ca_pem.map(<[u8]>::to_vec), identity.map(Identity::shown));
    (root_cert.is_some() || client_tls.is_some()).then_some(TlsCertificates { client_tls, root_cert })
}

/// The password is read now.
fn with_login(
    info: ConnectionInfo,
    username: Option<&str>,
    password: Option<&Password>,
) -> Result<ConnectionInfo, String> {
    let mut redis = info.redis_settings().clone();
    if let Some(username) = username {
        redis = redis.set_username(username);
    }
    if let Some(password) = password {
        redis = redis.set_password(password.read()?);
    }
    Ok(info.set_redis_settings(redis))
}

impl<T: Into<String>> From<T> for LinkSettings {
    fn from(url: T) -> Self {
        Self::new(url)
    }
}

impl fmt::Debug for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkSettings")
            .field("address", &self.address())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
