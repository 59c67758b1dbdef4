//! `[intake.NAME.rabbitmq]`.

use delayq_service::brokers::{RabbitmqAccess, rabbitmq_key};
use delayq_service::config::{Faults, HostPort, PemFiles, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[intake.NAME.rabbitmq]`: a queue of a broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RabbitmqIntakeConfig {
    /// Host and port; default `127.0.0.1:5672`.
    pub server: HostPort,
    /// The queue, declared with `x-single-active-consumer`; default `delayq`.
    pub queue: String,
    /// The exchange for dead records, with `dead` as the routing key; default the broker's default exchange, written `""`:
    /// `dead` is a queue.
    pub dead_exchange: String,
    /// Uses TLS; default false.
    pub tls: bool,
    /// PEM file of the authority that signed the server's certificate; unset: the authorities of the system. Needs `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, if the server requests a certificate; needs `key` and `tls`.
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
}

// === impl RabbitmqIntakeConfig ===

impl RabbitmqIntakeConfig {
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

    /// Checks the routing key of the dead records.
    pub(crate) fn check_dead(&self, dead: &str, at: &mut Faults) {
        if self.dead_exchange.is_empty() && dead == self.queue {
            at.contradiction(
                &["dead", "rabbitmq.queue"],
                "dead records would be taken in again in an endless loop",
            );
        } else if let (false, Err(why)) = (dead.is_empty(), rabbitmq_key(&self.dead_exchange, dead)) {
            at.refuse("dead", why);
        }
    }
}

impl Default for RabbitmqIntakeConfig {
    fn default() -> Self {
        Self {
            server: HostPort::new("127.0.0.1", 5672),
            queue: "delayq".to_owned(),
            dead_exchange: String::new(),
            tls: false,
            ca: None,
            cert: None,
            key: None,
            vhost: "/".to_owned(),
            username: "guest".to_owned(),
            password: None,
        }
    }
}

impl Section for RabbitmqIntakeConfig {
    fn validate(&self, at: &mut Faults) {
        self.access().validate(at);
        if !(1..=255).contains(&self.queue.len()) {
            at.refuse("queue", "expected the name of a queue, of at most 255 bytes");
        }
        if self.dead_exchange.len() > 255 {
            at.refuse("dead_exchange", "the name of an exchange has at most 255 bytes");
        }
    }
}
