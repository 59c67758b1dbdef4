//! Checks of a stream: settings that lose acked messages.

use super::NatsConfig;
use crate::CheckError;
use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};

pub(super) async fn check(
    context: &jetstream::Context,
    config: &NatsConfig,
    destination: Option<&str>,
) -> Result<Vec<String>, CheckError> {
    let Some(subject) = destination else { return Ok(Vec::new()) };
    let missing =
        |error: String| CheckError::Unreachable(format!("no stream takes the subject `{subject}`: {error}"));
    let name = context.stream_by_subject(subject).await.map_err(|error| missing(error.to_string()))?;
    let stream = context.get_stream(&name).await.map_err(|error| missing(error.to_string()))?;
    judge(&stream.cached_info().config, config.dropping_loses_messages).map_err(CheckError::Refused)
}

pub(super) fn unseen(destination: Option<&str>, words: &str) -> String {
    let subject = destination.unwrap_or("*");
    format!(
        "cannot read the stream of the subject `{subject}` ({words}): make sure that it exists, has no \
         no_ack, and does not drop messages with discard=old; or allow $JS.API.STREAM.NAMES and \
         $JS.API.STREAM.INFO.*"
    )
}

pub(super) fn judge(stream: &Config, drop_accepted: bool) -> Result<Vec<String>, String> {
    let name = &stream.name;
    if stream.no_ack {
        return Err(format!("the stream `{name}` has no_ack: messages are never confirmed"));
    }
    let mut warnings = Vec::new();
    let bounds = [
        ("max_msgs", stream.max_messages),
        ("max_bytes", stream.max_bytes),
        ("max_msgs_per_subject", stream.max_messages_per_subject),
    ];
    for (bound, value) in bounds {
        if value <= 0 || stream.discard != DiscardPolicy::Old {
            continue;
        }
        let loses = format!(
            "the stream `{name}` has {bound}={value} with discard=old: when full, the stream acks a message and drops an older message"
        );
        if !drop_accepted {
            return Err(format!(
                "{loses}; set discard=new, or dropping_loses_messages = true to accept that"
            ));
        }
        warnings.push(format!("{loses}, as configured"));
    }
    if stream.storage == StorageType::Memory {
        warnings.push(format!("the stream `{name}` has storage=memory: lost when the server restarts"));
    }
    if !stream.max_age.is_zero() {
        warnings.push(format!(
            "the stream `{name}` has max_age={:?}: older messages are dropped unread",
            stream.max_age
        ));
    }
    if stream.retention == RetentionPolicy::Interest {
        warnings.push(format!(
            "the stream `{name}` has retention=interest: without a consumer, messages are acked and dropped"
        ));
    }
    if stream.num_replicas <= 1 && stream.storage == StorageType::File {
        warnings.push(format!(
            "the stream `{name}` has one replica, and the server fsyncs only periodically: a power cut loses \
             messages acked since the last fsync"
        ));
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Config {
        Config { name: "s".to_owned(), num_replicas: 3, discard: DiscardPolicy::Old, ..Config::default() }
    }

    #[test]
    fn a_stream_that_acks_and_drops_is_refused_by_the_name_of_its_setting() {
        for (config, part) in [
            (Config { max_messages: 10, ..stream() }, "max_msgs=10 with discard=old"),
            (Config { max_bytes: 10, ..stream() }, "max_bytes=10 with discard=old"),
            (Config { max_messages_per_subject: 1, ..stream() }, "max_msgs_per_subject=1 with discard=old"),
            (Config { no_ack: true, ..stream() }, "no_ack"),
        ] {
            let refusal = judge(&config, false).unwrap_err();
            assert!(refusal.contains(part), "{refusal}");
        }
        assert_eq!(judge(&Config { max_messages: 10, ..stream() }, true).unwrap().len(), 1);
        assert_eq!(
            judge(&Config { max_messages: 10, discard: DiscardPolicy::New, ..stream() }, false),
            Ok(vec![])
        );
        assert_eq!(judge(&Config { storage: StorageType::Memory, ..stream() }, false).unwrap().len(), 1);
    }
}
