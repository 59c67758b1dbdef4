//! `[intake.NAME.kafka]`.

use delayq_service::brokers::{KafkaAccess, kafka_topic};
use delayq_service::config::{Faults, Section};

delayq_service::section! {
    /// `[intake.NAME.kafka]`: a topic of a cluster.
    pub struct KafkaIntakeConfig {
        ..access: KafkaAccess,
        /// The topic; default `delayq`.
        pub topic: String = "delayq".to_owned(),
        /// The consumer group that all compensators of this intake share; default `delayq`. A new group begins with the oldest
        /// record.
        pub group: String = "delayq".to_owned(),
    }
}

// === impl KafkaIntakeConfig ===

impl KafkaIntakeConfig {
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

impl Section for KafkaIntakeConfig {
    fn validate(&self, at: &mut Faults) {
        self.access.validate(at);
        if let Err(why) = kafka_topic(&self.topic) {
            at.refuse("topic", why);
        }
        if self.group.is_empty() || self.group.len() > 249 {
            at.refuse("group", "expected the name of a consumer group, of at most 249 bytes");
        }
    }
}
