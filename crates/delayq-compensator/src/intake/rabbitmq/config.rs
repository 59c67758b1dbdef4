//! `[intake.NAME.rabbitmq]`.

use delayq_service::brokers::{RabbitmqAccess, rabbitmq_key};
use delayq_service::config::{Faults, Section};

delayq_service::section! {
    /// `[intake.NAME.rabbitmq]`: a queue of a broker.
    pub struct RabbitmqIntakeConfig {
        ..access: RabbitmqAccess,
        /// The queue, declared with `x-single-active-consumer`; default `delayq`.
        pub queue: String = "delayq".to_owned(),
        /// The exchange for dead records, with `dead` as the routing key; default the broker's default exchange, written `""`:
        /// `dead` is a queue.
        pub dead_exchange: String = String::new(),
    }
}

// === impl RabbitmqIntakeConfig ===

impl RabbitmqIntakeConfig {
    /// Checks the routing key of the dead records.
    pub(crate) fn check_dead(&self, dead: &str, at: &mut Faults) {
        if self.dead_exchange.is_empty() && dead == self.queue {
            at.contradiction(
                &["dead", "rabbitmq.queue"],
                "dead records would be taken in again in an endless loop",
            );
        } else if let (false, Err(why)) = (dead.is_empty(), rabbitmq_key(&self.dead_exchange, dead)) {
            at.refuse("dead", why);
        }
    }
}

impl Section for RabbitmqIntakeConfig {
    fn validate(&self, at: &mut Faults) {
        self.access.validate(at);
        if !(1..=255).contains(&self.queue.len()) {
            at.refuse("queue", "expected the name of a queue, of at most 255 bytes");
        }
        if self.dead_exchange.len() > 255 {
            at.refuse("dead_exchange", "the name of an exchange has at most 255 bytes");
        }
    }
}
