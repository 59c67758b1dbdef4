//! `[sinks.NAME.kafka]`.

use delayq_service::brokers::KafkaAccess;
use delayq_service::config::{Faults, Section};

delayq_service::section! {
    /// `[sinks.NAME.kafka]`: a cluster. The destination is the topic.
    pub struct KafkaConfig {
        ..access: KafkaAccess,
        /// Maximum bytes of one message: 1 KiB to 1 GiB as the brokers allow; default 1,048,576.
        pub max_bytes: u32 = 1_048_576,
    }
}

impl Section for KafkaConfig {
    fn validate(&self, at: &mut Faults) {
        self.access.validate(at);
        at.range("max_bytes", &self.max_bytes, 1024..=1_000_000_000);
    }
}
