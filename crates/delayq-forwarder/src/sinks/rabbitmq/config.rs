//! `[sinks.NAME.rabbitmq]`.

use delayq_service::brokers::RabbitmqAccess;
use delayq_service::config::{Faults, HostPort, PemFiles, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[sinks.NAME.rabbitmq]`: a broker. The destination is the routing key; with the default exchange it is a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RabbitmqConfig {
    /// Host and port; default `127.0.0.1:5672`.
    pub server: HostPort,
    /// Whether to speak TLS; default false.
    pub tls: bool,
    /// PEM file of the authority that signed the server's certificate; unset: the system's authorities. Needs `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, if the server requires one; needs `key` and `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the private key of `cert`, without a passphrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Virtual host; default `/`.
    pub vhost: String,
    /// User; default `guest`.
    pub username: String,
    /// Password; unset: `guest`. Read again for each connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Exchange; default `""`, the broker's default exchange.
    pub exchange: String,
    /// Priority of each message, 0 to 255, where the queue has priorities; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Accepts a full queue that drops its oldest messages; default false.
    pub dropping_loses_messages: bool,
}

impl Default for RabbitmqConfig {
    fn default() -> Self {
        Self {
            server: HostPort::new("127.0.0.1", 5672),
            tls: false,
            ca: None,
            cert: None,
            key: None,
            vhost: "/".to_owned(),
            username: "guest".to_owned(),
            password: None,
            exchange: String::new(),
            priority: None,
            dropping_loses_messages: false,
        }
    }
}

impl RabbitmqConfig {
    pub(super) fn access(&self) -> RabbitmqAccess<'_> {
        let off = (!self.tls).then_some(("tls", "`tls` is false"));
        RabbitmqAccess {
            server: &self.server,
            files: PemFiles {
                ca: self.ca.as_deref(),
                cert: self.cert.as_deref(),
                key: self.key.as_deref(),
                off,
            },
            vhost: &self.vhost,
            username: &self.username,
            password: self.password.as_ref(),
        }
    }
}

impl Section for RabbitmqConfig {
    fn validate(&self, at: &mut Faults) {
        self.access().validate(at);
        if self.exchange.len() > 255 {
            at.refuse("exchange", "the name of an exchange has at most 255 bytes");
        }
    }
}
