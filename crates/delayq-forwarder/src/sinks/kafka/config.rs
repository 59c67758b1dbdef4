//! `[sinks.NAME.kafka]`.

use delayq_service::brokers::KafkaAccess;
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
    /// Whether to choose partitions like the Java client; default true.
    pub java_partitions: bool,
    /// Whether to speak TLS; default false.
    pub tls: bool,
    /// PEM file of the authority that signed the brokers' certificates; unset: the system's authorities. Needs `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, if the server requires one; needs `key` and `tls`.
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
}

impl Section for KafkaConfig {
    fn validate(&self, at: &mut Faults) {
        self.access().validate(at);
        at.range("linger", &self.linger, HumanDuration::from_millis(0)..=HumanDuration::from_secs(1));
        at.range("max_bytes", &self.max_bytes, 1024..=1_000_000_000);
    }
}
