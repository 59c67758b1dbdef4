//! What a queue of RabbitMQ was declared with.
//!
//! AMQP cannot read a queue's arguments, but the declaration of an existing queue is refused with the first argument that
//! differs, and its value. So the queue is declared with the arguments known so far until all agree: nothing changes, and
//! every argument is known. Each declaration has one argument that no queue can have, so that it does not create a queue that
//! was deleted meanwhile. This needs the right to configure.

use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ErrorKind};
use std::collections::BTreeMap;

/// More arguments than a queue can have.
const MAX_ROUNDS: usize = 24;
/// An argument that no queue can be created with.
const IMPOSSIBLE: (&str, &str) = ("x-queue-leader-locator", "nowhere");

/// The arguments that differ from those of a plain durable queue, with their values as text.
pub type RabbitmqArguments = BTreeMap<String, String>;

/// Finds the arguments of an existing queue; `None`: this user may not.
///
/// # Errors
/// Why they cannot be read.
pub async fn rabbitmq_arguments(
    connection: &Connection,
    queue: &str,
) -> Result<Option<RabbitmqArguments>, String> {
    let (mut known, mut table) = (RabbitmqArguments::new(), FieldTable::default());
    table.insert(IMPOSSIBLE.0.into(), AMQPValue::LongString(IMPOSSIBLE.1.into()));
    let mut options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    for _ in 0..MAX_ROUNDS {
        let channel = connection.create_channel().await.map_err(|error| rabbitmq_words(&error))?;
        match channel.queue_declare(queue.into(), options, table.clone()).await {
            Ok(_) => {
                let _ = channel.close(200, "checked".into()).await;
                return Ok(Some(known));
            }
            Err(error) if is_denied(&error) => return Ok(None),
            Err(error) => {
                let Some(difference) = difference(&error.to_string()) else {
                    return Err(rabbitmq_words(&error));
                };
                match difference.name.as_str() {
                    // This one is compared last: all others agree.
                    name if name == IMPOSSIBLE.0 => return Ok(Some(known)),
                    "durable" => options.durable = false,
                    "auto_delete" => options.auto_delete = true,
                    "exclusive" => options.exclusive = true,
                    name => drop(table.insert(name.into(), difference.amqp())),
                }
                known.insert(difference.name, difference.value);
            }
        }
    }
    Err(format!("the arguments of the queue `{queue}` could not be read"))
}

/// Why an operation failed: the broker's own words where there are some.
#[must_use]
pub fn rabbitmq_words(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(amqp) => amqp.get_message().to_string(),
        _ => error.to_string(),
    }
}

/// An argument that a refusal named.
struct Difference {
    name: String,
    value: String,
    kind: String,
}

// === impl Difference ===

impl Difference {
    fn amqp(&self) -> AMQPValue {
        match (self.kind.as_str(), self.value.parse::<i64>()) {
            ("bool", _) => AMQPValue::Boolean(self.value == "true"),
            ("longstr", _) | (_, Err(_)) => AMQPValue::LongString(self.value.as_str().into()),
            (_, Ok(number)) => AMQPValue::LongLongInt(number),
        }
    }
}

/// Reads `inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the value '10' of
/// type 'signedint'`.
fn difference(text: &str) -> Option<Difference> {
    let quoted = |after: &str| {
        let rest = &text[text.find(after)? + after.len()..];
        rest.split('\'').nth(1).map(str::to_owned)
    };
    let name = quoted("inequivalent arg")?;
    let value = quoted("but current is")?;
    let kind = quoted("of type").unwrap_or_default();
    Some(Difference { name, value, kind })
}

fn is_denied(error: &lapin::Error) -> bool {
    let denied = AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED);
    matches!(error.kind(), ErrorKind::ProtocolError(amqp) if *amqp.kind() == denied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_the_argument_and_its_value() {
        let text = "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but \
                    current is the value '10' of type 'signedint'";
        let found = difference(text).unwrap();
        assert_eq!(
            (found.name.as_str(), found.value.as_str(), found.kind.as_str()),
            ("x-max-length", "10", "signedint")
        );
        assert!(difference("NOT_FOUND - no queue 'q' in vhost '/'").is_none());
    }

    #[test]
    fn an_argument_is_declared_again_with_its_type() {
        for (value, kind, expected) in [
            ("true", "bool", AMQPValue::Boolean(true)),
            ("10", "signedint", AMQPValue::LongLongInt(10)),
            ("10", "longstr", AMQPValue::LongString("10".into())),
        ] {
            let found = Difference { name: "x-a".to_owned(), value: value.to_owned(), kind: kind.to_owned() };
            assert_eq!(found.amqp(), expected);
        }
    }
}
