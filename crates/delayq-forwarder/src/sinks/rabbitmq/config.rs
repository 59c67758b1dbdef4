//! `[sinks.NAME.rabbitmq]`.

use delayq_service::config::{Faults, HostPort, Secret, Section};
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
    /// PEM file of the authority that signed the server's certificate; unset: those of the system. Needs `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Virtual host; default `/`.
    pub vhost: String,
    /// User; default `guest`.
    pub username: String,
    /// Password; unset: `guest`. Read again for each connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Exchange; default the broker's default one, written `""`.
    pub exchange: String,
    /// Priority of each message, 0 to 255, where the queue has priorities; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Accepts a queue that drops its oldest messages when it is full; default false.
    pub dropping_loses_messages: bool,
}

impl Default for RabbitmqConfig {
    fn default() -> Self {
        Self {
            server: HostPort::new("127.0.0.1", 5672),
            tls: false,
            ca: None,
            vhost: "/".to_owned(),
            username: "guest".to_owned(),
            password: None,
            exchange: String::new(),
            priority: None,
            dropping_loses_messages: false,
        }
    }
}

impl Section for RabbitmqConfig {
    fn validate(&self, at: &mut Faults) {
        at.secret("password", self.password.as_ref());
        if self.username != Self::default().username && self.password.is_none() {
            at.contradiction(&["username", "password"], "a user needs a password");
        }
        if self.ca.is_some() && !self.tls {
            at.contradiction(&["ca", "tls"], "`ca` is for TLS, but `tls` is false");
        }
        if self.exchange.len() > 255 {
            at.refuse("exchange", "the name of an exchange has at most 255 bytes");
        }
    }
}
