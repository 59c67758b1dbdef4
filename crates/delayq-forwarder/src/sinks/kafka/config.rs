//! `[sinks.NAME.kafka]`.

use delayq_service::config::{Faults, HumanDuration, PemFiles, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[sinks.NAME.kafka]`: a cluster. The destination is the topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaConfig {
    /// `host:port` of some brokers; default `127.0.0.1:9092`.
    pub brokers: Vec<String>,
    /// How long a message waits for others to share its request: 0 s to 1 s; default 1 ms.
    pub linger: HumanDuration,
    /// Maximum bytes of one message: 1 KiB to 1 GiB as the brokers allow; default 1,048,576.
    pub max_bytes: u32,
    /// Whether keys go to the partitions that the Java client would choose; default true.
    pub java_partitions: bool,
    /// Whether to speak TLS; default false.
    pub tls: bool,
    /// PEM file of the authority that signed the brokers' certificates; unset: those of the system. Needs `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, for a server that asks for one; needs `key` and `tls`.
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
    /// Password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
}

impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            brokers: vec!["127.0.0.1:9092".to_owned()],
            linger: HumanDuration::from_millis(1),
            max_bytes: 1_048_576,
            java_partitions: true,
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

impl KafkaConfig {
    /// The files of its certificates.
    pub(super) fn pem_files(&self) -> PemFiles<'_> {
        let off = (!self.tls).then_some(("tls", "`tls` is false"));
        PemFiles { ca: self.ca.as_deref(), cert: self.cert.as_deref(), key: self.key.as_deref(), off }
    }
}

impl Section for KafkaConfig {
    fn validate(&self, at: &mut Faults) {
        if self.brokers.is_empty() || self.brokers.iter().any(|broker| !broker.contains(':')) {
            at.refuse("brokers", "expected \"host:port\" of one broker at least");
        } else if self.brokers.iter().any(|broker| broker.contains('@')) {
            at.refuse("brokers", "expected \"host:port\", and secrets in keys of their own");
        }
        at.range("linger", &self.linger, HumanDuration::from_millis(0)..=HumanDuration::from_secs(1));
        at.range("max_bytes", &self.max_bytes, 1024..=1_000_000_000);
        at.secret("password", self.password.as_ref());
        self.pem_files().validate(at);
        match self.mechanism.as_deref() {
            None if self.username.is_some() || self.password.is_some() => {
                at.contradiction(&["username", "mechanism"], "a user needs a `mechanism`");
            }
            Some("PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512")
                if self.username.is_none() || self.password.is_none() =>
            {
                at.contradiction(
                    &["mechanism", "username", "password"],
                    "a login needs `username` and `password`",
                );
            }
            None | Some("PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512") => {}
            Some(_) => at.refuse("mechanism", "expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
        }
    }
}
