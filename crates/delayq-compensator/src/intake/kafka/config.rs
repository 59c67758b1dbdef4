//! `[intake.NAME.kafka]`.

use delayq_service::brokers::{KafkaAccess, kafka_topic};
use delayq_service::config::{Faults, PemFiles, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[intake.NAME.kafka]`: a topic of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaIntakeConfig {
    /// `host:port` of some brokers; default `127.0.0.1:9092`.
    pub brokers: Vec<String>,
    /// The topic; default `delayq`.
    pub topic: String,
    /// The consumer group that all compensators of this intake share; default `delayq`. A new group begins with the oldest
    /// record.
    pub group: String,
    /// Uses TLS; default false.
    pub tls: bool,
    /// PEM file of the authority that signed the brokers' certificates; unset: the authorities of the system. Needs `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, if the server requests a certificate; needs `key` and `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the private key of `cert`, without a passphrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`, with user and password; unset: no login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// User.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password. Read again for each connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
}

// === impl KafkaIntakeConfig ===

impl KafkaIntakeConfig {
    /// The files for TLS.
    pub(super) fn pem_files(&self) -> PemFiles<'_> {
        let off = (!self.tls).then_some(("tls", "`tls` is false"));
        PemFiles { ca: self.ca.as_deref(), cert: self.cert.as_deref(), key: self.key.as_deref(), off }
    }

    pub(super) fn access(&self) -> KafkaAccess<'_> {
        KafkaAccess {
            brokers: &self.brokers,
            files: self.pem_files(),
            mechanism: self.mechanism.as_deref(),
            username: self.username.as_deref(),
            password: self.password.as_ref(),
        }
    }

    /// Checks the topic of the dead records.
    pub(crate) fn check_dead(&self, dead: &str, at: &mut Faults) {
        if dead == self.topic {
            at.contradiction(
                &["dead", "kafka.topic"],
                "dead records would be taken in again in an endless \
                 loop",
            );
        } else if let (false, Err(why)) = (dead.is_empty(), kafka_topic(dead)) {
            at.refuse("dead", why);
        }
    }
}

impl Default for KafkaIntakeConfig {
    fn default() -> Self {
        Self {
            brokers: vec!["127.0.0.1:9092".to_owned()],
            topic: "delayq".to_owned(),
            group: "delayq".to_owned(),
            tls: false,
            ca: None,
            cert: None,
            key: None,
            mechanism: None,
            username: None,
            password: None,
        }
    }
}

impl Section for KafkaIntakeConfig {
    fn validate(&self, at: &mut Faults) {
        self.access().validate(at);
        if let Err(why) = kafka_topic(&self.topic) {
            at.refuse("topic", why);
        }
        if self.group.is_empty() || self.group.len() > 249 {
            at.refuse("group", "expected the name of a consumer group, of at most 249 bytes");
        }
    }
}
