//! `[sinks.NAME.sqs]`.

use delayq_service::brokers::SqsAccess;
use delayq_service::config::{Faults, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[sinks.NAME.sqs]`: Amazon SQS in one region. The destination is the name of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SqsConfig {
    /// The region; default `us-east-1`.
    pub region: String,
    /// `https://host:port` or `http://host:port` of another server of the protocol; unset: Amazon's of the region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The id of an access key; unset: the credentials of the environment, as Amazon's own tools find them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// The secret of `access_key`. Read again after a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<Secret>,
    /// The session token of temporary credentials; unset: none. Read again after a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token: Option<Secret>,
    /// PEM file of the authority that signed the server's certificate; unset: the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

impl Default for SqsConfig {
    fn default() -> Self {
        Self {
            region: "us-east-1".to_owned(),
            endpoint: None,
            access_key: None,
            secret_key: None,
            session_token: None,
            ca: None,
        }
    }
}

impl SqsConfig {
    pub(super) fn access(&self) -> SqsAccess<'_> {
        SqsAccess {
            region: &self.region,
            endpoint: self.endpoint.as_deref(),
            access_key: self.access_key.as_deref(),
            secret_key: self.secret_key.as_ref(),
            session_token: self.session_token.as_ref(),
            ca: self.ca.as_deref(),
        }
    }
}

impl Section for SqsConfig {
    fn validate(&self, at: &mut Faults) {
        self.access().validate(at);
    }
}
