//! Where the Redis to measure on is.

use delayq_core::Password;
use std::{io, str::FromStr};

/// `host:port`, and the password where one is asked for.
#[derive(Clone, Debug)]
pub struct Address {
    /// `host:port`.
    pub host: String,
    /// The password of Redis's default user.
    pub password: Option<Password>,
}

// === impl Address ===

impl Address {
    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.host)
    }

    /// The password, read now.
    pub(crate) fn password(&self) -> io::Result<Option<String>> {
        self.password.as_ref().map(Password::read).transpose().map_err(io::Error::other)
    }
}

impl FromStr for Address {
    type Err = std::convert::Infallible;

    fn from_str(host: &str) -> Result<Self, Self::Err> {
        Ok(Self { host: host.to_owned(), password: None })
    }
}
