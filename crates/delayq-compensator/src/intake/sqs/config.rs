//! `[intake.NAME.sqs]`.

use delayq_service::brokers::{SqsAccess, is_sqs_fifo, sqs_queue};
use delayq_service::config::{Faults, HumanDuration, Section};

delayq_service::section! {
    /// `[intake.NAME.sqs]`: a queue of Amazon SQS in one region.
    pub struct SqsIntakeConfig {
        ..access: SqsAccess,
        /// The name of the queue; default `delayq.fifo`.
        pub queue: String = "delayq.fifo".to_owned(),
        /// Whether the queue may hand records out in any order; default false, which needs a FIFO queue.
        pub any_order: bool = false,
        /// How long a record is hidden from other compensators, extended while this one works: a killed compensator's records
        /// are taken in after this time. 10 s to 12 h; default 30 s.
        pub visibility: HumanDuration = HumanDuration::from_secs(30),
    }
}

// === impl SqsIntakeConfig ===

impl SqsIntakeConfig {
    /// Checks the queue of the dead records.
    pub(crate) fn check_dead(&self, dead: &str, at: &mut Faults) {
        if dead == self.queue {
            at.contradiction(&["dead", "sqs.queue"], "dead records would be taken in again, without end");
        } else if let (false, Err(why)) = (dead.is_empty(), sqs_queue(dead)) {
            at.refuse("dead", why);
        }
    }
}

impl Section for SqsIntakeConfig {
    fn validate(&self, at: &mut Faults) {
        self.access.validate(at);
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
