//! What a queue does with messages that it has confirmed.
//!
//! AMQP cannot read a queue's arguments, but the declaration of an existing queue is refused with the first argument that
//! differs, and its value. So the queue is declared with the arguments known so far until all agree: nothing changes, and
//! every argument that can lose messages is known. Each declaration has one argument that no queue can have, so that it does
//! not create a queue that was deleted meanwhile. This needs the right to configure, which a forwarder need not have:
//! without it a warning says what could not be checked.

use super::connection::connect;
use super::{RabbitmqConfig, encode};
use crate::CheckError;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ErrorKind};
use std::collections::BTreeMap;

/// More arguments than a queue can have.
const MAX_ROUNDS: usize = 24;
/// An argument that no queue can be created with.
const IMPOSSIBLE: (&str, &str) = ("x-queue-leader-locator", "nowhere");

type Arguments = BTreeMap<String, String>;

/// Checks the exchange, and the queue if the destination is one.
pub(super) async fn check(
    config: &RabbitmqConfig,
    destination: Option<&str>,
) -> Result<Vec<String>, CheckError> {
    if let Some(key) = destination {
        encode::routing_key(&config.exchange, key).map_err(CheckError::Refused)?;
    }
    let connection = connect(config).await.map_err(CheckError::Unreachable)?;
    let checked = check_over(&connection, config, destination).await;
    let _ = connection.close(200, "checked".into()).await;
    checked
}

async fn check_over(
    connection: &Connection,
    config: &RabbitmqConfig,
    destination: Option<&str>,
) -> Result<Vec<String>, CheckError> {
    if !config.exchange.is_empty() {
        let channel = connection.create_channel().await.map_err(unreachable)?;
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let kind = lapin::ExchangeKind::Direct;
        let name = config.exchange.as_str().into();
        channel.exchange_declare(name, kind, options, FieldTable::default()).await.map_err(unreachable)?;
        let exchange = &config.exchange;
        return Ok(vec![format!(
            "the queues behind the exchange `{exchange}` cannot be checked: make sure that none has x-max-length with \
             drop-head"
        )]);
    }
    match destination {
        None => Ok(Vec::new()),
        Some(queue) => {
            let channel = connection.create_channel().await.map_err(unreachable)?;
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(queue.into(), passive, FieldTable::default()).await.map_err(unreachable)?;
            match arguments(connection, queue).await? {
                Some(arguments) => {
                    judge(queue, &arguments, config.dropping_loses_messages).map_err(CheckError::Refused)
                }
                None => Ok(vec![format!(
                    "the arguments of the queue `{queue}` cannot be seen: `{}` may not configure it. See to it that it is \
                     durable and has no x-max-length with drop-head",
                    config.username
                )]),
            }
        }
    }
}

/// Finds the arguments of an existing queue; `None`: this user may not.
async fn arguments(connection: &Connection, queue: &str) -> Result<Option<Arguments>, CheckError> {
    let (mut known, mut table) = (Arguments::new(), FieldTable::default());
    table.insert(IMPOSSIBLE.0.into(), AMQPValue::LongString(IMPOSSIBLE.1.into()));
    let mut options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    for _ in 0..MAX_ROUNDS {
        let channel = connection.create_channel().await.map_err(unreachable)?;
        match channel.queue_declare(queue.into(), options, table.clone()).await {
            Ok(_) => {
                let _ = channel.close(200, "checked".into()).await;
                return Ok(Some(known));
            }
            Err(error) if is_denied(&error) => return Ok(None),
            Err(error) => {
                let text = error.to_string();
                let Some(difference) = difference(&text) else { return Err(unreachable(error)) };
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
    Err(CheckError::Unreachable(format!("the arguments of the queue `{queue}` could not be read")))
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

/// Judges the arguments of a queue.
fn judge(queue: &str, arguments: &Arguments, drop_accepted: bool) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    if arguments.contains_key("durable") {
        return Err(format!(
            "the queue `{queue}` is not durable: what it confirmed is gone when the broker restarts"
        ));
    }
    let overflow = arguments.get("x-overflow").map_or("drop-head", String::as_str);
    for bound in ["x-max-length", "x-max-length-bytes"] {
        let Some(value) = arguments.get(bound) else { continue };
        if overflow != "drop-head" {
            continue;
        }
        let loses = format!(
            "the queue `{queue}` has {bound}={value} with drop-head: full, it confirms a message and drops an older one"
        );
        if drop_accepted {
            warnings.push(format!("{loses}, as configured"));
        } else {
            return Err(format!(
                "{loses}; set x-overflow=reject-publish, or dropping_loses_messages = true where that is meant"
            ));
        }
    }
    for (name, what) in [
        ("x-message-ttl", "messages that wait longer (ms) are dropped"),
        ("x-expires", "the queue is deleted when it is unused so long (ms)"),
        ("auto_delete", "the queue is deleted when its last consumer goes"),
    ] {
        if let Some(value) = arguments.get(name) {
            warnings.push(format!("the queue `{queue}` has {name}={value}: {what}"));
        }
    }
    Ok(warnings)
}

fn is_denied(error: &lapin::Error) -> bool {
    let denied = AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED);
    matches!(error.kind(), ErrorKind::ProtocolError(amqp) if *amqp.kind() == denied)
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn unreachable(error: lapin::Error) -> CheckError {
    match error.kind() {
        ErrorKind::ProtocolError(amqp) => CheckError::Unreachable(amqp.get_message().to_string()),
        _ => CheckError::Unreachable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(pairs: &[(&str, &str)]) -> Arguments {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

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
    fn a_queue_that_confirms_and_drops_is_refused_by_the_name_of_its_argument() {
        for (pairs, accepted, expected) in [
            (&[][..], false, Ok(0)),
            (&[("x-max-length", "10")][..], false, Err("x-max-length=10 with drop-head")),
            (&[("x-max-length", "10")][..], true, Ok(1)),
            (&[("x-max-length", "10"), ("x-overflow", "reject-publish")][..], false, Ok(0)),
            (&[("durable", "false")][..], true, Err("is not durable")),
            (&[("x-message-ttl", "10"), ("x-expires", "10")][..], false, Ok(2)),
        ] {
            match (judge("q", &arguments(pairs), accepted), expected) {
                (Ok(warnings), Ok(count)) => assert_eq!(warnings.len(), count),
                (Err(refusal), Err(part)) => assert!(refusal.contains(part), "{refusal}"),
                (found, _) => panic!("{pairs:?}: {found:?}"),
            }
        }
    }
}
