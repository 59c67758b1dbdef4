//! The arguments of an existing RabbitMQ queue.
//!
//! AMQP cannot read a queue's arguments, but the declaration of an existing queue is refused with the first argument
//! that differs, and its value. So the queue is declared with the arguments known so far until all agree: nothing
//! changes, and every argument is known. Each declaration has an argument that no queue can have, so that a queue
//! deleted meanwhile is not created again. Declaring requires the right to configure.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ErrorKind};
use std::collections::BTreeMap;

/// More than the number of arguments that a queue can have.
const MAX_ROUNDS: usize = 24;
/// An argument that no queue can be created with.
const IMPOSSIBLE: (&str, &str) = ("x-queue-leader-locator", "nowhere");

/// The arguments that differ from a plain durable queue, with values as text.
pub type RabbitmqArguments = BTreeMap<String, String>;

/// Finds the arguments of an existing queue.
///
/// # Errors
/// Why the arguments cannot be read: usually, this user may not configure the queue. The queue remains usable.
pub async fn rabbitmq_arguments(connection: &Connection, queue: &str) -> Result<RabbitmqArguments, String> {
    let (mut known, mut table) = (RabbitmqArguments::new(), FieldTable::default());
    table.insert(IMPOSSIBLE.0.into(), AMQPValue::LongString(IMPOSSIBLE.1.into()));
    let mut options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    for _ in 0..MAX_ROUNDS {
        let channel = connection.create_channel().await.map_err(|error| rabbitmq_words(&error))?;
        match channel.queue_declare(queue.into(), options, table.clone()).await {
            Ok(_) => {
                let _ = channel.close(200, "checked".into()).await;
                return Ok(known);
            }
            Err(error) => {
                let words = rabbitmq_words(&error);
                // The broker compares this argument last: all others agree.
                if names(&words) == Some(IMPOSSIBLE.0) {
                    return Ok(known);
                }
                let Some(difference) = difference(&words) else { return Err(words) };
                match difference.name.as_str() {
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

/// The cause of a failed operation, in the broker's words if available.
#[must_use]
pub fn rabbitmq_words(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(amqp) => amqp.get_message().to_string(),
        _ => error.to_string(),
    }
}

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
    let name = names(text)?.to_owned();
    let (_, current) = text.split_once("but current is")?;
    let kind = quoted(current, "of type").unwrap_or_default().to_owned();
    Some(Difference { name, value: quoted(current, "")?.to_owned(), kind })
}

/// The argument in a refusal, either different or invalid.
fn names(text: &str) -> Option<&str> {
    quoted(text, "inequivalent arg").or_else(|| quoted(text, "invalid arg"))
}

/// The first quoted text after these words.
fn quoted<'t>(text: &'t str, after: &str) -> Option<&'t str> {
    let rest = &text[text.find(after)? + after.len()..];
    rest.split('\'').nth(1)
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
        let own = "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue 'q' in vhost '/': received the value '5' of type \
                   'long' but current is the value '10' of type 'signedint'";
        let found = difference(own).unwrap();
        assert_eq!((found.value.as_str(), found.kind.as_str()), ("10", "signedint"));
    }

    #[test]
    fn the_argument_that_no_queue_has_is_known_however_a_broker_refuses_it() {
        for text in [
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-leader-locator' for queue 'q' in vhost '/': received the value \
             'nowhere' of type 'longstr' but current is none",
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-leader-locator' for queue 'q' in vhost '/': received 'nowhere' but \
             current is 'balanced'",
            "PRECONDITION_FAILED - invalid arg 'x-queue-leader-locator' for queue 'q' in vhost '/': \"nowhere\" is not valid",
        ] {
            assert_eq!(names(text), Some(IMPOSSIBLE.0), "{text}");
        }
        assert_eq!(names("ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused"), None);
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
