//! Where a Redis is, who asks it, and how long to wait for it.

use super::address;
use crate::error::Error;
use crate::password::Password;
use crate::setters::setters;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{Client, IntoConnectionInfo, ProtocolVersion};
use std::fmt;
use std::time::Duration;

/// Where a Redis is, and how long to wait for it.
#[derive(Clone)]
#[non_exhaustive]
pub struct LinkSettings {
    /// `redis://host:port/db`, `rediss://…` for TLS, or `redis+unix:///path`.
    pub url: String,
    /// The ACL user; `None`: the default user, or the one in the URL.
    pub username: Option<String>,
    /// Its password, read for each connection; `None`: the one in the URL, or none.
    pub password: Option<Password>,
    /// The certificate authorities to trust with `rediss://`, PEM; `None`: those of the system.
    pub ca_pem: Option<Vec<u8>>,
    /// How long a connection may take to be made. Default 1 s.
    pub connect_timeout: Duration,
    /// How long one call may take, connecting included. Default 2 s.
    pub deadline: Duration,
    /// Silence after which the system probes the connection. Default 5 s.
    pub keepalive: Duration,
    /// Whether to speak RESP2, for a server or a proxy without HELLO; a deployment needs RESP3. Default false.
    pub resp2: bool,
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
            connect_timeout: Duration::from_secs(1),
            deadline: Duration::from_secs(2),
            keepalive: Duration::from_secs(5),
            resp2: false,
        }
    }

    setters! {
        username: impl Into<String> => Some(username.into()),
        password: impl Into<Password> => Some(password.into()),
        ca_pem: impl Into<Vec<u8>> => Some(ca_pem.into()),
        connect_timeout: Duration,
        deadline: Duration,
        keepalive: Duration,
        resp2: bool,
    }

    /// The address without its secrets.
    pub fn address(&self) -> String {
        address::printed(&self.url)
    }

    /// Checks that the settings can be used, without connecting.
    ///
    /// # Errors
    /// The URL, the certificates or the password's file are invalid.
    pub fn check(&self) -> Result<(), Error> {
        self.client().map(drop)
    }

    pub(crate) fn client(&self) -> Result<Client, Error> {
        let unusable = |error: redis::RedisError| Error::of_connecting(&self.address(), &error);
        let info = self.url.as_str().into_connection_info().map_err(unusable)?;
        let mut redis = info.redis_settings().clone();
        if !self.resp2 {
            redis = redis.set_protocol(ProtocolVersion::RESP3);
        }
        if let Some(username) = &self.username {
            redis = redis.set_username(username);
        }
        if let Some(password) = &self.password {
            // A file that is being replaced is there again a moment later.
            let unreadable = |why| Error::Unreachable { address: self.address(), why };
            redis = redis.set_password(password.read().map_err(unreadable)?);
        }
        let keepalive = TcpKeepalive::new().with_time(self.keepalive).with_interval(Duration::from_secs(5));
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        let info = info.set_redis_settings(redis).set_tcp_settings(tcp);
        match &self.ca_pem {
            None => Client::open(info).map_err(unusable),
            Some(pem) => {
                let certificates = redis::TlsCertificates { client_tls: None, root_cert: Some(pem.clone()) };
                Client::build_with_tls(info, certificates).map_err(unusable)
            }
        }
    }
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
