//! A refusal by a quota, with the headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11).

use std::fmt;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quota {
    Puts,
    Pending,
    Bytes,
    Polls,
    Connections,
    Turns,
    Spool,
}

/// A quota that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) quota: Quota,
    most: u64,
    wait: Duration,
}

// === impl Quota ===

impl Quota {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Puts => "puts",
            Self::Pending => "pending",
            Self::Bytes => "bytes",
            Self::Polls => "polls",
            Self::Connections => "connections",
            Self::Turns => "turns",
            Self::Spool => "spool",
        }
    }
}

// === impl Over ===

impl Over {
    pub(crate) const fn new(quota: Quota, most: u64) -> Self {
        Self { quota, most, wait: Duration::from_secs(1) }
    }

    pub(crate) const fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Whole seconds, at least 1.
    pub(crate) fn retry_after(&self) -> u64 {
        self.wait.as_millis().div_ceil(1000).clamp(1, 60) as u64
    }

    pub(crate) fn policy(&self) -> String {
        let window = if self.quota == Quota::Puts { ";w=1" } else { "" };
        format!("\"{}\";q={}{window}", self.quota.word(), self.most)
    }

    pub(crate) fn left(&self) -> String {
        format!("\"{}\";r=0;t={}", self.quota.word(), self.retry_after())
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.most;
        match self.quota {
            Quota::Puts => write!(f, "the tenant may put {most} messages a second"),
            Quota::Pending => write!(f, "the tenant may have {most} pending messages"),
            Quota::Bytes => write!(f, "the tenant's requests may take {most} bytes of memory in a gateway"),
            Quota::Polls => write!(f, "{most} reserves of the tenant may wait at a gateway"),
            Quota::Connections => write!(f, "{most} connections may be the tenant's at a gateway"),
            Quota::Spool => {
                write!(
                    f,
                    "Redis is unavailable, and {most} bytes of the spool are the tenant's, which are used up"
                )
            }
            Quota::Turns => {
                write!(
                    f,
                    "a gateway works on {most} messages of the tenant at a time, and others waited too long"
                )
            }
        }
    }
}
