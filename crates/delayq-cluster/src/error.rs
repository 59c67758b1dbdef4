//! Errors between a member and etcd.

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
