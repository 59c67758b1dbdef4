//! `[sinks.NAME.nats]`.

use delayq_service::brokers::NatsAccess;
use delayq_service::config::{Faults, Section};
use serde::{Deserialize, Serialize};

delayq_service::section! {
    /// `[sinks.NAME.nats]`: a server or cluster. The destination is the subject.
    pub struct NatsConfig {
        ..access: NatsAccess,
        /// `jetstream`, with acks, or `core`, which delivers at most once to current subscribers; default jetstream.
        pub mode: NatsMode = NatsMode::Jetstream,
        /// Accepts a full stream that drops its oldest messages; default false.
        pub dropping_loses_messages: bool = false,
    }
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

impl Section for NatsConfig {
    fn validate(&self, at: &mut Faults) {
        self.access.validate(at);
    }
}
