//! `[sinks.NAME.nats]`.

use delayq_service::brokers::NatsAccess;
use delayq_service::config::{Faults, Section};

delayq_service::section! {
    /// `[sinks.NAME.nats]`: a server or cluster with JetStream. The destination is the subject.
    pub struct NatsConfig {
        ..access: NatsAccess,
        /// Accepts a full stream that drops its oldest messages; default false.
        pub dropping_loses_messages: bool = false,
    }
}

impl Section for NatsConfig {
    fn validate(&self, at: &mut Faults) {
        self.access.validate(at);
    }
}
