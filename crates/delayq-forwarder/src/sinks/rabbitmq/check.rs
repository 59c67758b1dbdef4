//! Checks of a queue: settings that lose confirmed messages.
//!
//! Reading the queue's arguments requires the right to configure the queue. Without that right a warning names the
//! missing check.

use super::RabbitmqConfig;
use crate::CheckError;
use delayq_service::brokers::{
    RabbitmqArguments, close_rabbitmq, rabbitmq_arguments, rabbitmq_destination, rabbitmq_key, rabbitmq_words,
};
use lapin::Connection;

pub(super) async fn check(
    config: &RabbitmqConfig,
    destination: Option<&str>,
) -> Result<Vec<String>, CheckError> {
    if let Some(key) = destination {
        rabbitmq_key(&config.exchange, key).map_err(CheckError::Refused)?;
    }
    let connection = config.access.connect("delayq-forwarder").await.map_err(CheckError::Unreachable)?;
    let checked = check_over(&connection, config, destination).await;
    let _ = close_rabbitmq(&connection).await;
    checked
}

async fn check_over(
    connection: &Connection,
    config: &RabbitmqConfig,
    destination: Option<&str>,
) -> Result<Vec<String>, CheckError> {
    let exchange = &config.exchange;
    if destination.is_none() && exchange.is_empty() {
        return Ok(Vec::new());
    }
    let key = destination.unwrap_or_default();
    let unreachable = |error: lapin::Error| CheckError::Unreachable(rabbitmq_words(&error));
    let channel = connection.create_channel().await.map_err(unreachable)?;
    rabbitmq_destination(&channel, exchange, key).await.map_err(CheckError::Unreachable)?;
    if !exchange.is_empty() {
        return Ok(vec![format!(
            "cannot check the queues behind the exchange `{exchange}`: make sure that none has x-max-length \
             with drop-head"
        )]);
    }
    match rabbitmq_arguments(connection, key).await {
        Ok(arguments) => judge(key, &arguments, config.dropping_loses_messages).map_err(CheckError::Refused),
        Err(why) => Ok(vec![format!(
            "`{}` cannot read the arguments of the queue `{key}`: {why}. Make sure that the queue is durable and has \
             no x-max-length with drop-head",
            config.access.user()
        )]),
    }
}

fn judge(queue: &str, arguments: &RabbitmqArguments, drop_accepted: bool) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    if arguments.contains_key("durable") {
        return Err(format!(
            "the queue `{queue}` is not durable: confirmed messages are lost when the broker restarts"
        ));
    }
    let overflow = arguments.get("x-overflow").map_or("drop-head", String::as_str);
    for bound in ["x-max-length", "x-max-length-bytes"] {
        let Some(value) = arguments.get(bound) else { continue };
        if overflow != "drop-head" {
            continue;
        }
        let loses = format!(
            "the queue `{queue}` has {bound}={value} with drop-head: when full, the queue confirms a message and drops an older message"
        );
        if drop_accepted {
            warnings.push(format!("{loses}, as configured"));
        } else {
            return Err(format!(
                "{loses}; set x-overflow=reject-publish, or dropping_loses_messages = true to accept that"
            ));
        }
    }
    for (name, what) in [
        ("x-message-ttl", "messages that wait longer (ms) are dropped"),
        ("x-expires", "the queue is deleted after this time without use (ms)"),
        ("auto_delete", "the queue is deleted with its last consumer"),
    ] {
        if let Some(value) = arguments.get(name) {
            warnings.push(format!("the queue `{queue}` has {name}={value}: {what}"));
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(pairs: &[(&str, &str)]) -> RabbitmqArguments {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
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
