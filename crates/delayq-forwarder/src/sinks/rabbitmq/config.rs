//! `[sinks.NAME.rabbitmq]`.

use delayq_service::brokers::RabbitmqAccess;
use delayq_service::config::{Faults, Section};

delayq_service::section! {
    /// `[sinks.NAME.rabbitmq]`: a broker. The destination is the routing key; with the default exchange it is a queue.
    pub struct RabbitmqConfig {
        ..access: RabbitmqAccess,
        /// Exchange; default `""`, the broker's default exchange.
        pub exchange: String = String::new(),
        /// Priority of each message, 0 to 255, where the queue has priorities; unset: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub priority: Option<u8> = None,
        /// Accepts a full queue that drops its oldest messages; default false.
        pub dropping_loses_messages: bool = false,
    }
}

impl Section for RabbitmqConfig {
    fn validate(&self, at: &mut Faults) {
        self.access.validate(at);
        if self.exchange.len() > 255 {
            at.refuse("exchange", "the name of an exchange has at most 255 bytes");
        }
    }
}
