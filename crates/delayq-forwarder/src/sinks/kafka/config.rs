//! `[sinks.NAME.kafka]`.

use delayq_service::brokers::KafkaAccess;
use delayq_service::config::{Faults, HumanDuration, Section};

delayq_service::section! {
    /// `[sinks.NAME.kafka]`: a cluster. The destination is the topic.
    pub struct KafkaConfig {
        ..access: KafkaAccess,
        /// How long a message waits for others to share its request: 0 s to 1 s; default 1 ms.
        pub linger: HumanDuration = HumanDuration::from_millis(1),
        /// Maximum bytes of one message: 1 KiB to 1 GiB as the brokers allow; default 1,048,576.
        pub max_bytes: u32 = 1_048_576,
        /// Whether to choose partitions like the Java client; default true.
        pub java_partitions: bool = true,
    }
}

impl Section for KafkaConfig {
    fn validate(&self, at: &mut Faults) {
        self.access.validate(at);
        at.range("linger", &self.linger, HumanDuration::from_millis(0)..=HumanDuration::from_secs(1));
        at.range("max_bytes", &self.max_bytes, 1024..=1_000_000_000);
    }
}
