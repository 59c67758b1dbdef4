//! `[intake.NAME.nats]`.

use delayq_service::brokers::{NatsAccess, nats_subject};
use delayq_service::config::{Faults, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[intake.NAME.nats]`: a stream of a server or cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NatsIntakeConfig {
    /// `nats://host:port` or `tls://host:port`, of some servers of the cluster; default `nats://127.0.0.1:4222`.
    pub servers: Vec<String>,
    /// The stream; default `delayq`.
    pub stream: String,
    /// The durable consumer that all compensators of this intake share; default `delayq`. Created if missing.
    pub consumer: String,
    /// The subject of the stream that is read, wildcards included; unset: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// User; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password; unset: none. Read again for each connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Token, in place of user and password; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// A file of credentials (JWT and key), in place of user or token; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// PEM file of the authority that signed the server's certificate; unset: the authorities of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, if the server requests a certificate; needs `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the private key of `cert`, without a passphrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

// === impl NatsIntakeConfig ===

impl NatsIntakeConfig {
    pub(super) fn access(&self) -> NatsAccess<'_> {
        NatsAccess {
            servers: &self.servers,
            username: self.username.as_deref(),
            password: self.password.as_ref(),
            token: self.token.as_ref(),
            credentials: self.credentials.as_deref(),
            ca: self.ca.as_deref(),
            cert: self.cert.as_deref(),
            key: self.key.as_deref(),
        }
    }

    /// Checks the subject of the dead records.
    pub(crate) fn check_dead(&self, dead: &str, at: &mut Faults) {
        if let (false, Err(why)) = (dead.is_empty(), nats_subject(dead)) {
            at.refuse("dead", why);
        } else if self.subject.as_deref().is_some_and(|subject| matches(subject, dead)) {
            at.contradiction(
                &["dead", "nats.subject"],
                "dead records would be taken in again in an endless \
                 loop",
            );
        }
    }
}

/// True if a subject with wildcards matches a plain subject.
fn matches(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(expected), Some(token)) if expected == "*" || expected == token => {}
            _ => return false,
        }
    }
}

impl Default for NatsIntakeConfig {
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".to_owned()],
            stream: "delayq".to_owned(),
            consumer: "delayq".to_owned(),
            subject: None,
            username: None,
            password: None,
            token: None,
            credentials: None,
            ca: None,
            cert: None,
            key: None,
        }
    }
}

impl Section for NatsIntakeConfig {
    fn validate(&self, at: &mut Faults) {
        self.access().validate(at);
        for (key, name) in [("stream", &self.stream), ("consumer", &self.consumer)] {
            let plain = |c: char| !c.is_whitespace() && !c.is_control() && !".*>/\\".contains(c);
            if name.is_empty() || !name.chars().all(plain) {
                at.refuse(key, "expected a name without spaces, dots, wildcards and slashes");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_matches_by_tokens() {
        for (pattern, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.>", "a.b.c", true),
            (">", "a", true),
            ("a.>", "a", false),
            ("a.*", "a.b.c", false),
            ("a.b", "a.c", false),
        ] {
            assert_eq!(matches(pattern, subject), expected, "{pattern} {subject}");
        }
    }
}
