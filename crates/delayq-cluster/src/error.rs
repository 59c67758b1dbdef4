//! Errors between a member and etcd, and the advice for each.

use delayq::protocol::DeploymentId;
use std::time::Duration;

/// An error for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The configuration cannot be used; nothing was tried.
    #[error("the cluster configuration cannot be used: {0}")]
    Config(String),
    /// etcd did not answer, or could not be reached, until the deadline.
    #[error("etcd could not be reached within {waited:?} ({endpoints}): {cause}")]
    Unreachable {
        /// The endpoints tried.
        endpoints: String,
        /// The time spent trying.
        waited: Duration,
        /// The last cause.
        cause: String,
    },
    /// etcd answered and refused: wrong user or password, or a missing permission.
    #[error(
        "etcd refuses access: {0}; the user needs a valid password, and read and write access as printed by \
         `delayq acl print`"
    )]
    Refused(String),
    /// etcd answered, but takes no writes for now: most often its database is full.
    #[error(
        "etcd accepts no writes: {0}; compact and defragment it, then disarm the alarm, or raise its quota"
    )]
    Exhausted(String),
    /// The fleet in etcd belongs to another deployment.
    #[error(
        "the timers below {base} in etcd belong to deployment {}, but this timer to deployment {}: use \
         another etcd.prefix or deployment.namespace, or correct redis.url; if the recorded deployment is \
         gone for good: delayq init --replace",
        recorded.short(),
        mine.short()
    )]
    Foreign {
        /// The beginning of the fleet's keys.
        base: String,
        /// The identity that the first member recorded.
        recorded: DeploymentId,
        /// The identity of this member's deployment.
        mine: DeploymentId,
    },
    /// TLS could not be set up.
    #[error("TLS to etcd: {0}")]
    Tls(String),
    /// A document in etcd has a newer format or is damaged.
    #[error("{key} in etcd cannot be read: {cause}")]
    Document {
        /// The key.
        key: String,
        /// The fault of the document.
        cause: String,
    },
    /// The member has left and answers no more questions.
    #[error("this member has left the cluster")]
    Left,
}

/// The reaction to a [`ClusterError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Try again later; a repeat is safe.
    Retry,
    /// Do not try again before an operator changes something.
    GiveUp,
}

impl ClusterError {
    /// Tells whether a repeat can help. Every operation of this crate is safe to repeat.
    pub const fn advice(&self) -> Advice {
        match self {
            Self::Unreachable { .. } | Self::Exhausted(_) => Advice::Retry,
            Self::Foreign { .. } => Advice::GiveUp,
            Self::Config(_) | Self::Refused(_) | Self::Tls(_) | Self::Document { .. } | Self::Left => {
                Advice::GiveUp
            }
        }
    }

    /// A short stable code for operators.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Config(_) => "cluster-config",
            Self::Unreachable { .. } => "etcd-unreachable",
            Self::Refused(_) => "etcd-refused",
            Self::Exhausted(_) => "etcd-exhausted",
            Self::Foreign { .. } => "etcd-foreign",
            Self::Tls(_) => "etcd-tls",
            Self::Document { .. } => "etcd-document",
            Self::Left => "cluster-left",
        }
    }
}
