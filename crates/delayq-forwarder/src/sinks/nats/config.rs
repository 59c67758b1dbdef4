//! `[sinks.NAME.nats]`.

use delayq_service::brokers::NatsAccess;
use delayq_service::config::{Faults, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[sinks.NAME.nats]`: a server or cluster. The destination is the subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NatsConfig {
    /// `nats://host:port` or `tls://host:port` of some servers of the cluster; default `nats://127.0.0.1:4222`.
    pub servers: Vec<String>,
    /// `jetstream`, with acks, or `core`, which delivers at most once to current subscribers; default jetstream.
    pub mode: NatsMode,
    /// User; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password; unset: none. Read again for each connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Token, in place of user and password; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// A file of credentials (JWT and key), in place of the others; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// PEM file of the authority that signed the server's certificate; unset: the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, if the server requires one; needs `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the private key of `cert`, without a passphrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Accepts a full stream that drops its oldest messages; default false.
    pub dropping_loses_messages: bool,
}

/// The guarantee of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NatsMode {
    /// Stored in a stream, and acked.
    #[default]
    Jetstream,
    /// Sent to current subscribers and forgotten.
    Core,
}

impl Default for NatsConfig {
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".to_owned()],
            mode: NatsMode::Jetstream,
            username: None,
            password: None,
            token: None,
            credentials: None,
            ca: None,
            cert: None,
            key: None,
            dropping_loses_messages: false,
        }
    }
}

impl NatsConfig {
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
}

impl Section for NatsConfig {
    fn validate(&self, at: &mut Faults) {
        self.access().validate(at);
    }
}
