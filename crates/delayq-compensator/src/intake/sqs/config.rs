//! `[intake.NAME.sqs]`.

use delayq_service::brokers::{SqsAccess, is_sqs_fifo, sqs_queue};
use delayq_service::config::{Faults, HumanDuration, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[intake.NAME.sqs]`: a queue of Amazon SQS in one region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SqsIntakeConfig {
    /// The region; default `us-east-1`.
    pub region: String,
    /// `https://host:port` or `http://host:port` of another server of the protocol; unset: Amazon's of the region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The name of the queue; default `delayq.fifo`.
    pub queue: String,
    /// Whether the queue may hand records out in any order; default false, which needs a FIFO queue.
    pub any_order: bool,
    /// How long a record is hidden from other compensators, extended while this one works: a killed compensator's records
    /// are taken in after this time. 10 s to 12 h; default 30 s.
    pub visibility: HumanDuration,
    /// The id of an access key; unset: the credentials of the environment, as Amazon's own tools find them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// The secret of `access_key`. Read again after a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<Secret>,
    /// The session token of temporary credentials; unset: none. Read again after a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token: Option<Secret>,
    /// PEM file of the authority that signed the server's certificate; unset: the authorities of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

// === impl SqsIntakeConfig ===

impl SqsIntakeConfig {
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

    /// Checks the queue of the dead records.
    pub(crate) fn check_dead(&self, dead: &str, at: &mut Faults) {
        if dead == self.queue {
            at.contradiction(&["dead", "sqs.queue"], "dead records would be taken in again, without end");
        } else if let (false, Err(why)) = (dead.is_empty(), sqs_queue(dead)) {
            at.refuse("dead", why);
        }
    }
}

impl Default for SqsIntakeConfig {
    fn default() -> Self {
        Self {
            region: "us-east-1".to_owned(),
            endpoint: None,
            queue: "delayq.fifo".to_owned(),
            any_order: false,
            visibility: HumanDuration::from_secs(30),
            access_key: None,
            secret_key: None,
            session_token: None,
            ca: None,
        }
    }
}

impl Section for SqsIntakeConfig {
    fn validate(&self, at: &mut Faults) {
        self.access().validate(at);
        match sqs_queue(&self.queue) {
            Err(why) => at.refuse("queue", why),
            Ok(()) if !self.any_order && !is_sqs_fifo(&self.queue) => at.contradiction(
                &["queue", "any_order"],
                "only a FIFO queue, whose name ends with .fifo, keeps the order of a message's records: set \
                 `any_order = true` if none depends on another",
            ),
            Ok(()) => {}
        }
        let visibility = HumanDuration::from_secs(10)..=HumanDuration::from_secs(43_200);
        at.range("visibility", &self.visibility, visibility);
    }
}
