//! A token that requests may carry.

use crate::rights::Rights;
use crate::tenant::Tenant;
use delayq::UnixMillis;
use std::time::SystemTime;

/// The SHA-256 of a token.
pub(crate) type Hash = [u8; 32];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) rights: Rights,
    /// `None`: the token is limited to no tenant.
    pub(crate) tenant: Option<Tenant>,
    /// `None`: the token has no end.
    pub(crate) until: Option<UnixMillis>,
}

// === impl Token ===

impl Token {
    pub(crate) fn has_ended(&self) -> bool {
        self.until.is_some_and(|until| until <= now())
    }
}

/// The time by the clock of this host: the end of a token is no time of Redis.
#[allow(clippy::disallowed_methods, reason = "the end of a token is out of range")]
fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixMillis::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
