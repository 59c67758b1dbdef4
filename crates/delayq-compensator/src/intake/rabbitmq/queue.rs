//! The queue has to exist and to keep the order: with a single active consumer and no priorities.
//!
//! A single active consumer is a property of the queue: of any number of consuming compensators, the broker hands records to
//! one, and to the next only after the first is gone. An exclusive consumer would do the same, but the others would be
//! refused again and again instead of waiting.

use delayq_service::brokers::{RabbitmqArguments, rabbitmq_arguments};
use lapin::Connection;

const SINGLE: &str = "x-single-active-consumer";
const PRIORITIES: &str = "x-max-priority";
const KIND: &str = "x-queue-type";

/// Refuses a queue that does not keep the order, as far as this user may see the arguments.
pub(super) async fn keeps_order(connection: &Connection, queue: &str) -> Result<(), String> {
    match rabbitmq_arguments(connection, queue).await {
        Ok(arguments) => judge(queue, &arguments),
        Err(why) => {
            tracing::warn!(
                queue,
                why,
                "cannot read the arguments of the queue: make sure that it has {SINGLE} and no {PRIORITIES}"
            );
            Ok(())
        }
    }
}

fn judge(queue: &str, arguments: &RabbitmqArguments) -> Result<(), String> {
    if arguments.get(KIND).is_some_and(|kind| kind == "stream") {
        return Err(format!(
            "the queue `{queue}` is a stream, which keeps records after their acks: use a quorum queue or a classic one"
        ));
    }
    if let Some(most) = arguments.get(PRIORITIES) {
        return Err(format!(
            "the queue `{queue}` has {PRIORITIES}={most}, which breaks the order of its records"
        ));
    }
    if arguments.get(SINGLE).is_none_or(|single| single != "true") {
        return Err(format!(
            "the queue `{queue}` was declared without {SINGLE}, so several consumers would break the order of its \
             records: declare it again with {SINGLE}=true"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_a_single_active_consumer_and_no_priorities() {
        for (arguments, expected) in [
            (&[][..], Some("without x-single-active-consumer")),
            (&[(SINGLE, "false")], Some("without x-single-active-consumer")),
            (&[(SINGLE, "true")], None),
            (&[(SINGLE, "true"), (KIND, "quorum")], None),
            (&[(KIND, "stream")], Some("is a stream")),
            (&[(SINGLE, "true"), (PRIORITIES, "10")], Some("x-max-priority=10")),
        ] {
            let arguments =
                arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            match (judge("in", &arguments), expected) {
                (Ok(()), None) => {}
                (Err(why), Some(part)) => assert!(why.contains(part), "{why}"),
                (found, _) => panic!("{arguments:?}: {found:?}"),
            }
        }
    }
}
